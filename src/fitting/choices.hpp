// What a program can do without, in the order of what it costs: a pure function on values.
#pragma once
#include <set>
#include <vector>

#include "pipeline/prepare.hpp"
#include "transforms/spare_memory.hpp"

namespace popart::fitting {

// Which of two ways a choice takes where both are open.
enum class Preference : uint8_t { Cheaper, OffChip };

struct ChoiceRules {
  bool recomputes = true;  // activations may be computed again
  bool movesOffChip = true;
  int64_t microBatches = 1;  // of one update
  int threads = 1;           // that share kernels; a copy has one
  Preference preference = Preference::Cheaper;
};

// One piece of memory and what is done with it.
struct Choice {
  enum class Action : uint8_t { Recompute, MoveOffChip };
  const transforms::SpareMemory *memory = nullptr;
  Action action = Action::Recompute;
  double nanoseconds = 0;  // more in each update
};

// One choice for each piece of memory for which the rules leave a way, those first that cost the least for each byte;
// equal ones in program order, since what is made early is kept longest.
std::vector<Choice> rankChoices(const std::vector<transforms::SpareMemory> &spare, const ChoiceRules &rules);

// Lets the passes do what the first `count` choices say.
void apply(const std::vector<Choice> &choices, size_t count, pipeline::PipelineOptions &options);

// Constants that have to be variables for these.
std::set<TensorId> constantsOf(const std::vector<Choice> &choices, size_t count);

// "computed again", "optimizer state off chip".
const char *nameOf(const Choice &choice);

}  // namespace popart::fitting
