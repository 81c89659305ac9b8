// Job: the other processes of a session whose replicas are in several processes. It tells a session where all replicas
// are, compares facts that have to be equal, gets values of variables from other processes, and makes the collectives
// of each loaded program.
//
//   const std::shared_ptr<Job> job = joinJob({.replicas = 4, .locals = 2, .firstLocal = 2});  // all processes
//
// All processes must call the functions marked (all), in the same order.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/processors.hpp"
#include "exchange/exchange.hpp"
#include "exchange/layout.hpp"
#include "exchange/transport.hpp"
#include "lower/collectives.hpp"

namespace popart::session {

// The facts that a session passes to its job.
struct JobSettings {
  int replicas = 1;                              // in all processes
  int locals = 1, firstLocal = 0;                // of this process; they are consecutive
  std::chrono::milliseconds timeout{1'800'000};  // how long a process waits for others
  bool sharesMemory = true;                      // with other processes of its host
};

// The placement of a job's processes, as far as compiled programs depend on it.
struct Placement {
  exchange::ReplicaLayout layout;
  int process = 0;
  // Processes of this host that may use the same processors: their number, including this one, and its index.
  int sharers = 1, sharer = 0;
  bool sharesMemory = true;  // JobSettings

  // This process's share of the processors.
  ProcessorLimits processors() const { return processorLimits().part(sharer, sharers); }
  int processesOnHost() const { return layout.processesOn(layout.hostOf(process)); }
  // Adapts the rules to a network: larger collectives, and more of them at the same time; more so with several hosts.
  void adapt(lower::CollectiveRules &rules) const;
};

// The placement that is expected without asking: equally many replicas in each process, and all processes of a host
// share its processors. One host, unless mpirun or srun has started this job on several.
Placement expectedPlacement(const JobSettings &settings);

class Job {
 public:
  using MakeTransport = std::function<std::unique_ptr<exchange::Transport>()>;
  // `makeTransport` is called now and later, in all processes in the same order (all). Throws popart::error if the
  // processes disagree about the replicas, and as Transport::gather.
  Job(MakeTransport makeTransport, const JobSettings &settings);
  ~Job();
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  const Placement &placement() const { return placement_; }
  const exchange::ReplicaLayout &layout() const { return placement_.layout; }
  int process() const { return placement_.process; }

  // Returns the texts of all processes, in their order (all). This and all following functions throw as
  // Transport::gather.
  std::vector<std::string> gather(std::string_view own);
  // The first process whose text differs from that of the majority; -1 if there is none (all).
  int findOdd(std::string_view own);
  // Makes another transport (all).
  std::unique_ptr<exchange::Transport> transport() { return makeTransport_(); }
  exchange::ExchangeSettings exchangeSettings() const;

  // `data`: values of `valueBytes` bytes each; this process has those whose replica is in this process. `replicas`: the
  // replica of each value. Afterwards all processes have all values (all). Transfers at most 16 MiB of all processes
  // together at a time, or 64 bytes for each replica.
  void complete(void *data, int64_t valueBytes, std::span<const int> replicas);
  // Copies the bytes of process `root` to all processes (all).
  void broadcast(std::span<const exchange::Piece> memory, int root);

 private:
  class Values;

  const MakeTransport makeTransport_;
  const JobSettings settings_;
  std::unique_ptr<exchange::Transport> control_;  // transport for texts
  Placement placement_;
  std::unique_ptr<Values> values_;  // null until values are first requested
};

// The job of this process, on MPI (exchange/load_mpi.hpp); initialises MPI if nothing else has (all). Throws as Job and
// exchange::joinMpi.
std::shared_ptr<Job> joinJob(const JobSettings &settings);

// Seconds of `engineOptions["replicas.timeout"]`, 1800 by default. Throws popart::error unless it is a number above 0
// and at most a year.
std::chrono::milliseconds replicasTimeout(const std::map<std::string, std::string> &engineOptions);

}  // namespace popart::session
