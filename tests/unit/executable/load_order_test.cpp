// Which loads of a program are certain, and in what order.
#include "executable/load_order.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/hand_made.hpp"

namespace popart::executable {
namespace {

using namespace popart::test;
using testing::ElementsAre;
using testing::Pair;

// Stream and entersLoop of every load.
std::vector<std::pair<int, bool>> loadsOf(const Executable &e) {
  LoadOrder order(e);
  std::vector<std::pair<int, bool>> loads;
  for (int run = 0; run < 2; ++run) {  // the second one is as the first
    loads.clear();
    order.restart();
    while (const auto load = order.next()) {
      loads.emplace_back(load->stream, load->entersLoop);
      order.advance();
    }
  }
  return loads;
}

TEST(LoadOrder, LoopsInLoops) {
  const auto e = executableOf({load(0), loop(2, {load(1), loop(3, {kernel(), load(2)})}), load(0)}, 3, 0);
  EXPECT_THAT(loadsOf(e), ElementsAre(Pair(0, true), Pair(1, true), Pair(2, true), Pair(2, false), Pair(2, false),
                                      Pair(1, false), Pair(2, true), Pair(2, false), Pair(2, false), Pair(0, true)));
}

TEST(LoadOrder, ProgramsWithoutLoads) {
  EXPECT_THAT(loadsOf(executableOf({kernel(), loop(2, {kernel()}), store(0)}, 0, 1)), ElementsAre());
  EXPECT_THAT(loadsOf(executableOf({loop(0, {load(0)})}, 1, 0)), ElementsAre());
}

TEST(LoadOrder, NothingIsCertainFromABranchOn) {
  const auto e = executableOf({load(0), loop(5, {load(1), branch({load(2)}), load(1)}), load(0)}, 3, 0);
  EXPECT_THAT(loadsOf(e), ElementsAre(Pair(0, true), Pair(1, true)));
  // a branch that loads nothing does not matter
  const auto other = executableOf({loop(2, {load(0), branch({kernel()})}), load(1)}, 2, 0);
  EXPECT_THAT(loadsOf(other), ElementsAre(Pair(0, true), Pair(0, false), Pair(1, true)));
}

TEST(LoadOrder, LoopsWhoseLengthTheProgramComputes) {
  Executable e = executableOf({load(0), loop(2, {load(1)}), load(0)}, 2, 0);
  Step &counted = e.main.steps[1];
  counted.tripCount = -1;
  counted.in[0] = arena(e, 8);
  EXPECT_THAT(loadsOf(e), ElementsAre(Pair(0, true)));
  counted.in[0] = constant(e, TensorData::scalar(int64_t{3}));
  EXPECT_THAT(loadsOf(e), ElementsAre(Pair(0, true), Pair(1, true), Pair(1, false), Pair(1, false), Pair(0, true)));
  counted.in[1] = constant(e, TensorData::scalar(true));
  EXPECT_EQ(loadsOf(e).size(), 5U);
  counted.in[1] = constant(e, TensorData::scalar(false));
  EXPECT_EQ(loadsOf(e).size(), 1U);
}

TEST(LoadOrder, LoopsThatMayEndAfterAnIteration) {
  Executable e = executableOf({loop(4, {load(0), load(1)}), load(0)}, 2, 0);
  e.main.steps[0].condition = arena(e, 1);
  EXPECT_THAT(loadsOf(e), ElementsAre(Pair(0, true), Pair(1, true)));
}

TEST(LoadOrder, SeveralValuesInARun) {
  EXPECT_FALSE(movesSeveralValues(executableOf({load(0), load(1), kernel(), store(0)}, 2, 1)));
  EXPECT_FALSE(movesSeveralValues(executableOf({loop(1, {load(0), store(0)})}, 1, 1)));
  EXPECT_TRUE(movesSeveralValues(executableOf({loop(2, {load(0)})}, 1, 0)));
  EXPECT_TRUE(movesSeveralValues(executableOf({loop(2, {branch({store(0)})})}, 0, 1)));
  EXPECT_TRUE(movesSeveralValues(executableOf({load(0), kernel(), load(0)}, 1, 0)));
}

}  // namespace
}  // namespace popart::executable
