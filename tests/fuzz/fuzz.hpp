// The fuzz tests. Each prints progress, every finding with the seed that repeats it, and a table of what happened; it
// returns the number of findings.
#pragma once
#include <cstdint>
#include <string>

namespace popart::fuzz {

struct Settings {
  int64_t runs = 2000;  // damaged models
  int64_t graphs = 200;
  int64_t texts = 300;  // damaged IR texts
  int64_t seed = 1;
  int64_t first = 0;  // number of the first damaged model or graph: one input alone is repeated with runs 1
};

// Damaged models end in success or in a popart::error of the user's kind, within bounds of time and memory.
int64_t damagedModels(const Settings &settings);

// Damaged IR text of gradient programs, optimizer steps and lowered programs is taken or refused likewise.
int64_t damagedTexts(const Settings &settings);

// Random graphs over the operator rows mean the same in every form and on every backend; gradients are right.
int64_t randomGraphs(const Settings &settings);

}  // namespace popart::fuzz
