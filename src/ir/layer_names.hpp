// Names of steps and layers. All views of a program's steps use them: schedules, tables of times, reports, commands and
// traces.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace popart {

// The suffixes that differentiation and optimizers append to the name of a layer.
inline constexpr char kGradientSuffix[] = "grad", kRecomputedSuffix[] = "recomputed", kUpdateSuffix[] = "update";

// "FusedConv.198" and "/conv1/Conv": "FusedConv.198  /conv1/Conv". Without a layer: the step alone.
std::string stepTitle(std::string_view step, std::string_view layer);

// The part of a training step that an op belongs to.
enum class TrainingPhase : uint8_t { Forward, Backward, Update };
const char *phaseName(TrainingPhase phase);  // "forward", "backward", "update"
// The layer and phase of an op with this name: "/conv1/Conv/grad" is "/conv1/Conv", Backward.
struct LayerOf {
  std::string layer;
  TrainingPhase phase = TrainingPhase::Forward;
};
LayerOf layerOf(std::string_view opName);

// The first `depth` scopes of a layer, 1 or more: "/layer1/layer1.0/conv1/Conv", 2 -> "/layer1/layer1.0".
std::string scopeOf(std::string_view layer, int depth);

}  // namespace popart
