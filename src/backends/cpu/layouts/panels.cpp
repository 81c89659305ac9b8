// Panels of matrices: "packed16", "packed_t16"; and the names that all packings have in common.
#include "backends/cpu/layouts/panels.hpp"

#include <charconv>

#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

std::string nameOf(int32_t panel, Turned turned) {
  return (turned == Turned::kYes ? "packed_t" : "packed") + std::to_string(panel);
}

const executable::LayoutFamily kFamily("packed<columns>, packed_t<columns>",
                                       [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                         LayoutName name(text);
                                         if (!name.take("packed")) return nullptr;
                                         const Turned turned = name.take("_t") ? Turned::kYes : Turned::kNo;
                                         const auto panel = name.number();
                                         if (!panel || !name.isDone()) return nullptr;
                                         return std::make_unique<MatrixPanels>(*panel, turned);
                                       });

}  // namespace

MatrixPanels::MatrixPanels(int32_t panel, Turned turned) : PermutedLayout(nameOf(panel, turned), panel, turned) {}

PanelShape MatrixPanels::shapeOf(const TensorInfo &info) const {
  const Shape &s = info.shape();
  PanelShape p{1, s[s.size() - 2], s.back()};
  for (size_t i = 0; i + 2 < s.size(); ++i) p.matrices *= s[i];
  if (turned() == Turned::kYes) std::swap(p.rows, p.columns);
  return p;
}

const executable::Layout *matrixPanels(Turned turned) { return executable::layoutNamed(nameOf(panelWidth(), turned)); }

const PanelLayout *asPanels(const executable::Layout *layout) { return dynamic_cast<const PanelLayout *>(layout); }
const MatrixPanels *asMatrixPanels(const executable::Layout *layout) {
  return dynamic_cast<const MatrixPanels *>(layout);
}

bool LayoutName::take(std::string_view word) {
  if (!rest_.starts_with(word)) return false;
  rest_.remove_prefix(word.size());
  return true;
}

std::optional<int32_t> LayoutName::number() {
  int32_t value = 0;
  const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  if (failure != std::errc() || value <= 0) return std::nullopt;
  return value;
}

}  // namespace popart::cpu
