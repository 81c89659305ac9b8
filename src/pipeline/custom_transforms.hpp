// Transforms that SessionOptions name for checkpoints, which are the ends of phases: those of users, and passes that a
// program may run once more.
#pragma once
#include "pipeline/passes.hpp"

namespace popart::pipeline {

// Throws popart::error for an unknown checkpoint, and for a transform that is neither registered nor one of these.
void checkCustomTransforms(const PipelineOptions &options);

// Those of the checkpoint at the end of `phase`, in the order given, on the main graph.
void applyCustomTransforms(PassContext &context, Phase phase);

}  // namespace popart::pipeline
