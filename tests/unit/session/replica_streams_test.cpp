// One source for several replicas: values and calls come in the order of micro-batches and replicas, whichever replica
// is ahead.
#include "session/replica_streams.hpp"

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace popart::session {
namespace {

using testing::ElementsAre;

// Gives 1, 2, 3 … and keeps what is stored.
struct Numbers final : runtime::StreamSource {
  const void *input(int, int64_t) override {
    if (++given == failsAt) throw std::runtime_error("no more numbers");
    return &given;
  }
  void *output(int, int64_t bytes) override {
    stored.resize(stored.size() + static_cast<size_t>(bytes) / sizeof(int));
    return &stored.back();
  }
  int given = 0, failsAt = -1;
  std::vector<int> stored;
};

int load(runtime::StreamSource &lane) {
  int value = 0;
  std::memcpy(&value, lane.input(0, sizeof value), sizeof value);
  lane.inputDone(0);
  return value;
}

void store(runtime::StreamSource &lane, int value) {
  std::memcpy(lane.output(0, sizeof value), &value, sizeof value);
  lane.outputDone(0);
}

TEST(ReplicaStreams, a_replica_that_is_ahead_gets_its_own_values) {
  ReplicaStreams streams(2, {false}, 1);
  Numbers source;
  const auto lanes = streams.lanes(source);
  EXPECT_EQ(load(*lanes[1]), 2);
  EXPECT_EQ(load(*lanes[1]), 4);
  EXPECT_EQ(load(*lanes[1]), 6);
  EXPECT_EQ(load(*lanes[0]), 1);
  EXPECT_EQ(load(*lanes[0]), 3);
  EXPECT_EQ(load(*lanes[0]), 5);
  EXPECT_EQ(load(*lanes[0]), 7);
}

TEST(ReplicaStreams, results_are_handed_over_in_order) {
  ReplicaStreams streams(3, {}, 1);
  Numbers source;
  const auto lanes = streams.lanes(source);
  store(*lanes[2], 3);
  store(*lanes[2], 6);
  store(*lanes[0], 1);
  EXPECT_THAT(source.stored, ElementsAre());
  store(*lanes[1], 2);
  EXPECT_THAT(source.stored, ElementsAre(1, 2, 3));
  store(*lanes[1], 5);
  store(*lanes[0], 4);
  EXPECT_THAT(source.stored, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ReplicaStreams, a_broadcast_input_is_asked_for_once) {
  ReplicaStreams streams(2, {true}, 0);
  Numbers source;
  const auto lanes = streams.lanes(source);
  EXPECT_EQ(load(*lanes[0]), 1);
  EXPECT_EQ(load(*lanes[0]), 2);
  EXPECT_EQ(load(*lanes[1]), 1);
  EXPECT_EQ(load(*lanes[1]), 2);
}

TEST(ReplicaStreams, every_replica_ends_with_the_exception_of_the_source) {
  ReplicaStreams streams(2, {false}, 1);
  Numbers source;
  source.failsAt = 2;
  const auto lanes = streams.lanes(source);
  const auto message = [&](auto &&f) {
    std::string what;
    try {
      f();
    } catch (const std::runtime_error &e) {
      what = e.what();
    }
    return what;
  };
  EXPECT_EQ(message([&] { load(*lanes[0]); }), "no more numbers");
  EXPECT_EQ(message([&] { load(*lanes[1]); }), "no more numbers");
  store(*lanes[0], 1);
  EXPECT_EQ(message([&] { store(*lanes[1], 2); }), "no more numbers");
  EXPECT_EQ(source.given, 2);
}

TEST(ReplicaStreams, after_a_failure_a_new_run_begins_anew) {
  ReplicaStreams streams(2, {false}, 0);
  Numbers source;
  source.failsAt = 2;
  auto lanes = streams.lanes(source);
  EXPECT_THROW(load(*lanes[0]), std::runtime_error);
  EXPECT_ANY_THROW(load(*lanes[1]));
  Numbers next;
  lanes = streams.lanes(next);
  EXPECT_EQ(load(*lanes[1]), 2);
  EXPECT_EQ(load(*lanes[0]), 1);
}

}  // namespace
}  // namespace popart::session
