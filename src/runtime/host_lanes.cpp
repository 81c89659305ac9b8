#include "runtime/host_lanes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/threads/wait_while.hpp"

namespace popart::runtime {

std::vector<int> threadsOfLanes(std::span<const int> asked, int threads) {
  if (static_cast<int>(asked.size()) > threads) return {};
  if (std::accumulate(asked.begin(), asked.end(), 0) == threads) return {asked.begin(), asked.end()};
  std::vector<int> shares(asked.size(), 1);
  for (int left = threads - static_cast<int>(asked.size()); left > 0; --left) {
    size_t neediest = 0;
    for (size_t i = 1; i < asked.size(); ++i)
      if (int64_t{asked[i]} * shares[neediest] > int64_t{asked[neediest]} * shares[i]) neediest = i;
    ++shares[neediest];
  }
  return shares;
}

HostLanes::HostLanes(const std::string &device, Team &team, const std::vector<int> &threads,
                     const RunSettings &settings)
    : all_(team) {
  ThreadPoolOptions options;
  options.spin = team.pool.spin();
  options.workers = ThreadPoolOptions::Workers::Lent;
  char *scratch = team.scratch;
  for (size_t i = 0; i < threads.size(); ++i) {
    Lane &lane = *lanes_.emplace_back(std::make_unique<Lane>(device, threads[i], options, team.wakePolicy, settings));
    lane.team.scratch = scratch;
    lane.team.scratchStride = team.scratchStride;
    lane.team.firstThread = static_cast<int>(members_.size());
    scratch += threads[i] * team.scratchStride;
    for (int t = 0; t < threads[i]; ++t) members_.push_back({static_cast<int>(i), t});
  }
}

void HostLanes::run(LaneFn body, void *state) {
  for (const auto &lane : lanes_) {
    lane->team.pool.expectWorkers();
    lane->isTaken = false;
  }
  running_ = static_cast<int>(lanes_.size());
  stop_ = false;
  all_.pool.parallel(static_cast<int>(members_.size()), [&](int task, int thread) {
    const Member member = members_[static_cast<size_t>(task)];
    const bool isCaller = thread == 0;
    if (member.thread > 0) {  // the caller checks for interrupts; a lane need not have all its workers
      if (!isCaller) lanes_[static_cast<size_t>(member.lane)]->team.pool.serve(member.thread);
      return;
    }
    for (size_t i = 0; i < lanes_.size(); ++i)  // its own lane, then those whose thread has not arrived
      lead((static_cast<size_t>(member.lane) + i) % lanes_.size(), isCaller, body, state);
    if (isCaller) waitForOthers();
  });
  if (interrupt_) std::rethrow_exception(std::exchange(interrupt_, nullptr));
}

void HostLanes::lead(size_t lane, bool isCaller, LaneFn body, void *state) noexcept {
  if (lanes_[lane]->isTaken.exchange(true)) return;
  const int64_t before = timesEnded();
  {
    const StopFlag flag(stop_, isCaller ? StopFlag::Thread::Asks : StopFlag::Thread::Quiet);
    body(state, static_cast<int>(lane));
  }
  lanes_[lane]->team.pool.release();
  if (timesEnded() != before) stop_ = true;  // what has ended this lane ends the others too
  --running_;
  wait_.ring();
}

void HostLanes::waitForOthers() noexcept {
  const bool spins = all_.pool.spin().count() > 0;
  for (int running; (running = running_.load(std::memory_order_acquire)) > 0;) {
    if (changesSoon(running_, running, spins)) continue;
    try {
      wait_.sleepWhile(running_, running);
    } catch (const RunEnded &) {  // the thread that ends the run knows the reason
      stop_ = true;
    } catch (...) {
      if (!interrupt_) interrupt_ = std::current_exception();
      stop_ = true;
    }
  }
}

}  // namespace popart::runtime
