// Replicas that meet as threads: what each kind of meeting computes, and how a run ends when one does not come.
#include "runtime/thread_collectives.hpp"

#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace popart::runtime {
namespace {

using executable::CollectiveSpec;
using executable::Join;
using executable::Meeting;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Value = std::vector<float>;

// One meeting of every replica on values of its own.
std::vector<Value> meet(ThreadCollectives &replicas, const CollectiveSpec &spec, std::vector<Value> in, int parts = 3) {
  std::vector<Value> out(in.size(), Value(static_cast<size_t>(spec.resultElements[0]), -1.0f));
  replicas.start();
  std::vector<std::thread> threads;
  for (size_t r = 0; r < in.size(); ++r)
    threads.emplace_back([&, r] {
      const void *x = in[r].data();
      void *y = out[r].data();
      const auto replica = static_cast<int>(r);
      ASSERT_TRUE(replicas.begin(replica, spec, &x, &y));
      for (int p = parts; p-- > 0;) replicas.work(replica, spec, p, parts);
      ASSERT_TRUE(replicas.end(replica, spec));
      replicas.finish();
    });
  for (std::thread &t : threads) t.join();
  return out;
}

CollectiveSpec spec(Meeting meeting, Join join, int size, int stride, int64_t elements, int64_t results) {
  return {meeting, join, DataType::FLOAT, size, stride, {elements}, {results}};
}

TEST(ThreadCollectives, every_member_gets_the_sum_of_its_group) {
  for (const bool spin : {false, true}) {
    ThreadCollectives replicas(4, spin);
    const auto all = meet(replicas, spec(Meeting::Reduce, Join::Add, 4, 1, 1, 1), {{1}, {2}, {4}, {8}});
    EXPECT_THAT(all, Each(ElementsAre(15)));
    const auto pairs = meet(replicas, spec(Meeting::Reduce, Join::Add, 2, 2, 1, 1), {{1}, {2}, {4}, {8}});
    EXPECT_THAT(pairs, ElementsAre(Value{5}, Value{10}, Value{5}, Value{10}));
  }
}

TEST(ThreadCollectives, any_number_of_parts_gives_the_same_bits) {
  ThreadCollectives replicas(3, true);
  std::vector<Value> in(3, Value(5000));
  for (size_t r = 0; r < 3; ++r)
    for (size_t i = 0; i < in[r].size(); ++i) in[r][i] = 1.0f / static_cast<float>(1 + r + 7 * i);
  const CollectiveSpec sum = spec(Meeting::Reduce, Join::Add, 3, 1, 5000, 5000);
  const auto once = meet(replicas, sum, in, 1);
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(once[0][i], in[0][i] + in[1][i] + in[2][i]);
  for (const int parts : {2, 5, 64}) EXPECT_EQ(meet(replicas, sum, in, parts), once);
}

TEST(ThreadCollectives, scatter_gives_chunks_and_gather_joins_them) {
  ThreadCollectives replicas(2, true);
  const std::vector<Value> in{{1, 2, 3}, {10, 20, 30}};
  EXPECT_THAT(meet(replicas, spec(Meeting::Scatter, Join::Add, 2, 1, 3, 2), in),
              ElementsAre(Value{11, 22}, Value{33, 0}));
  EXPECT_THAT(meet(replicas, spec(Meeting::Scatter, Join::Keep, 2, 1, 3, 2), in),
              ElementsAre(Value{1, 2}, Value{30, 0}));
  EXPECT_THAT(meet(replicas, spec(Meeting::Gather, Join::Keep, 2, 1, 3, 5), in), Each(ElementsAre(1, 2, 3, 10, 20)));
}

TEST(ThreadCollectives, the_operators) {
  ThreadCollectives replicas(2, true);
  const std::vector<Value> in{{2, -3, 0}, {5, -7, 4}};
  const auto join = [&](Join j) { return meet(replicas, spec(Meeting::Reduce, j, 2, 1, 3, 3), in)[1]; };
  EXPECT_THAT(join(Join::Mul), ElementsAre(10, 21, 0));
  EXPECT_THAT(join(Join::Min), ElementsAre(2, -7, 0));
  EXPECT_THAT(join(Join::Max), ElementsAre(5, -3, 4));
  EXPECT_THAT(join(Join::And), ElementsAre(1, 1, 0));
  EXPECT_THAT(join(Join::Or), ElementsAre(1, 1, 1));
}

// What `begin` says to replica 0, while replica 1 does `other`.
bool beginsBeside(ThreadCollectives &replicas, const CollectiveSpec &first, const std::function<void()> &other) {
  replicas.start();
  bool begins = true;
  std::thread waits([&] {
    const float x = 1;
    float y = 0;
    const void *in = &x;
    void *out = &y;
    begins = replicas.begin(0, first, &in, &out);
  });
  other();
  waits.join();
  return begins;
}

TEST(ThreadCollectives, a_replica_that_fails_or_does_not_come_releases_the_others) {
  ThreadCollectives replicas(2, true);
  const CollectiveSpec sum = spec(Meeting::Reduce, Join::Add, 2, 1, 1, 1), another = sum;
  EXPECT_FALSE(beginsBeside(replicas, sum, [&] { replicas.fail(); }));
  EXPECT_THAT(replicas.problem(), HasSubstr("failed"));
  EXPECT_FALSE(beginsBeside(replicas, sum, [&] { replicas.finish(); }));
  EXPECT_THAT(replicas.problem(), HasSubstr("do not come"));
  EXPECT_FALSE(beginsBeside(replicas, sum, [&] {
    const void *in = nullptr;
    void *out = nullptr;
    EXPECT_FALSE(replicas.begin(1, another, &in, &out));
  }));
  EXPECT_THAT(replicas.problem(), HasSubstr("different collectives"));
  EXPECT_THAT(meet(replicas, sum, {{1}, {2}}), Each(ElementsAre(3)));  // the next run is a good one
}

TEST(ThreadCollectives, replicas_that_wait_for_each_other_in_different_groups_are_released) {
  ThreadCollectives replicas(4, true);
  const CollectiveSpec neighbours = spec(Meeting::Reduce, Join::Add, 2, 1, 1, 1),
                       across = spec(Meeting::Reduce, Join::Add, 2, 2, 1, 1);
  replicas.start();
  std::vector<std::thread> threads;
  std::vector<int> begins(4, 1);
  for (int r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {  // 0 waits for 1, 1 for 3, 3 for 2, 2 for 0
      const void *in = nullptr;
      void *out = nullptr;
      begins[static_cast<size_t>(r)] = replicas.begin(r, r == 0 || r == 3 ? neighbours : across, &in, &out);
    });
  for (std::thread &t : threads) t.join();
  EXPECT_THAT(begins, Each(0));
}

}  // namespace
}  // namespace popart::runtime
