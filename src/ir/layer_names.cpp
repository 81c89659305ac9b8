// See layer_names.hpp. Scopes are the parts of a name between "/".
#include "ir/layer_names.hpp"

#include <algorithm>

namespace popart {

std::string stepTitle(std::string_view step, std::string_view layer) {
  std::string title(step);
  if (!layer.empty()) title.append("  ").append(layer);
  return title;
}

const char *phaseName(TrainingPhase phase) {
  constexpr const char *kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

LayerOf layerOf(std::string_view opName) {
  for (size_t begin = 0; begin < opName.size();) {
    const size_t end = std::min(opName.find('/', begin), opName.size());
    const std::string_view part = opName.substr(begin, end - begin);
    const bool isBackward = part == kGradientSuffix || part == kRecomputedSuffix;
    if (isBackward || part == kUpdateSuffix)
      return {std::string(opName.substr(0, begin == 0 ? 0 : begin - 1)),
              isBackward ? TrainingPhase::Backward : TrainingPhase::Update};
    begin = end + 1;
  }
  return {std::string(opName)};
}

std::string scopeOf(std::string_view layer, int depth) {
  size_t end = layer.starts_with('/') ? 1 : 0;
  for (int scopes = 1; (end = layer.find('/', end)) != std::string_view::npos; ++scopes, ++end)
    if (scopes == depth) return std::string(layer.substr(0, end));
  return std::string(layer);
}

}  // namespace popart
