// Lanes of the host: the threads of one pool in groups, each of which runs the kernels of one lane. While lanes run,
// their leaders walk over the steps, and the other threads of a group are lent to its pool. A lane whose leader has not
// come, because it slept or another program has its core, is led by the first that has ended its own.
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

// The threads of each lane where there are `threads` in all: as asked for when that is their sum, otherwise at least
// one each and the others in proportion. Empty: there are fewer threads than lanes.
std::vector<int> threadsOfLanes(std::span<const int> asked, int threads);

class HostLanes final : public Lanes {
 public:
  // `threads`: of each lane, as many in all as the team has. `shared`: memory that tasks of a kernel share, for each
  // lane. The team and its memory outlive the lanes.
  HostLanes(const std::string &device, Team &team, const std::vector<int> &threads, const std::vector<char *> &shared,
            const RunSettings &settings);
  Queue &queue(int lane) override { return lanes_[static_cast<size_t>(lane)]->queue; }
  void run(LaneFn body, void *state) override;

 private:
  void lead(size_t lane, bool isCaller, LaneFn body, void *state) noexcept;
  void waitForOthers() noexcept;

  struct Lane {
    Lane(const std::string &device, int threads, const ThreadPoolOptions &options, Waking waking,
         const RunSettings &settings)
        : team(threads, options, waking, settings), queue(device, team) {}
    Team team;
    TeamQueue queue;
    std::atomic<bool> isTaken{false};  // some thread leads or has led it
  };
  struct Member {
    int lane, thread;
  };

  Team &all_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Member> members_;  // by thread of the whole team, as long as all come
  std::atomic<int> running_{0};  // lanes
  std::atomic<bool> stop_{false};
  WatchfulWait wait_;             // of the calling thread, for the other lanes
  std::exception_ptr interrupt_;  // that ended its wait
};

}  // namespace popart::runtime
