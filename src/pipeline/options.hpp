// The only reader of SessionOptions: checks them and turns them into the options of single passes. options_table.hpp
// says what each option does here; combinations that contradict each other are a table in options.cpp.
#pragma once
#include <popart/sessionoptions.hpp>

#include "lower/collectives.hpp"
#include "pipeline/options_table.hpp"
#include "pipeline/prepare.hpp"

namespace popart::pipeline {

// Throws popart::error for the first contradiction, then for the first refused value:
//   "SessionOptions: <what contradicts>. <what to do>"  or
//   "SessionOptions::<name> is not supported yet: <reason>. <what to do>".
// Values and keys that have no effect although they promise one are named in a warning, once per process.
void checkOptions(const SessionOptions &options, RunMode mode);

// The same for what the builder's methods ask of single nodes.
void warnAboutMarks(const Ir &ir);
// Once per process and name: locations by name that name no tensor of the program.
void warnAboutLocations(const Ir &ir, const transforms::OffChip &rules);

// The options with the engine options of the environment added; those that the program gave stay.
SessionOptions withEnvironment(SessionOptions options);

// Throws popart::error for a reduction that is neither Sum nor Mean.
OptimizerFactors optimizerFactors(const SessionOptions &options);
// What is kept in remote memory.
transforms::OffChip offChipRules(const SessionOptions &options);
// Of what each replica keeps a part.
transforms::ShardRules shardRules(const SessionOptions &options);
// How collectives over replicas are put together.
lower::CollectiveRules collectiveRules(const SessionOptions &options);
// Options of the pass table, with the dot checkpoints of POPART_DOT_CHECKS added.
PipelineOptions pipelineOptions(const SessionOptions &options);

}  // namespace popart::pipeline
