// Channels last: (N, spatial…, C) for a tensor (N, C, spatial…).
#include "executable/permuted_layout.hpp"

namespace popart::executable {
namespace {

class ChannelsLast final : public PermutedLayout<ChannelsLast> {
 public:
  ChannelsLast() : PermutedLayout("channels_last") {}

  bool describes(const TensorInfo &info) const { return info.rank() >= 2; }
  int64_t places(const TensorInfo &info) const { return info.nelms(); }
  // One channel, or one place.
  bool isPlain(const TensorInfo &info) const override {
    const Shape &s = info.shape();
    if (s.size() < 3 || info.nelms() == 0) return true;
    return s[1] == 1 || info.nelms() == s[0] * s[1];
  }
  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    const int64_t n = info.shape()[0], c = info.shape()[1], spatial = n * c == 0 ? 0 : info.nelms() / (n * c);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < c; ++k)
        for (int64_t p = 0; p < spatial; ++p) move((i * c + k) * spatial + p, (i * spatial + p) * c + k);
  }
};

const LayoutFamily kFamily("channels_last", [](std::string_view name) -> std::unique_ptr<const Layout> {
  if (name != "channels_last") return nullptr;
  return std::make_unique<ChannelsLast>();
});

}  // namespace

const Layout *channelsLast() {
  static const Layout *const layout = layoutNamed("channels_last");
  return layout;
}

}  // namespace popart::executable
