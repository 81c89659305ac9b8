// Transforms that SessionOptions name for checkpoints, which are the ends of phases: transforms of users, and passes
// that a program may run again.
#pragma once
#include "pipeline/passes.hpp"

namespace popart::pipeline {

// Throws popart::error for an unknown checkpoint, and for a transform that is neither registered nor one of these.
void checkCustomTransforms(const PipelineOptions &options);

// Runs those of the checkpoint at the end of `phase`, in the given order, on the main graph.
void applyCustomTransforms(PassContext &context, Phase phase);

}  // namespace popart::pipeline
