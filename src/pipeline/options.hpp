// The only reader of SessionOptions: checks them and turns them into the options of single passes. Two tables hold all
// rules: combinations that contradict each other, and options whose effect on results is not built yet.
#pragma once
#include <string>
#include <vector>

#include <popart/sessionoptions.hpp>

#include "pipeline/prepare.hpp"

namespace popart::pipeline {

enum class RunMode { Inference, Training };

// Throws popart::error for the first row of either table that applies:
//   "SessionOptions: <what contradicts>. <what to do>"  or  "SessionOptions::<name> is not supported yet: <reason>.
//   <what to do>".
void checkOptions(const SessionOptions &options, RunMode mode);

// Names of the options in the table of those not supported yet, for documents and tests.
std::vector<std::string> unsupportedOptionNames();

OptimizerFactors optimizerFactors(const SessionOptions &options);
// Options of the pass table, with the dot checkpoints of POPART_DOT_CHECKS added.
PipelineOptions pipelineOptions(const SessionOptions &options);

}  // namespace popart::pipeline
