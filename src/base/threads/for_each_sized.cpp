#include "base/threads/for_each_sized.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/threads/thread_pool.hpp"

namespace popart {

int threadsWorth(int64_t bytes, int threads) {
  constexpr int64_t kWorthAThread = int64_t{2} << 20;
  return static_cast<int>(std::clamp<int64_t>(bytes / kWorthAThread, 1, std::max(threads, 1)));
}

void forEachSized(std::span<const int64_t> bytes, int threads, const std::function<void(size_t)> &work) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  ThreadPool pool(threadsWorth(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), threads));
  pool.parallel(static_cast<int>(order.size()), [&](int task, int) { work(order[static_cast<size_t>(task)]); });
}

}  // namespace popart
