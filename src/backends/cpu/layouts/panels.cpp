// Panels of matrices: "packed16", "packed_t16"; and the parts of names that all packings share.
#include "backends/cpu/layouts/panels.hpp"

#include <charconv>

#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

// Removes a number above 0 from the front of `text` and returns it.
std::optional<int32_t> takeNumber(std::string_view &text) {
  int32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return failure == std::errc() && value > 0 ? std::optional(value) : std::nullopt;
}

bool takeWord(std::string_view &text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

const executable::LayoutFamily kPanelFamily("packed<columns>, packed_t<columns>",
                                            [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                              const auto name = PanelName::parse(text);
                                              if (!name || name->groups != 0) return nullptr;
                                              return std::make_unique<MatrixPanels>(*name);
                                            });

}  // namespace

std::string PanelName::text() const {
  const std::string columns = (transposed == Transposed::kYes ? "_t" : "") + std::to_string(panel);
  return groups == 0 ? "packed" + columns : "packed_conv" + columns + "g" + std::to_string(groups);
}

std::optional<PanelName> PanelName::parse(std::string_view text) {
  if (!takeWord(text, "packed")) return std::nullopt;
  const bool isConv = takeWord(text, "_conv");
  const Transposed transposed = takeWord(text, "_t") ? Transposed::kYes : Transposed::kNo;
  const auto panel = takeNumber(text);
  if (!panel || takeWord(text, "g") != isConv) return std::nullopt;
  const std::optional<int64_t> groups = isConv ? takeNumber(text) : 0;
  if (!groups || !text.empty()) return std::nullopt;
  return PanelName{*panel, transposed, *groups};
}

PanelShape MatrixPanels::shapeOf(const TensorInfo &info) const {
  const Shape &s = info.shape();
  PanelShape p{1, s[s.size() - 2], s.back()};
  for (size_t i = 0; i + 2 < s.size(); ++i) p.matrices *= s[i];
  if (transposed() == Transposed::kYes) std::swap(p.rows, p.columns);
  return p;
}

const executable::Layout *matrixPanels(Transposed transposed) {
  return executable::layoutNamed(PanelName{panelWidth(), transposed}.text());
}

const PanelLayout *asPanels(const executable::Layout *layout) { return dynamic_cast<const PanelLayout *>(layout); }
const MatrixPanels *asMatrixPanels(const executable::Layout *layout) {
  return dynamic_cast<const MatrixPanels *>(layout);
}

}  // namespace popart::cpu
