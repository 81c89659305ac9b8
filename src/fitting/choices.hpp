// Ranks ways to save memory by their cost: a pure function on values.
#pragma once
#include <set>
#include <vector>

#include "pipeline/prepare.hpp"
#include "transforms/spare_memory.hpp"

namespace popart::fitting {

// Which action to prefer if both are possible.
enum class Preference : uint8_t { Cheaper, OffChip };

struct ChoiceRules {
  bool recomputes = true;  // activations may be computed again
  bool movesOffChip = true;
  int64_t microBatches = 1;  // number per update
  int threads = 1;           // threads that share a kernel; a copy has one
  Preference preference = Preference::Cheaper;
};

// One piece of memory and the action for it.
struct Choice {
  enum class Action : uint8_t { Recompute, MoveOffChip };
  const transforms::SpareMemory *memory = nullptr;
  Action action = Action::Recompute;
  double nanoseconds = 0;  // additional time of each update
};

// One choice for each piece of memory for which the rules allow an action, in ascending order of cost per byte; equal
// ones in program order, because values that are made early are kept longest.
std::vector<Choice> rankChoices(const std::vector<transforms::SpareMemory> &spare, const ChoiceRules &rules);

// Sets the options so that passes apply the first `count` choices.
void apply(const std::vector<Choice> &choices, size_t count, pipeline::PipelineOptions &options);

// Constants that have to be variables for these choices.
std::set<TensorId> constantsOf(const std::vector<Choice> &choices, size_t count);

// For example "computed again", "optimizer state off chip".
const char *nameOf(const Choice &choice);

}  // namespace popart::fitting
