#include "base/threads/for_each_sized.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <vector>

#include "base/threads/thread_pool.hpp"

namespace popart {

int threadsWorth(int64_t bytes, int threads) {
  constexpr int64_t kWorthAThread = int64_t{2} << 20;
  return static_cast<int>(std::clamp<int64_t>(bytes / kWorthAThread, 1, std::max(threads, 1)));
}

namespace {

std::vector<size_t> largestFirst(std::span<const int64_t> bytes) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  return order;
}

int threadsForAll(std::span<const int64_t> bytes, int threads) {
  return threadsWorth(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), threads);
}

}  // namespace

void forEachSized(std::span<const int64_t> bytes, int threads, const std::function<void(size_t)> &work) {
  const std::vector<size_t> order = largestFirst(bytes);
  ThreadPool pool(threadsForAll(bytes, threads));
  pool.parallel(static_cast<int>(order.size()), [&](int task, int) { work(order[static_cast<size_t>(task)]); });
}

void forEachSizedWith(const std::function<void()> &extraTask, std::span<const int64_t> bytes, int threads,
                      const std::function<void(size_t)> &work) {
  const std::vector<size_t> order = largestFirst(bytes);
  std::exception_ptr failure;
  ThreadPool pool(threadsForAll(bytes, threads));
  pool.parallel(static_cast<int>(order.size()) + 1, [&](int task, int) {
    if (task > 0) return work(order[static_cast<size_t>(task) - 1]);
    try {
      extraTask();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace popart
