// RankCollectives: collectives for the replicas of one program in several processes. The replicas of one process are
// have all members here use ThreadCollectives alone. Small groups whose members are all on this host join in memory
// that its processes share (shared_groups.hpp). Of any other group, the last member here to publish joins the terms of
// all members here along the tree of executable/join_tree.hpp, and starts the operation between processes; each member
// waits for it where it waits for the others here, and the results are then handed out in pieces, or update variables
// of this process.
//
//   RankCollectives collectives(transport, layout, settings);
//   …                       // engines call `handle` for all their collectives
//   collectives.connect();  // all processes; called by Replicas
//
// Why there is no deadlock, whatever the order of threads: a replica publishes its operands in the order of its
// program, so all members of a group execute the group's collectives in the same order. Let X come before Y. In each
// process, the replica that publishes last for X starts X before it publishes for Y, and Y starts when all members have
// published for it. So every process starts the operations of a group in the order of the program, and an operation
// waits only for earlier ones of its group (exchange/exchange.cpp). Operations of different groups may start in
// different orders in two processes: they share no memory, so that neither waits for the other. In shared memory a
// replica waits for what other replicas do earlier in the program: that they publish, or leave the use before.
//
// A failure ends the job. Failures are: a replica that fails, an interrupt, a process that ends or does not arrive
// within the timeout. All replicas of all processes get `false`, now or at their next collective, and later runs fail
// as well.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/host_memory.hpp"
#include "exchange/exchange.hpp"
#include "exchange/segments.hpp"
#include "runtime/thread_collectives.hpp"

namespace popart::runtime {

class RankCollectives final : public executable::Collectives {
 public:
  // `transport` and `layout` outlive this object. `settings.spin`: whether replicas that wait poll for a while;
  // `settings.ended` is not used. Throws like Exchange.
  RankCollectives(exchange::Transport &transport, const exchange::ReplicaLayout &layout,
                  exchange::ExchangeSettings settings);
  ~RankCollectives() override;

  int replicas() const noexcept override { return layout_.replicas(); }
  // Throws internal_error for a collective that did not exist when `connect` was called.
  executable::CollectiveHandle &handle(int replica, const executable::CollectiveSpec &spec) override;
  void connect() override;
  const char *problem() const noexcept override;
  void start() noexcept override;
  void finish() noexcept override { threads_.finish(); }
  void fail(const std::exception *why) noexcept override;
  std::exception_ptr takeInterrupt() noexcept override { return threads_.takeInterrupt(); }

  // Memory for terms and results of this process, and for received terms; 0 before `connect`. A collective takes the
  // bytes of its results; a sum of 16-bit types over several members here takes three times as many; a scatter takes
  // those of its operands besides. Collectives of one group whose replicas publish and wait in one step share them. In
  // shared memory a collective takes the bytes of the operands of all members here; those that publish and wait in one
  // step have twice the bytes of the largest of their group together.
  int64_t bytes() const { return ownBytes_ + sharedBytes_ + exchange_.receivedBytes(); }
  // The same before a job exists, for the collectives of a program that wait. Throws like exchange::planExchange.
  static int64_t bytesOf(std::span<const executable::CollectiveSpec *const> collectives,
                         const exchange::ReplicaLayout &layout, int process,
                         const exchange::ExchangeSettings &settings);
  // The same for the process that needs most, as parts may differ by a cache line or two. In a job of more than 16
  // processes only the first 16 count. All processes get the same number.
  static int64_t mostBytesOf(std::span<const executable::CollectiveSpec *const> collectives,
                             const exchange::ReplicaLayout &layout, const exchange::ExchangeSettings &settings);
  // How long operations between processes were in progress, and how long the first replica here waited for them.
  struct Times {
    std::chrono::nanoseconds exchanging{0}, waiting{0};
  };
  Times times() const { return {exchange_.busy() + std::chrono::nanoseconds(busy_), threads_.waited()}; }

 private:
  class Group;

  exchange::ExchangeSettings withBell(exchange::ExchangeSettings settings);
  void shareMemory();
  bool waitsFor(int process, const char *failure, Group &group, std::chrono::nanoseconds waited) noexcept;
  void end(const std::string &problem) noexcept;

  exchange::Transport &transport_;
  const exchange::ReplicaLayout &layout_;
  const exchange::ExchangeSettings settings_;
  const int process_;
  std::set<const executable::CollectiveSpec *> known_;
  std::vector<executable::CollectiveSpec> collectives_;  // in the order of the program
  std::vector<Group *> groups_;                          // of threads_: those with members in other processes
  bool isConnected_ = false;
  std::atomic<bool> isOver_{false};                     // a replica of this process failed
  std::atomic<const char *> exchangeProblem_{nullptr};  // the problem that a waiting replica saw
  std::mutex lock_;                                     // of what follows
  std::string problem_;                                 // in shared memory
  std::map<const std::byte *, uint64_t> uses_;          // of places in the segment
  std::optional<exchange::Segments> segments_;
  int64_t sharedBytes_ = 0;
  std::atomic<int> sharing_{0};                     // collectives under way in shared memory
  std::atomic<int64_t> sharingSince_{0}, busy_{0};  // nanoseconds: when the first of them began; before that
  ThreadCollectives threads_;
  int64_t ownBytes_ = 0;
  std::optional<HostMemory> memory_;  // terms and results
  exchange::Exchange exchange_;       // must be the last member: its thread uses all of the above
};

}  // namespace popart::runtime
