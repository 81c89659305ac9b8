// Panels of convolution weights: "packed_conv16g1", "packed_conv_t16g1".
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::cpu {
namespace {

std::string nameOf(int32_t panel, Transposed transposed, int64_t groups) {
  return (transposed == Transposed::kYes ? "packed_conv_t" : "packed_conv") + std::to_string(panel) + "g" +
         std::to_string(groups);
}

const executable::LayoutFamily kFamily("packed_conv<columns>g<groups>, packed_conv_t<columns>g<groups>",
                                       [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                         LayoutName name(text);
                                         if (!name.take("packed_conv")) return nullptr;
                                         const Transposed transposed =
                                             name.take("_t") ? Transposed::kYes : Transposed::kNo;
                                         const auto panel = name.number();
                                         if (!panel || !name.take("g")) return nullptr;
                                         const auto groups = name.number();
                                         if (!groups || !name.isDone()) return nullptr;
                                         return std::make_unique<ConvPanels>(*panel, transposed, *groups);
                                       });

}  // namespace

ConvPanels::ConvPanels(int32_t panel, Transposed transposed, int32_t groups)
    : PermutedLayout(nameOf(panel, transposed, groups), panel, transposed), groups_(groups) {}

bool ConvPanels::describes(const TensorInfo &info) const {
  const Shape &s = info.shape();
  return s.size() >= 2 && s[0] % groups_ == 0 && (info.nelms() == 0 || (s[0] > 0 && s[1] > 0));
}

PanelShape ConvPanels::shapeOf(const TensorInfo &info) const {
  const Shape &s = info.shape();
  const int64_t columns = transposed() == Transposed::kYes ? s[1] : s[0] / groups_;
  return {groups_, info.nelms() == 0 ? 0 : info.nelms() / groups_ / columns, columns};
}

const executable::Layout *convPanels(const Shape &weights, int64_t groups, Transposed transposed) {
  const bool isDepthwise = groups > 1 && weights[1] == 1 && weights[0] == groups;
  return executable::layoutNamed(isDepthwise ? nameOf(panelWidth(), Transposed::kNo, 1)
                                             : nameOf(panelWidth(), transposed, groups));
}

const ConvPanels *asConvPanels(const executable::Layout *layout) { return dynamic_cast<const ConvPanels *>(layout); }

}  // namespace popart::cpu
