// Collectives of replicas that are threads: what each kind computes, and how a run ends when one does not come.
#include "runtime/thread_collectives.hpp"

#include <functional>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "executable/host_kernel.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Value = std::vector<float>;

// Every replica takes its handle.
void add(ThreadCollectives &replicas, const CollectiveSpec &spec) {
  for (int r = 0; r < replicas.replicas(); ++r) replicas.handle(r, spec);
}

// On one thread.
void work(ThreadCollectives &replicas, int replica, const CollectiveSpec &spec) {
  std::atomic<bool> failed{false};
  executable::RunContext context(failed, replica, &replicas);
  replicas.handle(replica, spec).work({nullptr, nullptr, nullptr, context});
}

// How one replica takes part.
using TakesPart = std::function<void(ThreadCollectives &, int replica, const CollectiveSpec &, const void *, void *)>;

// Publishes and waits in one step, with `threads` threads for the work.
TakesPart inOneStep(int threads = 1) {
  return [threads](ThreadCollectives &replicas, int replica, const CollectiveSpec &spec, const void *x, void *y) {
    ASSERT_TRUE(replicas.handle(replica, spec).publish(&x, &y));
    ASSERT_TRUE(replicas.handle(replica, spec).wait());
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back([&] { work(replicas, replica, spec); });
    work(replicas, replica, spec);
    for (std::thread &t : others) t.join();
    replicas.handle(replica, spec).end();
  };
}

// A thread for every replica; its run ends when `work` does.
void runAll(ThreadCollectives &replicas, size_t count, const std::function<void(int replica)> &work) {
  replicas.start();
  std::vector<std::thread> threads;
  for (size_t r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      work(static_cast<int>(r));
      replicas.finish();
    });
  for (std::thread &t : threads) t.join();
}

// One collective of every replica on values of its own.
std::vector<Value> collect(ThreadCollectives &replicas, const CollectiveSpec &spec, std::vector<Value> in,
                           const TakesPart &takesPart = inOneStep()) {
  std::vector<Value> out(in.size(), Value(static_cast<size_t>(spec.resultElements[0]), 0.0f));
  add(replicas, spec);
  runAll(replicas, in.size(), [&](int r) {
    const auto i = static_cast<size_t>(r);
    takesPart(replicas, r, spec, in[i].data(), out[i].data());
  });
  return out;
}

CollectiveSpec spec(CollectiveKind kind, Join join, int size, int stride, int64_t elements, int64_t results) {
  return {kind, join, DataType::FLOAT, size, stride, {elements}, {results}};
}

TEST(ThreadCollectives, every_member_gets_the_sum_of_its_group) {
  for (const bool spin : {false, true}) {
    ThreadCollectives replicas(4, spin);
    const CollectiveSpec all = spec(CollectiveKind::Reduce, Join::Add, 4, 1, 1, 1),
                         pairs = spec(CollectiveKind::Reduce, Join::Add, 2, 2, 1, 1);
    EXPECT_THAT(collect(replicas, all, {{1}, {2}, {4}, {8}}), Each(ElementsAre(15)));
    EXPECT_THAT(collect(replicas, pairs, {{1}, {2}, {4}, {8}}), ElementsAre(Value{5}, Value{10}, Value{5}, Value{10}));
  }
}

// Terms of which each order has sums of its own.
std::vector<Value> terms(size_t replicas, size_t elements) {
  std::vector<Value> values(replicas, Value(elements));
  for (size_t r = 0; r < replicas; ++r)
    for (size_t i = 0; i < elements; ++i) values[r][i] = 1.0f / static_cast<float>(1 + r + 7 * i);
  return values;
}

TEST(ThreadCollectives, any_number_of_threads_gives_the_same_bits) {
  ThreadCollectives replicas(3, true);
  constexpr int64_t kElements = 100'000;  // a dozen pieces
  const std::vector<Value> in = terms(3, kElements);
  const CollectiveSpec sum = spec(CollectiveKind::Reduce, Join::Add, 3, 1, kElements, kElements);
  const auto once = collect(replicas, sum, in);
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(once[0][i], in[0][i] + in[1][i] + in[2][i]);
  EXPECT_EQ(once[1], once[0]);
  EXPECT_EQ(once[2], once[0]);
  for (const int threads : {2, 3}) EXPECT_EQ(collect(replicas, sum, in, inOneStep(threads)), once);
}

// Level by level: node i joins nodes 2i and 2i + 1 of the level below, or is the former.
template <class A>
A joinedByLevels(std::vector<A> level, const std::function<A(A, A)> &op) {
  while (level.size() > 1) {
    std::vector<A> above;
    for (size_t i = 0; i < level.size(); i += 2)
      above.push_back(i + 1 < level.size() ? op(level[i], level[i + 1]) : level[i]);
    level = above;
  }
  return level[0];
}

TEST(ThreadCollectives, terms_are_joined_in_a_balanced_tree) {
  constexpr int64_t kElements = 1'300;  // more than two blocks
  const std::pair<Join, std::function<float(float, float)>> operators[] = {{Join::Add, std::plus<float>()},
                                                                           {Join::Mul, std::multiplies<float>()}};
  for (int size = 1; size <= 17; ++size) {
    const std::vector<Value> in = terms(static_cast<size_t>(size), kElements);
    for (const auto &[join, op] : operators) {
      ThreadCollectives replicas(size, false);
      const auto all = collect(replicas, spec(CollectiveKind::Reduce, join, size, 1, kElements, kElements), in);
      const int64_t chunk = (kElements + size - 1) / size;
      ThreadCollectives scattering(size, false);
      const auto parts = collect(scattering, spec(CollectiveKind::Scatter, join, size, 1, kElements, chunk), in);
      for (size_t i = 0; i < kElements; ++i) {
        Value own;
        for (const Value &value : in) own.push_back(value[i]);
        const float expected = joinedByLevels<float>(own, op);
        const size_t member = i / static_cast<size_t>(chunk), at = i % static_cast<size_t>(chunk);
        for (const Value &result : all) ASSERT_EQ(result[i], expected) << size << " members, element " << i;
        ASSERT_EQ(parts[member][at], expected) << size << " members, element " << i;
      }
    }
  }
}

TEST(ThreadCollectives, sixteen_bit_terms_are_rounded_once) {
  constexpr size_t kMembers = 7, kElements = 700;
  std::vector<std::vector<Half>> in(kMembers, std::vector<Half>(kElements)), out = in;
  for (size_t m = 0; m < kMembers; ++m)
    for (size_t i = 0; i < kElements; ++i)
      in[m][i] = asElement<Half>(static_cast<float>(1 + i) / static_cast<float>(3 + 5 * m));
  CollectiveSpec sum = spec(CollectiveKind::Reduce, Join::Add, kMembers, 1, kElements, kElements);
  sum.type = DataType::FLOAT16;
  ThreadCollectives replicas(kMembers, false);
  add(replicas, sum);
  runAll(replicas, kMembers, [&](int r) {
    const auto m = static_cast<size_t>(r);
    inOneStep()(replicas, r, sum, in[m].data(), out[m].data());
  });
  for (size_t i = 0; i < kElements; ++i) {
    Value own;
    for (const auto &value : in) own.push_back(static_cast<float>(value[i]));
    const auto expected = asElement<Half>(joinedByLevels<float>(own, std::plus<float>()));
    for (const auto &value : out) ASSERT_EQ(static_cast<float>(value[i]), static_cast<float>(expected)) << i;
  }
}

TEST(ThreadCollectives, several_operands_are_joined_each_on_its_own) {
  ThreadCollectives replicas(2, true);
  const CollectiveSpec sum{CollectiveKind::Reduce, Join::Add, DataType::FLOAT, 2, 1, {3, 0, 40'000}, {3, 0, 40'000}};
  const std::vector<Value> in = terms(2, 40'000);
  std::vector<Value> small(2, Value(3)), large(2, Value(40'000));
  add(replicas, sum);
  runAll(replicas, 2, [&](int r) {
    const auto i = static_cast<size_t>(r);
    const void *from[] = {in[i].data(), nullptr, in[i].data()};
    void *to[] = {small[i].data(), nullptr, large[i].data()};
    ASSERT_TRUE(replicas.handle(r, sum).publish(from, to));
    ASSERT_TRUE(replicas.handle(r, sum).wait());
    work(replicas, r, sum);
    replicas.handle(r, sum).end();
  });
  for (size_t r = 0; r < 2; ++r)
    for (size_t i = 0; i < 40'000; ++i) {
      ASSERT_EQ(large[r][i], in[0][i] + in[1][i]);
      if (i < 3) {
        ASSERT_EQ(small[r][i], large[r][i]);
      }
    }
}

TEST(ThreadCollectives, scatter_gives_chunks_and_gather_joins_them) {
  ThreadCollectives replicas(2, true);
  const std::vector<Value> in{{1, 2, 3}, {10, 20, 30}};
  const CollectiveSpec sum = spec(CollectiveKind::Scatter, Join::Add, 2, 1, 3, 2),
                       own = spec(CollectiveKind::Scatter, Join::Keep, 2, 1, 3, 2),
                       all = spec(CollectiveKind::Gather, Join::Keep, 2, 1, 3, 5);
  EXPECT_THAT(collect(replicas, sum, in), ElementsAre(Value{11, 22}, Value{33, 0}));
  EXPECT_THAT(collect(replicas, own, in), ElementsAre(Value{1, 2}, Value{30, 0}));
  EXPECT_THAT(collect(replicas, all, in), Each(ElementsAre(1, 2, 3, 10, 20)));
}

TEST(ThreadCollectives, the_operators) {
  const std::vector<Value> in{{2, -3, 0}, {5, -7, 4}};
  const auto join = [&](Join j) {
    ThreadCollectives replicas(2, true);
    return collect(replicas, spec(CollectiveKind::Reduce, j, 2, 1, 3, 3), in)[1];
  };
  EXPECT_THAT(join(Join::Mul), ElementsAre(10, 21, 0));
  EXPECT_THAT(join(Join::Min), ElementsAre(2, -7, 0));
  EXPECT_THAT(join(Join::Max), ElementsAre(5, -3, 4));
  EXPECT_THAT(join(Join::And), ElementsAre(1, 1, 0));
  EXPECT_THAT(join(Join::Or), ElementsAre(1, 1, 1));
}

// Specs of the two steps of one collective.
struct Phases {
  Phases(CollectiveSpec whole, int64_t channel) : waits(std::move(whole)) {
    waits.channel = channel;
    publishes = waits;
    publishes.resultElements.clear();
  }
  CollectiveSpec publishes, waits;
};

void add(ThreadCollectives &replicas, const Phases &phases) {
  add(replicas, phases.publishes);
  add(replicas, phases.waits);
}

TEST(ThreadCollectives, a_replica_that_published_goes_on_until_it_waits) {
  for (const bool spin : {false, true}) {
    ThreadCollectives replicas(2, spin);
    const Phases one(spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1), 0),
        two(spec(CollectiveKind::Reduce, Join::Max, 2, 1, 1, 1), 1);
    for (const Phases *phases : {&one, &two}) add(replicas, *phases);
    std::vector<Value> first(2, Value(1)), second(2, Value(1));
    std::promise<void> publishedAll;
    const auto goesAhead = publishedAll.get_future().share();
    runAll(replicas, 2, [&](int r) {
      for (int round = 0; round < 50; ++round) {
        float a = static_cast<float>(r + round), b = static_cast<float>(10 * r - round);
        void *pa = &a, *pb = &b;
        if (round == 0 && r == 1) goesAhead.wait();  // until the other has published both
        ASSERT_TRUE(replicas.handle(r, one.publishes).publish(&pa, &pa));
        ASSERT_TRUE(replicas.handle(r, two.publishes).publish(&pb, &pb));
        if (round == 0 && r == 0) publishedAll.set_value();
        for (const Phases *phases : {&two, &one}) {  // the order of waiting is free, and the same for all
          ASSERT_TRUE(replicas.handle(r, phases->waits).wait());
          work(replicas, r, phases->waits);
          replicas.handle(r, phases->waits).end();
        }
        ASSERT_EQ(a, static_cast<float>(2 * round + 1));
        ASSERT_EQ(b, static_cast<float>(10 - round));
      }
    });
  }
}

TEST(ThreadCollectives, who_comes_late_finds_the_work_done) {
  ThreadCollectives replicas(2, true);
  const Phases sum(spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1), 0);
  add(replicas, sum);
  std::promise<void> done;
  const auto isDone = done.get_future().share();
  std::vector<float> values{1, 2};
  runAll(replicas, 2, [&](int r) {
    void *value = &values[static_cast<size_t>(r)];
    ASSERT_TRUE(replicas.handle(r, sum.publishes).publish(&value, &value));
    if (r == 1) isDone.wait();  // until the other one has ended
    ASSERT_TRUE(replicas.handle(r, sum.waits).wait());
    work(replicas, r, sum.waits);
    replicas.handle(r, sum.waits).end();
    if (r == 0) done.set_value();
  });
  EXPECT_THAT(values, Each(3.0f));
}

TEST(ThreadCollectives, published_scatters_leave_each_chunk_in_place) {
  ThreadCollectives replicas(4, false);
  const Phases pairs(spec(CollectiveKind::Scatter, Join::Add, 2, 2, 3, 2), 7);  // replicas 0 and 2, 1 and 3
  add(replicas, pairs);
  std::vector<Value> values{{1, 2, 3}, {4, 5, 6}, {10, 20, 30}, {40, 50, 60}};
  runAll(replicas, 4, [&](int r) {
    void *value = values[static_cast<size_t>(r)].data();
    ASSERT_TRUE(replicas.handle(r, pairs.publishes).publish(&value, &value));
    ASSERT_TRUE(replicas.handle(r, pairs.waits).wait());
    work(replicas, r, pairs.waits);
    replicas.handle(r, pairs.waits).end();
  });
  EXPECT_THAT(values, ElementsAre(ElementsAre(11, 22, 3), ElementsAre(44, 55, 6), ElementsAre(10, 20, 33),
                                  ElementsAre(40, 50, 66)));
}

// What `wait` says to replica 0, which has published, while replica 1 does `other`.
bool waitSucceedsDuring(ThreadCollectives &replicas, const CollectiveSpec &publishes, const CollectiveSpec &waits,
                        const std::function<void()> &other) {
  replicas.start();
  bool does = true;
  std::thread first([&] {
    float x = 1;
    void *value = &x;
    does = replicas.handle(0, publishes).publish(&value, &value) && replicas.handle(0, waits).wait();
  });
  other();
  first.join();
  return does;
}

TEST(ThreadCollectives, a_replica_that_fails_or_does_not_come_releases_the_others) {
  ThreadCollectives replicas(2, true);
  const CollectiveSpec sum = spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1), another = sum;
  for (const CollectiveSpec *s : {&sum, &another}) add(replicas, *s);
  EXPECT_FALSE(waitSucceedsDuring(replicas, sum, sum, [&] { replicas.fail(nullptr); }));
  EXPECT_THAT(replicas.problem(), HasSubstr("failed"));
  EXPECT_FALSE(waitSucceedsDuring(replicas, sum, sum, [&] { replicas.finish(); }));
  EXPECT_THAT(replicas.problem(), HasSubstr("do not reach it"));
  EXPECT_FALSE(waitSucceedsDuring(replicas, sum, sum, [&] {
    float x = 1;
    void *value = &x;
    EXPECT_TRUE(replicas.handle(1, another).publish(&value, &value));
    EXPECT_FALSE(replicas.handle(1, another).wait());
  }));
  EXPECT_THAT(replicas.problem(), HasSubstr("different collectives"));
  EXPECT_THAT(collect(replicas, sum, {{1}, {2}}), Each(ElementsAre(3)));  // the next run is a good one
}

TEST(ThreadCollectives, a_replica_that_leaves_between_the_phases_releases_the_others) {
  ThreadCollectives replicas(2, false);
  const Phases one(spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1), 0),
      two(spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1), 1);
  for (const Phases *phases : {&one, &two}) add(replicas, *phases);
  float x = 1;
  void *value = &x;
  // It has published another one, and fails or ends.
  for (const bool fails : {true, false}) {
    EXPECT_FALSE(waitSucceedsDuring(replicas, one.publishes, one.waits, [&] {
      EXPECT_TRUE(replicas.handle(1, two.publishes).publish(&value, &value));
      fails ? replicas.fail(nullptr) : replicas.finish();
    }));
    EXPECT_THAT(replicas.problem(), HasSubstr(fails ? "failed" : "do not reach it"));
  }
  // It waits in the other one.
  EXPECT_FALSE(waitSucceedsDuring(replicas, one.publishes, one.waits, [&] {
    EXPECT_TRUE(replicas.handle(1, two.publishes).publish(&value, &value));
    EXPECT_FALSE(replicas.handle(1, two.waits).wait());
  }));
  EXPECT_THAT(replicas.problem(), HasSubstr("different collectives"));
  // It has failed already: what is published afterwards goes nowhere.
  replicas.start();
  replicas.fail(nullptr);
  EXPECT_FALSE(replicas.handle(0, one.publishes).publish(&value, &value));
  EXPECT_THAT(collect(replicas, one.waits, {{1}, {2}}), Each(ElementsAre(3)));  // the next run is a good one
}

TEST(ThreadCollectives, replicas_that_wait_for_each_other_in_different_groups_are_released) {
  ThreadCollectives replicas(4, true);
  const CollectiveSpec neighbours = spec(CollectiveKind::Reduce, Join::Add, 2, 1, 1, 1),
                       across = spec(CollectiveKind::Reduce, Join::Add, 2, 2, 1, 1);
  for (const CollectiveSpec *s : {&neighbours, &across}) add(replicas, *s);
  std::vector<int> waits(4, 1);
  runAll(replicas, 4, [&](int r) {  // 0 waits for 1, 1 for 3, 3 for 2, 2 for 0
    float x = 1;
    void *value = &x;
    const CollectiveSpec &own = r == 0 || r == 3 ? neighbours : across;
    waits[static_cast<size_t>(r)] = replicas.handle(r, own).publish(&value, &value) && replicas.handle(r, own).wait();
  });
  EXPECT_THAT(waits, Each(0));
}

}  // namespace
}  // namespace popart::runtime
