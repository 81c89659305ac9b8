// Names of steps and layers as every view of them has them.
#include "ir/layer_names.hpp"

#include <gtest/gtest.h>

namespace popart {
namespace {

TEST(LayerNames, a_title_is_the_step_and_its_layer) {
  EXPECT_EQ(stepTitle("FusedConv.198", "/conv1/Conv"), "FusedConv.198  /conv1/Conv");
  EXPECT_EQ(stepTitle("Reorder.7", ""), "Reorder.7");
}

TEST(LayerNames, what_follows_the_suffix_of_a_gradient_or_an_update_is_no_part_of_the_layer) {
  const struct {
    const char *name, *layer;
    TrainingPhase phase;
  } rows[] = {
      {"/conv1/Conv", "/conv1/Conv", TrainingPhase::Forward},
      {"/conv1/Conv/grad", "/conv1/Conv", TrainingPhase::Backward},
      {"/conv1/Conv/grad/reorder", "/conv1/Conv", TrainingPhase::Backward},
      {"/conv1/Conv/recomputed", "/conv1/Conv", TrainingPhase::Backward},
      {"/conv1/Conv/update", "/conv1/Conv", TrainingPhase::Update},
      {"grad", "", TrainingPhase::Backward},
      {"update", "", TrainingPhase::Update},
      {"", "", TrainingPhase::Forward},
      {"gradual/updates", "gradual/updates", TrainingPhase::Forward},
  };
  for (const auto &row : rows) {
    const LayerOf found = layerOf(row.name);
    EXPECT_EQ(found.layer, row.layer) << row.name;
    EXPECT_EQ(found.phase, row.phase) << row.name;
  }
}

TEST(LayerNames, a_scope_is_the_first_parts_of_a_name) {
  const char *layer = "/layer1/layer1.0/conv1/Conv";
  EXPECT_EQ(scopeOf(layer, 1), "/layer1");
  EXPECT_EQ(scopeOf(layer, 2), "/layer1/layer1.0");
  EXPECT_EQ(scopeOf(layer, 4), layer);
  EXPECT_EQ(scopeOf(layer, 9), layer);
  EXPECT_EQ(scopeOf("a/b/c", 2), "a/b");
  EXPECT_EQ(scopeOf("a", 1), "a");
  EXPECT_EQ(scopeOf("", 1), "");
}

}  // namespace
}  // namespace popart
