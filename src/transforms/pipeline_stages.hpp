// Pipeline stages: the part of a micro-batch's program that an op belongs to (Op::Settings::pipelineStage). n forward
// stages 0 … n-1 are followed by the backward ones up to 2n-2: the backward pass of stage s is stage 2n-2-s, so that
// the last forward stage is also the first backward one.
#pragma once
#include <set>

#include <popart/ir.hpp>

namespace popart::transforms {

// What a pipeline is asked for.
struct PipelineRules {
  enum class Form : uint8_t { Implicit, Explicit };  // Implicit: stages are on two virtual graphs or more
  Form form = Form::Implicit;
  bool trains = false;
  int64_t depth = 1;               // micro-batches that come one behind the other
  const char *depthOf = "";        // the option that says so
  bool stashesInputsOnly = false;  // RecomputationType.Pipeline
};

// How many micro-batches are under way when all stages of a pipeline of `forward` stages work.
int64_t leastDepth(int64_t forward, bool trains);

// One more than the highest stage of an op of the main graph; 0: no op has one.
int64_t stageCount(const Graph &main);

// For a forward graph: where no op has a stage, the virtual graphs become stages in the order in which values go
// through them.
void inferPipelineStages(Graph &main);

// For a forward graph with stages. Throws popart::error, naming ops, tensors and what was found and expected, for:
// fewer than two virtual graphs (Implicit), ops that are marked to be computed again (training), stages on some ops
// only, negative stages, values that go back to an earlier stage, a stage on several virtual graphs, variables that
// several virtual graphs read, ops of a called graph without the caller's virtual graph, and too few
// micro-batches.
void checkPipeline(const Graph &main, const PipelineRules &rules);

// Once the backward pass is grown, and what it computes again is copied: its ops, which begin at program place
// `firstGradient` with the stage of the forward op they serve, get their own. Throws popart::error when a copy would
// have to run in two stages and, where inputs of stages alone are stashed, when an anchor is one of them.
void stageBackwardPass(Graph &main, int64_t firstGradient, const PipelineRules &rules,
                       const std::set<TensorId> &anchors);

}  // namespace popart::transforms
