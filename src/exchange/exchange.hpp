// Exchange: collective operations between the processes of a job, on memory that stays where it is. Operations are
// added, connected once, and then run any number of times; a thread of the exchange moves them forward while the
// program computes. Between `connect` and the end nothing is allocated, but for the text of a failure.
//
//   Exchange exchange(transport, layout, settings);
//   const int sum = exchange.add(spec, {.inputs = {{terms}}, .results = {{result}}});
//   exchange.connect();                      // all processes
//   exchange.start(sum);  …  exchange.wait(sum);
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "base/host_memory.hpp"
#include "exchange/schedule.hpp"
#include "exchange/transport.hpp"

namespace popart::exchange {

struct ExchangeSettings {
  LinkCost cost = {};
  // Received terms of operations under way may take so much memory, in equal shares for the groups of which the process
  // has members; one operation of each group always may. Operations that do not fit wait for those of their group that
  // were started before.
  int64_t receiveBytes = int64_t{64} << 20;
  // An operation of which no message has come for so long: a warning, and the failure of the exchange.
  std::chrono::milliseconds warnAfter{60'000}, timeout{1'800'000};
  bool spin = true;  // whether threads that wait poll for a while before they sleep
  // Whether replicas in several processes of one host exchange in memory that these processes share
  // (runtime/rank_collectives.hpp).
  bool sharesMemory = true;
  // Called by the exchange's thread when the state of an operation has changed; does not wait.
  std::function<void()> ended = {};
};

// The memories of an operation: an address per operand, by input and by result, as schedule.hpp numbers them. Inputs of
// reductions are written. Results may be inputs where the same elements are in the same place, as a result of an
// all-reduce and a term of a type of its size, or an input of an all-gather and its part of the result; they do not
// overlap otherwise. Elements of a reduce-scatter behind the operand's end are not written.
struct ExchangeMemory {
  std::vector<std::vector<void *>> inputs, results;
};

class Exchange {
 public:
  // The transport and the layout outlive the exchange. Throws popart::error when they differ in processes.
  Exchange(Transport &transport, const ReplicaLayout &layout, const ExchangeSettings &settings);
  // Operations under way are ended; their memory is not touched afterwards.
  ~Exchange();
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  // ---- before the first run; on one thread
  // A new operation, by which it is named from then on. Of a collective with several groups a process adds those of
  // which it has members, one after the other in ascending order. All processes add collectives of equal `collective`
  // numbers in the same order, and the rest of their specs is equal. `name`: for messages. Throws as planExchange, and
  // popart::error when the memory is not that of the schedule.
  int add(const ExchangeSpec &spec, const ExchangeMemory &memory, int collective, std::string name);
  // The next collective, of which this process may add no group. All processes declare it, or add it.
  void declare(const ExchangeSpec &spec, int collective);
  // Makes channels and starts the thread. All processes call it. Throws runtime_error that names the process whose
  // collectives differ from those of process 0, and as Transport::gather.
  void connect();

  // ---- runs; on any thread
  // The inputs are ready: the operation begins, and its memories belong to the exchange until `wait`. Not called again
  // before that. Operations of one group are started in the same order by all its processes; those of different groups
  // need no order. Takes no lock, does not wait.
  void start(int operation) noexcept;
  // Whether a started operation is complete or has failed.
  bool isDone(int operation) const noexcept;
  // A number that is kUnderWay from the start on until then.
  const std::atomic<uint32_t> &state(int operation) const noexcept;
  static constexpr uint32_t kUnderWay = 1;
  // Of an operation that is done: what made it fail; null: it is complete.
  const char *problem(int operation) const noexcept;
  // Returns when a started operation is complete. Throws runtime_error when the exchange has failed: a process ended,
  // did not send within the timeout, or called `fail`.
  void wait(int operation);
  void run(int operation) {
    start(operation);
    wait(operation);
  }
  // Ends the exchange of all processes: waiting ones get a runtime_error with this process and the text.
  void fail(std::string_view text);

  const Schedule &schedule(int operation) const;
  // Of received memory: a block for all operations.
  int64_t receivedBytes() const { return blockBytes_; }
  // How long operations were under way or waited for memory, at least one at a time, up to the end of the last one.
  std::chrono::nanoseconds busy() const { return std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed)); }

 private:
  struct Running;
  struct Bound;

  void place();
  void makeChannels(Bound &operation);

  void progress();
  bool takeStarted() noexcept;
  bool beginReady() noexcept;
  bool advance(Bound &operation);
  void lookAtTime(Bound &operation);
  std::vector<int> waitsFor(const Bound &operation) const;
  void failBy(const Bound &operation, int peer);
  void failAll(const std::string &text);
  void endAll() noexcept;
  void end(Bound &operation, uint32_t how) noexcept;
  void rest(std::chrono::steady_clock::time_point lookBegan) const noexcept;

  Transport &transport_;
  const ReplicaLayout &layout_;
  const ExchangeSettings settings_;
  std::vector<std::unique_ptr<Bound>> operations_;
  std::optional<HostMemory> block_;
  Hasher collectives_;  // that all processes have in common
  int lastCollective_ = -1;
  int64_t blockBytes_ = 0;
  bool isConnected_ = false;

  // Started operations that the thread has not taken: number + 1 at the place of its ticket. An operation is there at
  // most once, so there are places for all.
  std::unique_ptr<std::atomic<int>[]> started_;
  std::atomic<uint64_t> tickets_{0};
  uint64_t taken_ = 0;
  std::vector<Bound *> waiting_, active_;  // in the order of starts: whose memory is not free, and those under way
  std::optional<std::chrono::steady_clock::time_point> busySince_;  // while there are such operations
  std::atomic<int64_t> busy_{0};                                    // nanoseconds, before busySince_

  std::atomic<uint32_t> bell_{0};  // changes when the thread has something new to do
  std::atomic<bool> ends_{false}, failAsked_{false};
  std::mutex lock_;      // of what follows
  std::string asked_;    // text of `fail`
  std::string problem_;  // why the exchange failed; the thread's, others read it when an operation has failed
  std::thread thread_;
};

// "sum 3 of the program, group 0: no message came for 60 s, waiting for process 1 on host 'node1' (replica 1)".
std::string lateText(std::string_view operation, std::chrono::milliseconds time, const ReplicaLayout &layout,
                     std::vector<int> processes);
// What to do about it, behind such a text.
constexpr const char *kLateAdvice =
    ". Look for a process that stopped, is slow or took another branch, or allow more time";

// The size of the block of received memory, before there is an exchange: of a process whose operations have these
// specs, which Exchange::add gets. Throws as planExchange.
int64_t receivedBytesOf(std::span<const ExchangeSpec> operations, const ReplicaLayout &layout, int process,
                        const ExchangeSettings &settings);

// The first process whose text differs from that of most; of equally many, from that of the lowest process. -1: none.
int oddProcess(std::span<const std::string> texts);

}  // namespace popart::exchange
