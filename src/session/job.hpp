// Job: the other processes of a session whose replicas are in several processes. Here a session learns where all
// replicas are, compares what has to be equal, gets values of variables that other processes have, and the collectives
// of each program that it loads.
//
//   const std::shared_ptr<Job> job = joinJob({.replicas = 4, .locals = 2, .firstLocal = 2});  // all processes
//
// All processes call what is marked (all) in the same order.
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

// What a session says of its job.
struct JobSettings {
  int replicas = 1;                              // in all processes
  int locals = 1, firstLocal = 0;                // in this one, which are consecutive
  std::chrono::milliseconds timeout{1'800'000};  // for which a process waits for others
};

// Where the processes of a job are, as far as a compiled program depends on it.
struct Placement {
  exchange::ReplicaLayout layout;
  int process = 0;
  // Processes of its host that may use the same processors: how many, itself among them, and its number among them.
  int sharers = 1, sharer = 0;

  // What this process may compute on: its share.
  ProcessorLimits processors() const { return processorLimits().part(sharer, sharers); }
  int processesOnHost() const { return layout.processesOn(layout.hostOf(process)); }
  // For a network: collectives of more bytes, and more of them under way. More on several hosts than on one.
  void adapt(lower::CollectiveRules &rules) const;
};

// Without asking the others: equally many replicas in each process, and all processes of a host share its processors.
// On one host, unless mpirun or srun has started this very job on several.
Placement expectedPlacement(const JobSettings &settings);

class Job {
 public:
  using MakeTransport = std::function<std::unique_ptr<exchange::Transport>()>;
  // `makeTransport` is called now and later, in all processes in the same order (all). Throws popart::error when the
  // processes disagree about the replicas, and as Transport::gather.
  Job(MakeTransport makeTransport, const JobSettings &settings);
  ~Job();
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  const Placement &placement() const { return placement_; }
  const exchange::ReplicaLayout &layout() const { return placement_.layout; }
  int process() const { return placement_.process; }

  // The texts of all processes, by process (all). Throws as Transport::gather, as all of the following.
  std::vector<std::string> gather(std::string_view own);
  // The first process whose text differs from that of most; -1: none (all).
  int findOdd(std::string_view own);
  // A transport of its own (all).
  std::unique_ptr<exchange::Transport> transport() { return makeTransport_(); }
  exchange::ExchangeSettings exchangeSettings() const;

  // `data`: values of `valueBytes` bytes, one behind the other, of which this process has those whose replica is here.
  // `replicas`: by value. Afterwards all processes have all values (all). Values go in turns: of all processes
  // together at most 16 MiB, or 64 bytes for each replica.
  void complete(void *data, int64_t valueBytes, std::span<const int> replicas);
  // The bytes of process `root`, for all (all).
  void broadcast(std::span<const exchange::Piece> memory, int root);

 private:
  class Values;

  const MakeTransport makeTransport_;
  const JobSettings settings_;
  std::unique_ptr<exchange::Transport> control_;  // for texts
  Placement placement_;
  std::unique_ptr<Values> values_;  // null: no values were asked for
};

// The job that this process is part of, on MPI (exchange/load_mpi.hpp), joined if nobody has (all). Throws as Job and
// exchange::joinMpi.
std::shared_ptr<Job> joinJob(const JobSettings &settings);

// Seconds of `engineOptions["replicas.timeout"]`, 1800 by default. Throws popart::error for what is no number above 0
// of at most a year.
std::chrono::milliseconds replicasTimeout(const std::map<std::string, std::string> &engineOptions);

}  // namespace popart::session
