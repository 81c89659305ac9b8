// Panels of convolution weights: "packed_conv16g1", "packed_conv_t16g1".
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::cpu {
namespace {

std::string nameOf(int32_t panel, Turned turned, int64_t groups) {
  return (turned == Turned::kYes ? "packed_conv_t" : "packed_conv") + std::to_string(panel) + "g" +
         std::to_string(groups);
}

const executable::LayoutFamily kFamily("packed_conv<columns>g<groups>, packed_conv_t<columns>g<groups>",
                                       [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                         LayoutName name(text);
                                         if (!name.take("packed_conv")) return nullptr;
                                         const Turned turned = name.take("_t") ? Turned::kYes : Turned::kNo;
                                         const auto panel = name.number();
                                         if (!panel || !name.take("g")) return nullptr;
                                         const auto groups = name.number();
                                         if (!groups || !name.isDone()) return nullptr;
                                         return std::make_unique<ConvPanels>(*panel, turned, *groups);
                                       });

}  // namespace

ConvPanels::ConvPanels(int32_t panel, Turned turned, int32_t groups)
    : PermutedLayout(nameOf(panel, turned, groups), panel, turned), groups_(groups) {}

bool ConvPanels::describes(const TensorInfo &info) const {
  const Shape &s = info.shape();
  return s.size() >= 2 && s[0] % groups_ == 0 && (info.nelms() == 0 || (s[0] > 0 && s[1] > 0));
}

PanelShape ConvPanels::shapeOf(const TensorInfo &info) const {
  const Shape &s = info.shape();
  const int64_t columns = turned() == Turned::kYes ? s[1] : s[0] / groups_;
  return {groups_, info.nelms() == 0 ? 0 : info.nelms() / groups_ / columns, columns};
}

const executable::Layout *convPanels(const Shape &weights, int64_t groups, Turned turned) {
  const bool isDepthwise = groups > 1 && weights[1] == 1 && weights[0] == groups;
  return executable::layoutNamed(isDepthwise ? nameOf(panelWidth(), Turned::kNo, 1)
                                             : nameOf(panelWidth(), turned, groups));
}

const ConvPanels *asConvPanels(const executable::Layout *layout) { return dynamic_cast<const ConvPanels *>(layout); }

}  // namespace popart::cpu
