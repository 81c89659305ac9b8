// Passes of placement and pipelining: the IPU and the stage of each op, and the pipeline itself.
#include <algorithm>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "pipeline/passes.hpp"
#include "transforms/pipeline_loop.hpp"
#include "transforms/pipeline_stages.hpp"
#include "transforms/virtual_graphs.hpp"

namespace popart::pipeline {
namespace {

using transforms::PipelineRules;

// With accumulation the pipeline runs within one update, in training without it over the batches of a step.
PipelineRules rulesOf(const PassContext &c) {
  const PipelineOptions &options = c.request.options;
  check(options.pipelines.has_value(), "no pipelining was asked for. Set SessionOptions::enablePipelining");
  PipelineRules rules;
  rules.form = *options.pipelines;
  rules.trains = c.trains();
  const bool accumulates = c.trains() && options.factors.accumulates;
  rules.depth = accumulates ? options.factors.accumulationFactor : c.request.batchesPerStep;
  rules.depthOf = accumulates ? "SessionOptions::accumulationFactor" : "batchesPerStep of the DataFlow";
  rules.stashesInputsOnly = options.recompute == transforms::RecomputeRule::Stages;
  return rules;
}

void checkReturnTypes(const PassContext &c) {
  for (const Anchor &anchor : c.request.anchors)
    check(anchor.returns.kind != transforms::ReturnType::Kind::EveryN,
          "DataFlow: the anchor '{}' returns EveryN, which explicit pipelining does not give. Use All, Sum or Final",
          anchor.streamId());
}

// compat: a joint norm needs the gradients of all virtual graphs, so their updates would wait for one another
// (test_clipping_needs_another_schedule).
void checkClipping(const PassContext &c) {
  check(!c.trains() || c.request.updates->clipping.empty() || !c.request.options.updatesInTurn,
        "SessionOptions::enablePipelining with clipNormSettings of the optimizer: got schedule Serial in "
        "accumulateOuterFragmentSettings, expected another one. Set it to Scheduler or OverlapMemoryOptimized");
}

}  // namespace

void placeOnVirtualGraphs(PassContext &c) { transforms::placeOnVirtualGraphs(c.ir(), c.request.options.virtualGraphs); }

void addIpuCopies(PassContext &c) { transforms::addIpuCopies(c.main()); }

void stageForwardPass(PassContext &c) {
  const PipelineRules rules = rulesOf(c);
  if (rules.form == PipelineRules::Form::Explicit) checkReturnTypes(c);
  checkClipping(c);
  transforms::inferPipelineStages(c.main());
  transforms::checkPipeline(c.main(), rules);
}

void stageBackwardPass(PassContext &c) {
  check(c.firstGradient.has_value(), "stageBackwardPass: there is no backward pass. Run growBackwardPass first");
  transforms::stageBackwardPass(c.main(), *c.firstGradient, rulesOf(c), c.anchors);
}

// Without accumulation every batch ends with an update, and a pipeline over batches would use weights of earlier ones.
void pipelineLoops(PassContext &c) {
  if (c.trains() && !c.request.options.factors.accumulates) {
    logging::transform::info(
        "enablePipelining without gradient accumulation: the stages of each batch run one after the other, so that no "
        "weight is out of date");
    return;
  }
  transforms::pipelineLoops(c.ir());
}

}  // namespace popart::pipeline
