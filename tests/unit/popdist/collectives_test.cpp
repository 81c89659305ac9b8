// popdist of C++ programs: arrays of instances, which are threads here, over a network that reorders messages. What
// Python shares with C++ is tested in tests/python/popdist.
#include <popdist/collectives.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <thread>

#include <popart/error.hpp>
#include <popdist/backend.hpp>
#include <popdist/context.hpp>

#include "popdist/hosts.hpp"
#include "support/borrowed_transport.hpp"
#include "support/fake_ranks.hpp"

namespace popdist {
namespace {

using popart::BFloat16;
using popart::Half;
using testing::ElementsAre;
using testing::HasSubstr;

// f(instance) on each instance of a job; an error of the program is the text that it returns.
template <class F>
std::vector<std::string> onEach(int instances, F f) {
  popart::test::FakeRanks ranks(instances, 5);
  std::vector<std::string> errors(static_cast<size_t>(instances));
  std::vector<std::thread> threads;
  for (int i = 0; i < instances; ++i)
    threads.emplace_back([&, i] {
      Hosts hosts;
      hosts.begin(std::make_shared<Group>(std::make_shared<popart::exchange::HostGroup>(
          std::make_unique<popart::test::Borrowed>(ranks.transport(i)), popart::exchange::OwnReplicas{instances, 1, i},
          popart::exchange::HostGroupSettings{.timeout = std::chrono::seconds(20)})));
      Hosts::setCurrent(&hosts);
      try {
        f(i);
      } catch (const std::invalid_argument &e) {
        errors[static_cast<size_t>(i)] = e.what();
      }
      Hosts::setCurrent(nullptr);
    });
  for (std::thread &t : threads) t.join();
  return errors;
}

TEST(Collectives, ranges_of_each_kind_are_joined) {
  onEach(3, [](int instance) {
    const auto x = static_cast<float>(instance);
    EXPECT_THAT(allReduce(std::vector<float>{x, 10 * x}), ElementsAre(3, 30));
    EXPECT_THAT(allReduce(std::array{instance, -instance}, Reduction::Max), ElementsAre(2, 0));
    const std::vector<double> doubles{0.5 + instance, 7};
    EXPECT_THAT(allReduce(std::span(doubles).first(1), Reduction::Mean), ElementsAre(1.5));
    EXPECT_THAT(allReduce(std::vector<std::complex<float>>{{x, 1}}), ElementsAre(std::complex<float>(3, 3)));
    EXPECT_THAT(allReduce(std::vector<std::complex<double>>{{x, 3}}, Reduction::Mean),
                ElementsAre(std::complex<double>(1, 3)));
    EXPECT_THAT(allGather(std::vector<uint8_t>{uint8_t(instance), 9}), ElementsAre(0, 9, 1, 9, 2, 9));
    EXPECT_THAT(broadcast(std::vector<int64_t>{instance, 2, 3, 4}, 2), ElementsAre(2, 2, 3, 4));
    EXPECT_TRUE(allReduce(std::vector<float>{}).empty());
    synchronize();
  });
}

// 1 + 2^-11 + 2^-11 is 1 + 2^-10 in float, a Half; rounded after each sum it would be 1.
TEST(Collectives, sums_of_16_bits_are_rounded_once) {
  onEach(3, [](int instance) {
    const float value = instance == 0 ? 1 : 1.0f / 2048, wide = instance == 0 ? 1 : 1.0f / 256;
    EXPECT_EQ(float(allReduce(std::vector<Half>{value}).front()), 1 + 1.0f / 1024);
    EXPECT_EQ(float(allReduce(std::vector<BFloat16>{wide}).front()), 1 + 1.0f / 128);
    EXPECT_EQ(float(allReduce(std::vector<Half>{3}, Reduction::Mean).front()), 3);
  });
}

TEST(Collectives, some_instances_have_collectives_of_their_own) {
  onEach(4, [](int instance) {
    registerCommunicator({0, 3}, 7);
    if (instance == 0 || instance == 3) {
      EXPECT_THAT(allGather(std::vector<int>{instance}, "ends", 7), ElementsAre(0, 3));
      synchronize(7);
    }
    const auto inside = execute_on_instances(
        {1, 3}, [&](int shift) { return allReduce(std::vector<int>{instance + shift}).front(); }, 10);
    static_assert(std::is_same_v<decltype(inside), const std::optional<int>>);
    EXPECT_EQ(inside, instance % 2 == 1 ? std::optional(24) : std::nullopt);
    bool ran = false;
    execute_on_instances({2}, [&] { ran = true; });
    EXPECT_EQ(ran, instance == 2);
    EXPECT_THAT(allGather(std::vector<int>{instance}), ElementsAre(0, 1, 2, 3));
  });
}

TEST(Collectives, calls_that_differ_are_the_same_error_on_all) {
  const auto errorsOf = [](auto f) {
    const std::vector<std::string> errors = onEach(2, f);
    EXPECT_EQ(errors[0], errors[1]);
    return errors[0];
  };
  EXPECT_THAT(errorsOf([](int i) { allGather(std::vector<int>(static_cast<size_t>(i) + 1)); }),
              HasSubstr("Instance 1 calls allGather of int32 [2], but instance 0 calls allGather of int32 [1]"));
  EXPECT_THAT(errorsOf([](int i) { allReduce(std::vector<int>{1}, Reduction::Sum, i == 0 ? "loss" : "norm"); }),
              HasSubstr("calls allReduce 'sum' named 'norm' of int32 [1], but instance 0 calls allReduce 'sum' named"));
  EXPECT_THAT(errorsOf([](int) { allReduce(std::vector<int>{1}, Reduction::Mean); }), HasSubstr("integers for a mean"));
  EXPECT_THAT(errorsOf([](int) { allReduce(std::vector<std::complex<float>>{1}, Reduction::Min); }),
              HasSubstr("got complex64 [1] for 'min'"));
  EXPECT_THAT(errorsOf([](int) { broadcast(std::vector<int>{1}, 2); }),
              HasSubstr("root: got 2, expected a member of 0 to 1"));
  EXPECT_THAT(errorsOf([](int) { synchronize(9); }),
              HasSubstr("communicator: got 9, expected one that is registered: 0."));
  EXPECT_THAT(errorsOf([](int) { registerCommunicator({0, 5}, 1); }), HasSubstr("got [0, 5], expected some of [0, 1]"));
}

// In a process that no launcher started.
TEST(Collectives, a_plain_process_is_the_only_instance) {
  Hosts hosts;
  Hosts::setCurrent(&hosts);
  EXPECT_FALSE(isBackendInitialized());
  EXPECT_THROW(initializeBackend(), std::runtime_error);
  EXPECT_THROW(registerBackend("/no/such/backend.so"), std::runtime_error);
  EXPECT_THAT(allGather(std::vector<int>{4}), ElementsAre(4));
  EXPECT_TRUE(isBackendInitialized());
  EXPECT_EQ(getNumInstances(), 1);
  EXPECT_EQ(execute_on_instances({0}, [] { return 5; }), 5);
  EXPECT_THROW(execute_on_instances({1}, [] {}), std::invalid_argument);
  finalizeBackend();
  EXPECT_FALSE(isBackendInitialized());
  Hosts::setCurrent(nullptr);
}

}  // namespace
}  // namespace popdist
