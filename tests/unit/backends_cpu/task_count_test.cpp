// Numbers of tasks and of leaves.
#include <gtest/gtest.h>

#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

TEST(TaskCount, is_bounded_by_the_work_the_pieces_and_the_most_tasks) {
  EXPECT_EQ(taskCount(100, 200, 10), 1);
  EXPECT_EQ(taskCount(0, 200, 0), 1);
  EXPECT_EQ(taskCount(1000, 100, 7), 7);
  EXPECT_EQ(taskCount(1 << 30, 1, 1 << 30), kMostTasks);
}

// 64 threads need three turns for 147 equal tasks, in the last of which most of them have none.
TEST(TaskCount, above_the_most_threads_fills_whole_turns) {
  EXPECT_EQ(taskCount(147, 1, 1000), 192);
  EXPECT_EQ(taskCount(64, 1, 1000), 64);
  EXPECT_EQ(taskCount(65, 1, 1000), 128);
  EXPECT_EQ(taskCount(100, 1, 100), 100) << "there are no more pieces";
}

TEST(LeafCount, never_changes_with_the_number_of_threads_for_which_tasks_are_made) {
  EXPECT_EQ(leafCount(147, 1, 1000), 147);
  EXPECT_EQ(leafCount(1 << 30, 1, 1 << 30), kMostTasks);
  EXPECT_EQ(leafCount(0, 200, 0), 1);
}

}  // namespace
}  // namespace popart::cpu
