// Panels of convolution weights: "packed_conv16g1", "packed_conv_t16g1".
#include "backends/cpu/kernels/conv_shape.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/layouts/panels.hpp"

namespace popart::cpu {
namespace {

const executable::LayoutFamily kConvPanelFamily("packed_conv<columns>g<groups>, packed_conv_t<columns>g<groups>",
                                                [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                                  const auto name = PanelName::parse(text);
                                                  if (!name || name->groups == 0) return nullptr;
                                                  return std::make_unique<ConvPanels>(*name);
                                                });

}  // namespace

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
  ConvShape shape;
  shape.cin = groups * weights[1], shape.cout = weights[0], shape.groups = groups;
  const PanelName name =
      shape.joinsGroups() ? PanelName{panelWidth(), Transposed::kNo, 1} : PanelName{panelWidth(), transposed, groups};
  return executable::layoutNamed(name.text());
}

const ConvPanels *asConvPanels(const executable::Layout *layout) { return dynamic_cast<const ConvPanels *>(layout); }

}  // namespace popart::cpu
