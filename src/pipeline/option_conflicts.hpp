// The table of session options that contradict each other, or whose values have no meaning.
#pragma once
#include "pipeline/options_table.hpp"

namespace popart::pipeline {

// Throws popart::error for the first row that applies.
void checkConflicts(const SessionOptions &options, RunMode mode);

}  // namespace popart::pipeline
