// Exchange: collective operations between the processes of a job, on memory at fixed addresses. Operations are added,
// connected once, and then run any number of times. A thread of the exchange moves them forward while the program
// computes. From `connect` to the end nothing is allocated, except for the text of a failure.
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
  // Memory for received terms of operations in progress, in equal shares for the groups of which the process has
  // members; one operation of each group always fits. Operations that do not fit wait for operations of their group
  // that were started before.
  int64_t receiveBytes = int64_t{64} << 20;
  // Time without a message of an operation after which there is a warning, and after which the exchange fails.
  std::chrono::milliseconds warnAfter{60'000}, timeout{1'800'000};
  bool spin = true;  // whether waiting threads poll for a while before they sleep
  // Whether replicas in several processes of one host use memory that these processes share
  // (runtime/rank_collectives.hpp).
  bool sharesMemory = true;
  // The exchange's thread calls it when the state of an operation has changed; it must not wait.
  std::function<void()> ended = {};
};

// The memories of an operation: an address per operand, by input and by result, numbered as in schedule.hpp. Inputs of
// reductions are overwritten. A result may be an input if the same elements are in the same place: a result of an
// all-reduce and a term of a type of its size, or an input of an all-gather and its part of the result. Otherwise they
// must not overlap. Elements of a reduce-scatter after the operand's end are not written.
struct ExchangeMemory {
  std::vector<std::vector<void *>> inputs, results;
};

class Exchange {
 public:
  // The transport and the layout must outlive the exchange. Throws popart::error if they differ in the number of
  // processes.
  Exchange(Transport &transport, const ReplicaLayout &layout, const ExchangeSettings &settings);
  // Ends operations in progress; their memory is not accessed afterwards.
  ~Exchange();
  Exchange(const Exchange &) = delete;
  Exchange &operator=(const Exchange &) = delete;

  // ---- before the first run; on one thread
  // Adds an operation and returns its number. Of a collective with several groups, a process adds those of which it has
  // members, one after the other in ascending order. All processes must add collectives with the same `collective`
  // numbers in the same order, with specs that are otherwise equal. `name`: for messages. Throws as planExchange, and
  // popart::error if the memory does not match the schedule.
  int add(const ExchangeSpec &spec, const ExchangeMemory &memory, int collective, std::string name);
  // Announces the next collective, of which this process may have no group. All processes must declare it, or add it.
  void declare(const ExchangeSpec &spec, int collective);
  // Makes channels and starts the thread. All processes must call it. Throws runtime_error that names the process whose
  // collectives differ from those of process 0, and as Transport::gather.
  void connect();

  // ---- runs; on any thread
  // Begins the operation, whose inputs must be ready. Its memories belong to the exchange until `wait`, and it must not
  // be called again before that. All processes of a group must start its operations in the same order; operations of
  // different groups need no order. Takes no lock, does not wait.
  void start(int operation) noexcept;
  // Whether a started operation is complete or has failed.
  bool isDone(int operation) const noexcept;
  // A number that is kUnderWay from the start until the operation is done.
  const std::atomic<uint32_t> &state(int operation) const noexcept;
  static constexpr uint32_t kUnderWay = 1;
  // For an operation that is done: the reason of its failure, or null if it is complete.
  const char *problem(int operation) const noexcept;
  // Returns when a started operation is complete. Throws runtime_error if the exchange has failed: a process ended, did
  // not send within the timeout, or called `fail`.
  void wait(int operation);
  void run(int operation) {
    start(operation);
    wait(operation);
  }
  // Ends the exchange of all processes: waiting ones get a runtime_error with this process and the text.
  void fail(std::string_view text);

  const Schedule &schedule(int operation) const;
  // Size of the block of received memory for all operations.
  int64_t receivedBytes() const { return blockBytes_; }
  // Total time in which at least one operation was in progress or waited for memory, until the end of the last one.
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
  Hasher collectives_;  // of the facts that all processes have in common
  int lastCollective_ = -1;
  int64_t blockBytes_ = 0;
  bool isConnected_ = false;

  // Started operations that the thread has not taken yet: number + 1, at the place of its ticket. An operation is in it
  // at most once, so there is always a free place.
  std::unique_ptr<std::atomic<int>[]> started_;
  std::atomic<uint64_t> tickets_{0};
  uint64_t taken_ = 0;
  std::vector<Bound *> waiting_, active_;  // in the order of starts: those that wait for memory, and those in progress
  std::optional<std::chrono::steady_clock::time_point> busySince_;  // set while there are such operations
  std::atomic<int64_t> busy_{0};                                    // nanoseconds before busySince_

  std::atomic<uint32_t> bell_{0};  // changes when there is new work for the thread
  std::atomic<bool> ends_{false}, failAsked_{false};
  std::mutex lock_;    // of the following fields
  std::string asked_;  // text of `fail`
  // Reason of the exchange's failure; written by the thread, read by others after an operation has failed.
  std::string problem_;
  std::thread thread_;
};

// "sum 3 of the program, group 0: no message came for 60 s, waiting for process 1 on host 'node1' (replica 1)".
std::string lateText(std::string_view operation, std::chrono::milliseconds time, const ReplicaLayout &layout,
                     std::vector<int> processes);
// The advice at the end of such a text.
constexpr const char *kLateAdvice =
    ". Look for a process that stopped, is slow or took another branch, or allow more time";

// The size of the block of received memory before there is an exchange, for a process whose operations have these
// specs, as passed to Exchange::add. Throws as planExchange.
int64_t receivedBytesOf(std::span<const ExchangeSpec> operations, const ReplicaLayout &layout, int process,
                        const ExchangeSettings &settings);

// The first process whose text differs from that of the majority; without a majority, from that of the lowest process.
// -1: none.
int oddProcess(std::span<const std::string> texts);

}  // namespace popart::exchange
