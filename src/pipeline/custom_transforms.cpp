// See custom_transforms.hpp.
#include "pipeline/custom_transforms.hpp"

#include <algorithm>

#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popart/transforms/transform.hpp>

#include "base/nearest.hpp"
#include "transforms/decompose_sums.hpp"
#include "transforms/prune.hpp"

namespace popart::pipeline {
namespace {

constexpr Phase kCheckpoints[] = {Phase::Fwd0,     Phase::Fwd1,      Phase::Bwd0,
                                  Phase::PreAlias, Phase::MainLoops, Phase::Final};

// Tensors that later phases read: the loss and, until the backward pass exists, tensors whose gradients are requested.
std::set<TensorId> readLater(const PassContext &c, Phase phase) {
  std::set<TensorId> kept = phase < Phase::Bwd0 ? readByBackwardPass(c) : c.anchors;
  if (phase < Phase::PreAlias)
    for (const auto *gradients : {&c.weightToGradient, &c.namedToGradient})
      for (const auto &[id, gradient] : *gradients) kept.insert(gradient);
  return kept;
}

struct OwnTransform {
  const char *name;  // its name in PopART
  void (*apply)(PassContext &, Phase);
};

constexpr OwnTransform kOwn[] = {
    {"Prune", [](PassContext &c, Phase phase) { transforms::prune(c.main(), readLater(c, phase)); }},
    {"DecomposeGradSum", [](PassContext &c, Phase) { transforms::decomposeGradientSums(c.main()); }},
};

const OwnTransform *findOwn(const std::string &name) {
  const auto found = std::ranges::find(kOwn, name, &OwnTransform::name);
  return found == std::end(kOwn) ? nullptr : found;
}

void checkTransform(const std::string &checkpoint, const std::string &name) {
  std::vector<std::string> names = Transform::names();
  for (const OwnTransform &own : kOwn) names.push_back(own.name);
  check(std::ranges::find(names, name) != names.end(),
        "SessionOptions::experimentalSettings.customTransformApplierSettings['{}']: '{}' is not a transform that runs "
        "at a "
        "checkpoint. Register it before the session is made{}",
        checkpoint, name, nearestText(name, names));
}

}  // namespace

void checkCustomTransforms(const PipelineOptions &options) {
  std::vector<std::string> checkpoints;
  for (Phase phase : kCheckpoints) checkpoints.push_back(phaseName(phase));
  for (const auto &[checkpoint, names] : options.customTransforms) {
    check(std::ranges::find(checkpoints, checkpoint) != checkpoints.end(),
          "SessionOptions::experimentalSettings.customTransformApplierSettings: got the checkpoint '{}', expected one "
          "of {}",
          checkpoint, checkpoints);
    for (const std::string &name : names) checkTransform(checkpoint, name);
  }
}

void applyCustomTransforms(PassContext &c, Phase phase) {
  const auto found = c.request.options.customTransforms.find(phaseName(phase));
  if (found == c.request.options.customTransforms.end()) return;
  for (const std::string &name : found->second) {
    const uint64_t revision = c.main().revision();
    if (const OwnTransform *own = findOwn(name)) {
      own->apply(c, phase);
    } else {
      Transform::get(name).apply(c.main());
    }
    logging::transform::debug("{} at {}: {}", name, phaseName(phase),
                              c.main().revision() == revision ? "no change" : "changed the graph");
  }
}

}  // namespace popart::pipeline
