// What a program can do without, ranked.
#include "fitting/choices.hpp"

#include <gtest/gtest.h>

namespace popart::fitting {
namespace {

using transforms::SpareMemory;

SpareMemory activation(const TensorId &id, int64_t bytes, double flops) {
  SpareMemory spare;
  spare.bytes = bytes;
  spare.repeated = spare.moved = {id};
  spare.again.flops = flops;
  spare.bytesPerMicroBatch = 2 * bytes;
  return spare;
}

SpareMemory state(const TensorId &id, int64_t bytes) {
  SpareMemory spare;
  spare.variable = transforms::OffChip::Held::OptimizerState;
  spare.bytes = bytes;
  spare.moved = {id};
  spare.bytesPerUpdate = bytes;
  return spare;
}

const std::vector<SpareMemory> kSpare{activation("product", 1 << 20, 1e12), activation("gelu", 1 << 20, 1e3),
                                      state("momentum", 1 << 20)};

std::vector<std::string> named(const std::vector<Choice> &choices) {
  std::vector<std::string> names;
  for (const Choice &c : choices) names.push_back(c.memory->moved[0] + ": " + nameOf(c));
  return names;
}

TEST(Choices, the_cheapest_byte_comes_first) {
  EXPECT_EQ(named(rankChoices(kSpare, {})),
            (std::vector<std::string>{"gelu: computed again", "momentum: optimizer state off chip",
                                      "product: activations off chip"}));
}

TEST(Choices, micro_batches_count_for_activations_and_not_for_updates) {
  const std::vector<SpareMemory> both{activation("product", 1 << 20, 1e12), state("momentum", 4 << 20)};
  ChoiceRules rules;
  rules.microBatches = 8;
  EXPECT_EQ(rankChoices(both, rules)[0].memory, &both[1]);
}

TEST(Choices, rules_leave_out_ways_and_what_has_no_other) {
  ChoiceRules on;
  on.movesOffChip = false;
  EXPECT_EQ(named(rankChoices(kSpare, on)),
            (std::vector<std::string>{"gelu: computed again", "product: computed again"}));
  ChoiceRules off;
  off.recomputes = false;
  EXPECT_EQ(rankChoices(kSpare, off).size(), 3u);
  off.movesOffChip = false;
  EXPECT_TRUE(rankChoices(kSpare, off).empty());
}

TEST(Choices, passes_get_a_prefix) {
  const std::vector<Choice> choices = rankChoices(kSpare, {});
  pipeline::PipelineOptions options;
  apply(choices, 0, options);
  EXPECT_FALSE(options.offChip.any());
  EXPECT_EQ(options.recompute, transforms::RecomputeRule::Marked);
  apply(choices, 2, options);
  EXPECT_EQ(options.recompute, transforms::RecomputeRule::Chosen);
  EXPECT_EQ(options.recomputeChosen, std::set<TensorId>{"gelu"});
  EXPECT_EQ(options.offChip.byTensor, (std::map<TensorId, bool>{{"momentum", true}}));
}

}  // namespace
}  // namespace popart::fitting
