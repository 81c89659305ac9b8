// Pipeline stages: the part of a micro-batch's program that an op belongs to (Op::Settings::pipelineStage). Forward
// stages are 0 … n-1; the backward pass of stage s is stage 2n-2-s, so that the last forward stage is also the first
// backward one.
#pragma once
#include <set>

#include <popart/ir.hpp>

namespace popart::transforms {

// Requirements of a pipeline.
struct PipelineRules {
  enum class Form : uint8_t { Implicit, Explicit };  // Implicit: requires at least two virtual graphs
  Form form = Form::Implicit;
  bool trains = false;
  int64_t depth = 1;               // number of successive micro-batches
  const char *depthOf = "";        // the option that defines it
  bool stashesInputsOnly = false;  // RecomputationType.Pipeline
};

// The number of micro-batches under way when all stages of a pipeline of `forward` stages work.
int64_t leastDepth(int64_t forward, bool trains);

// One more than the highest stage of an op of the main graph; 0: no op has one.
int64_t stageCount(const Graph &main);

// For a forward graph. If no op has a stage, numbers the virtual graphs as stages, in the order in which values pass
// through them.
void inferPipelineStages(Graph &main);

// For a forward graph with stages. Throws popart::error, with ops, tensors, and the found and expected values, for:
// fewer than two virtual graphs (Implicit), ops that are marked for recomputation (training), stages on only some ops,
// negative stages, values that go back to an earlier stage, a stage on several virtual graphs, variables that several
// virtual graphs read, ops of a called graph that are not on the caller's virtual graph, and too few
// micro-batches.
void checkPipeline(const Graph &main, const PipelineRules &rules);

// Call it after the backward pass is added and recomputed ops are copied. Ops of the backward pass, from program place
// `firstGradient` on, still have the stage of their forward op; they get backward stages. Throws popart::error if a
// copy would have to run in two stages, or if only inputs of stages are stashed and an anchor is one of them.
void stageBackwardPass(Graph &main, int64_t firstGradient, const PipelineRules &rules,
                       const std::set<TensorId> &anchors);

}  // namespace popart::transforms
