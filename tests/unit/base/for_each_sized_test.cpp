// Work on values of unequal sizes: all of them once, the largest first, on no more threads than pay.
#include "base/threads/for_each_sized.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace popart {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ForEachSized, ThreadsArePaidForByBytes) {
  EXPECT_EQ(threadsWorth(0, 8), 1);
  EXPECT_EQ(threadsWorth(4 * kMiB - 1, 8), 1);
  EXPECT_EQ(threadsWorth(4 * kMiB, 8), 2);
  EXPECT_EQ(threadsWorth(100 * kMiB, 8), 8);
  EXPECT_EQ(threadsWorth(100 * kMiB, 0), 1);
}

TEST(ForEachSized, OneThreadWorksFromTheLargestToTheSmallest) {
  std::vector<size_t> order;
  const std::vector<int64_t> bytes{3, 70, 3, 9000};
  forEachSized(bytes, 1, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{3, 1, 0, 2}));
  forEachSized({}, 4, [](size_t) { FAIL(); });
}

TEST(ForEachSized, SeveralThreadsWorkOnEachValueOnce) {
  const std::vector<int64_t> bytes(1000, kMiB);
  std::vector<std::atomic<int>> calls(bytes.size());
  forEachSized(bytes, 4, [&](size_t i) { ++calls[i]; });
  for (const std::atomic<int> &count : calls) EXPECT_EQ(count, 1);
}

TEST(ForEachSized, ConcurrentTaskBeginsFirstAndMayFail) {
  std::vector<size_t> order;
  const std::vector<int64_t> bytes{3, 9000};
  const auto work = [&](size_t i) { order.push_back(i); };
  forEachSizedWith([&] { order.push_back(7); }, bytes, 1, work);
  EXPECT_EQ(order, (std::vector<size_t>{7, 1, 0}));
  EXPECT_THROW(forEachSizedWith([] { throw std::runtime_error("failed"); }, bytes, 4, [](size_t) {}),
               std::runtime_error);
}

}  // namespace
}  // namespace popart
