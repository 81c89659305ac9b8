#include "runtime/host_lanes.hpp"

#include <algorithm>
#include <numeric>

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
                     const std::vector<char *> &shared, const RunSettings &settings)
    : all_(team) {
  ThreadPoolOptions options;
  options.spin = team.pool.spin();
  options.workers = ThreadPoolOptions::Workers::Lent;
  char *scratch = team.scratch;
  for (size_t i = 0; i < threads.size(); ++i) {
    Lane &lane = *lanes_.emplace_back(std::make_unique<Lane>(device, threads[i], options, team.waking, settings));
    lane.team.scratch = scratch;
    lane.team.scratchStride = team.scratchStride;
    lane.team.shared = shared[i];
    scratch += threads[i] * team.scratchStride;
    for (int t = 0; t < threads[i]; ++t) members_.push_back({static_cast<int>(i), t});
  }
}

void HostLanes::run(LaneFn body, void *state) {
  for (const auto &lane : lanes_) lane->team.pool.expectWorkers();
  all_.pool.onEachThread([&](int thread, int) {
    const Member member = members_[static_cast<size_t>(thread)];
    ThreadPool &own = lanes_[static_cast<size_t>(member.lane)]->team.pool;
    if (member.thread > 0) return own.serve(member.thread);
    body(state, member.lane);
    own.release();
  });
}

}  // namespace popart::runtime
