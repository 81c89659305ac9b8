// What the exchange needs of a network: messages between processes with fixed memory, made once and sent many times.
//
// One thread at a time calls a transport and its channels; which one may change. An implementation on MPI makes a
// persistent request of each channel (MPI_Send_init, MPI_Recv_init, with a datatype of addresses where the memory is in
// several pieces) on a communicator of its own; `start` is MPI_Start, `test` MPI_Test. Its tags are numbered by pair of
// processes in the order in which channels are made, which is the same on both sides. Tests have
// tests/support/fake_ranks.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace popart::exchange {

struct Piece {  // of memory
  void *data;
  int64_t bytes;
};

// Messages from one process to another, one after the other, each of the same bytes of the same memory.
class Channel {
 public:
  enum class State : uint8_t { Pending, Complete, Failed };
  // Ends what is under way: memory is neither read nor written afterwards.
  virtual ~Channel() = default;
  // A message begins. Of a sending channel, its memory does not change until the message is complete; of a receiving
  // one, it is not read. Does not wait, allocate or throw. Called again only when the message before is complete.
  virtual void start() noexcept = 0;
  // Whether the message that began last is complete; moves messages forward. Failed: it never will be, and
  // Transport::failure says why. Complete and Failed are final until the next start.
  virtual State test() noexcept = 0;
};

// Why messages fail.
struct Failure {
  int process;       // where it happened
  std::string text;  // without the process
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int process() const noexcept = 0;    // the caller's number
  virtual int processes() const noexcept = 0;  // of the job

  // The two ends of a channel: both processes make theirs, with as many bytes. `tag` is unique among the channels from
  // one process to the other. Each pair of processes makes its channels in the same order. A channel ends before its
  // transport.
  virtual std::unique_ptr<Channel> sendChannel(int peer, uint64_t tag, std::span<const Piece> memory) = 0;
  virtual std::unique_ptr<Channel> receiveChannel(int peer, uint64_t tag, std::span<const Piece> memory) = 0;

  // Ends communication in the whole job: messages of all processes fail, with this process and text, or with those of
  // the process that did so first.
  virtual void abort(std::string_view text) noexcept = 0;
  // What ended communication: an abort, here or elsewhere, or the loss of a process.
  virtual std::optional<Failure> failure() const = 0;

  // Small texts of all processes, by process; all processes call it. Throws runtime_error that names processes which do
  // not call it within `timeout`, or the failure.
  virtual std::vector<std::string> gather(std::string_view own, std::chrono::milliseconds timeout) = 0;
  // Returns when all processes have called it. Throws as gather.
  virtual void barrier(std::chrono::milliseconds timeout) { gather({}, timeout); }
};

}  // namespace popart::exchange
