// See channel_slice.hpp.
#include "executable/channel_slice.hpp"

#include <charconv>

#include "executable/kernel.hpp"
#include "executable/permuted_layout.hpp"

namespace popart::executable {
namespace {

constexpr std::string_view kSliceName = "channels_last_of";

class ChannelSlice final : public PermutedLayout<ChannelSlice> {
 public:
  explicit ChannelSlice(int64_t channels)
      : PermutedLayout(std::string(kSliceName) + std::to_string(channels)), channels_(channels) {}
  int64_t channels() const { return channels_; }

  bool describes(const TensorInfo &info) const { return info.rank() >= 3 && info.shape()[1] <= channels_; }
  // Number of elements from the first one to the last one.
  int64_t places(const TensorInfo &info) const {
    if (info.nelms() == 0) return 0;
    const int64_t own = info.shape()[1];
    return (info.nelms() / own - 1) * channels_ + own;
  }
  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    const int64_t n = info.shape()[0], c = info.shape()[1], spatial = n * c == 0 ? 0 : info.nelms() / (n * c);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < c; ++k)
        for (int64_t p = 0; p < spatial; ++p) move((i * c + k) * spatial + p, (i * spatial + p) * channels_ + k);
  }

 private:
  int64_t channels_;
};

const LayoutFamily kSlices("channels_last_of<channels>", [](std::string_view name) -> std::unique_ptr<const Layout> {
  if (!name.starts_with(kSliceName)) return nullptr;
  name.remove_prefix(kSliceName.size());
  int64_t channels = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), channels);
  if (failure != std::errc() || end != name.data() + name.size() || channels < 1) return nullptr;
  return std::make_unique<ChannelSlice>(channels);
});

}  // namespace

const Layout *channelSlice(int64_t channels) { return layoutNamed(std::string(kSliceName) + std::to_string(channels)); }

int64_t channelsOfWhole(const Layout *layout) {
  const auto *slice = dynamic_cast<const ChannelSlice *>(layout);
  return slice ? slice->channels() : 0;
}

bool joinsChannels(const Op &op) {
  const OpDef &row = op.def();  // its inputs are parts of its result
  if (op.isUserOp() || !row.writeBackRule() || row.inputs()[0].arity != Arity::Variadic) return false;
  const int64_t rank = op.outRank(0), axis = op.attrInt("axis");
  return rank >= 3 && (axis == 1 || axis == 1 - rank);
}

bool isSlice(const Op &join, int input) { return channelsOfWhole(layoutOf(*join.inTensor(input))) > 0; }

bool joinsSlices(const Op &op) {
  if (!joinsChannels(op)) return false;
  for (int i = 0; i < op.inputCount(); ++i)
    if (!isSlice(op, i)) return false;
  return true;
}

SliceOf wholeOf(const Tensor &slice) {
  SliceOf found{nullptr, 0};
  int joins = 0;
  for (const Use &use : slice.uses()) {
    const Op &op = slice.getGraph().op(use.op);
    if (joinsChannels(op)) found = {&op, use.input}, ++joins;
  }
  check(joins == 1, "tensor '{}' has layout {}: got {} operands of Concats along channels that are it, expected one",
        slice.id, slice.layout, joins);
  const Tensor &whole = *found.join->outTensor(0);
  const Layout *layout = layoutOf(whole);
  const int64_t expected = layout == channelsLast() ? whole.info.shape()[1] : channelsOfWhole(layout);
  check(expected == channelsOfWhole(layoutOf(slice)),
        "tensor '{}' has layout {}: expected rows {} elements apart, as those of '{}', of layout {}, which it is a "
        "part of",
        slice.id, slice.layout, expected, whole.id, layoutName(layout));
  return found;
}

int64_t sliceStart(const SliceOf &slice) {
  int64_t channels = 0;
  for (int i = 0; i < slice.input; ++i) channels += slice.join->inShape(i)[1];
  return channels * getDataTypeInfo(slice.join->outInfo(0).dataType()).nbytes;
}

}  // namespace popart::executable
