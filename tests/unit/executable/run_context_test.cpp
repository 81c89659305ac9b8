// Which report of a run is told: that of the earliest kernel and position, whatever the threads and their order.
#include "executable/run_context.hpp"

#include <gtest/gtest.h>

namespace popart::executable {
namespace {

ValueFailure at(int64_t position, int32_t operand = 1) {
  return {FailureKind::Index, operand, position, 10 * position, -5, 4};
}
std::string where(int64_t position) { return "element " + std::to_string(position) + " of"; }

TEST(RunContext, keeps_the_smallest_position) {
  std::atomic<bool> failed{false};
  RunContext context(failed);
  EXPECT_FALSE(context.hasFailure());
  for (int64_t position : {7, 3, 9}) context.report(at(position));
  EXPECT_TRUE(failed);
  EXPECT_EQ(context.message("Gather 'lookup'"),
            "Gather 'lookup': an index is out of range: got 30 at element 3 of input 1, expected -5 to 4. Check the "
            "indices");
  context.clear();
  EXPECT_FALSE(context.hasFailure());
}

TEST(RunContext, kernels_of_one_step_come_in_their_order) {
  std::atomic<bool> failed{false};
  RunContext one(failed), other(failed);
  one.enterLink(1);
  one.report(at(0));
  other.enterLink(0);
  other.report(at(8));
  EXPECT_TRUE(other.precedes(one));
  EXPECT_FALSE(one.precedes(other));
  one.enterLink(0);
  one.report(at(9));  // an earlier kernel than its own first report
  EXPECT_NE(one.message("step").find(where(9)), std::string::npos);
  EXPECT_TRUE(other.precedes(one));
}

TEST(RunContext, names_the_operator_within_a_kernel_of_several) {
  std::atomic<bool> failed{false};
  RunContext context(failed);
  context.report({FailureKind::DivisionByZero, 1, 4, 0, 0, 0, "Div"});
  EXPECT_EQ(context.message("Div 'share'").find("Div 'share': an integer is divided by zero"), 0u);
  EXPECT_EQ(context.message("FusedElementwise 'y'").find("Div in FusedElementwise 'y': an integer"), 0u);
}

TEST(RunContext, names_the_operator_that_a_kernel_watches) {
  std::atomic<bool> failed{false};
  RunContext context(failed);
  context.report({.kind = FailureKind::NotANumber, .position = 4, .subject = "Log 'y'", .tensor = "Log:0"});
  EXPECT_EQ(
      context.message("FloatingPointCheck 'y'").find("Log 'y': its result 'Log:0' is not finite: got NaN at element 4"),
      0u);
}

TEST(RunContext, tells_the_words_of_a_user_kernel) {
  std::atomic<bool> failed{false};
  RunContext context(failed);
  context.reportText("kernel of Root 'mine'", "no root");
  context.reportText("kernel of Root 'mine'", "another");
  context.report(at(0));
  EXPECT_TRUE(failed);
  EXPECT_EQ(context.message("step"), "kernel of Root 'mine': no root");
}

}  // namespace
}  // namespace popart::executable
