// The only reader of SessionOptions: checks them and converts them to the options of single passes. options_table.hpp
// says what each option does here; option_conflicts.hpp is the table of contradictions.
#pragma once
#include <popart/sessionoptions.hpp>

#include "lower/collectives.hpp"
#include "pipeline/options_table.hpp"
#include "pipeline/prepare.hpp"

namespace popart::pipeline {

// Throws popart::error for the first contradiction, then for the first refused value:
//   "SessionOptions: <what contradicts>. <what to do>"  or
//   "SessionOptions::<name> is not supported yet: <reason>. <what to do>".
// Values and keys that should have an effect but have none cause a warning, once per process.
void checkOptions(const SessionOptions &options, RunMode mode);

// The same for marks that methods of the builder set on single nodes.
void warnAboutMarks(const Ir &ir);
// Warns, once per process and name, of locations whose name is not a tensor of the program.
void warnAboutLocations(const Ir &ir, const transforms::OffChip &rules);

// Adds the engine options of the environment; options of the program take precedence.
SessionOptions withEnvironment(SessionOptions options);

// Throws popart::error for a reduction that is neither Sum nor Mean.
OptimizerFactors optimizerFactors(const SessionOptions &options);
// Which tensors are kept in remote memory.
transforms::OffChip offChipRules(const SessionOptions &options);
// The tensors of which each replica keeps only a part.
transforms::ShardRules shardRules(const SessionOptions &options);
// How collectives over replicas are merged and split.
lower::CollectiveRules collectiveRules(const SessionOptions &options);
// Options of the pass table, with the dot checkpoints of POPART_DOT_CHECKS added.
PipelineOptions pipelineOptions(const SessionOptions &options);

}  // namespace popart::pipeline
