// The interface of a network for the exchange: messages between processes with fixed memory, set up once and sent many
// times.
//
// Only one thread at a time may call a transport and its channels; the thread may change. An implementation on MPI
// makes a persistent request of each channel (MPI_Send_init, MPI_Recv_init, with a datatype of addresses if the memory
// is in several pieces) on a separate communicator; `start` is MPI_Start, `test` MPI_Test. Its tags are numbered by
// pair of processes in the order in which channels are made, which is the same on both sides. Tests use
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

// Messages from one process to another, one after the other, each with the same bytes of the same memory.
class Channel {
 public:
  enum class State : uint8_t { Pending, Complete, Failed };
  // Ends messages in progress: memory is neither read nor written afterwards.
  virtual ~Channel() = default;
  // Begins a message. Until it is complete, the memory of a sending channel must not change, and the memory of a
  // receiving one must not be read. Does not wait, allocate or throw. Must not be called again before the message is
  // complete.
  virtual void start() noexcept = 0;
  // Whether the last message is complete; also moves messages forward. Failed: it will never be complete, and
  // Transport::failure has the reason. Complete and Failed are final until the next start.
  virtual State test() noexcept = 0;
};

// The reason why messages fail.
struct Failure {
  int process;       // where it happened
  std::string text;  // without the process
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int process() const noexcept = 0;    // number of this process
  virtual int processes() const noexcept = 0;  // number of processes of the job

  // The two ends of a channel: both processes make theirs, with the same number of bytes. `tag` is unique among the
  // channels from one process to the other. Each pair of processes must make its channels in the same order. A channel
  // must be destroyed before its transport.
  virtual std::unique_ptr<Channel> sendChannel(int peer, uint64_t tag, std::span<const Piece> memory) = 0;
  virtual std::unique_ptr<Channel> receiveChannel(int peer, uint64_t tag, std::span<const Piece> memory) = 0;

  // Ends communication in the whole job: messages of all processes fail, with this process and text, or with those of
  // the process that called it first.
  virtual void abort(std::string_view text) noexcept = 0;
  // The reason why communication ended: an abort, here or in another process, or the loss of a process.
  virtual std::optional<Failure> failure() const = 0;

  // Exchanges small texts of all processes, by process; all processes must call it. Throws runtime_error that names
  // processes which do not call it within `timeout`, or the failure.
  virtual std::vector<std::string> gather(std::string_view own, std::chrono::milliseconds timeout) = 0;
  // Returns when all processes have called it. Throws as gather.
  virtual void barrier(std::chrono::milliseconds timeout) { gather({}, timeout); }
};

}  // namespace popart::exchange
