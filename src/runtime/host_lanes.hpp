// HostLanes: lanes of the host. The threads of one pool are divided into groups, and each group runs the kernels of one
// lane. While lanes run, the leading thread of each group walks over the steps, and the other threads of the group work
// for its pool. If the leader of a lane has not arrived, because it slept or another program uses its core, the first
// leader that has finished its own lane leads that one too.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/host_memory.hpp"
#include "runtime/host_team.hpp"
#include "runtime/interrupt.hpp"

namespace popart::runtime {

// The threads of each lane when there are `threads` in total: as requested when that is their sum, otherwise at least
// one for each lane and the rest in proportion. Empty: there are fewer threads than lanes.
std::vector<int> threadsOfLanes(std::span<const int> asked, int threads);

class HostLanes final : public Lanes {
 public:
  // `threads`: for each lane; their sum is the number of threads of the team. The team and its memory outlive the
  // lanes.
  HostLanes(const std::string &device, Team &team, const std::vector<int> &threads, const RunSettings &settings);
  Queue &queue(int lane) override { return lanes_[static_cast<size_t>(lane)]->queue; }
  void run(LaneFn body, void *state) override;

 private:
  void lead(size_t lane, bool isCaller, LaneFn body, void *state) noexcept;
  void waitForOthers() noexcept;

  struct Lane {
    Lane(const std::string &device, int threads, const ThreadPoolOptions &options, WakePolicy wakePolicy,
         const RunSettings &settings)
        : team(threads, options, wakePolicy, settings), queue(device, team) {}
    Team team;
    TeamQueue queue;
    std::atomic<bool> isTaken{false};  // a thread leads it or has led it
  };
  struct Member {
    int lane, thread;
  };

  Team &all_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Member> members_;  // by thread of the whole team, if all arrive
  std::atomic<int> running_{0};  // lanes
  std::atomic<bool> stop_{false};
  WatchfulWait wait_;             // of the calling thread, for the other lanes
  std::exception_ptr interrupt_;  // that ended its wait
};

}  // namespace popart::runtime
