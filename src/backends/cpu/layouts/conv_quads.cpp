#include "backends/cpu/layouts/conv_quads.hpp"

#include <charconv>
#include <cstring>

#include <popart/error.hpp>

#include "backends/cpu/kernels/quad_product.hpp"

namespace popart::cpu {
namespace {

// Removes `word` and the number after it from the front of `text` and returns the number; 0 if they are missing.
int64_t takeNumberAfter(std::string_view word, std::string_view &text) {
  if (!text.starts_with(word)) return 0;
  text.remove_prefix(word.size());
  int64_t number = 0;
  const auto [last, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || number < 0) return 0;
  text.remove_prefix(static_cast<size_t>(last - text.data()));
  return number;
}

const executable::LayoutFamily kConvQuadFamily("quads_conv<columns>g<groups>j<groups of a matrix>",
                                               [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                                 const int64_t panel = takeNumberAfter("quads_conv", text),
                                                               groups = takeNumberAfter("g", text),
                                                               joined = takeNumberAfter("j", text);
                                                 if (panel == 0 || panel > kMostQuadColumns || groups == 0 ||
                                                     joined == 0 || groups % joined != 0 || !text.empty())
                                                   return nullptr;
                                                 return std::make_unique<ConvQuads>(static_cast<int32_t>(panel), groups,
                                                                                    joined);
                                               });

// Calls f(position in C order, byte in memory, index of the sum of its column) for all weights.
template <class F>
void forWeights(const ConvQuads &layout, const QuadFilters &f, F &&visit) {
  const int64_t panel = layout.panel(), panelBytes = layout.panelBytes(f.rows()), matrixBytes = layout.matrixBytes(f);
  const int64_t sumBytes = panel * int64_t{sizeof(int32_t)};
  int64_t plain = 0;
  for (int64_t group = 0; group < f.groups; ++group)
    for (int64_t out = 0; out < f.outChannels; ++out) {
      const int64_t inMatrix = group % f.joined, column = inMatrix * f.outChannels + out;
      const int64_t start = group / f.joined * matrixBytes + column / panel * panelBytes;
      for (int64_t c = 0; c < f.channels; ++c)
        for (int64_t t = 0; t < f.taps; ++t) {
          const int64_t row = f.isDepthwise() ? t : t * f.inChannels() + inMatrix * f.channels + c;
          visit(plain++, start + sumBytes + (row / 4 * panel + column % panel) * 4 + row % 4,
                start / int64_t{sizeof(int32_t)} + column % panel);
        }
    }
}

uint8_t flipOfWeights(const TensorInfo &info) { return info.dataType() == DataType::UINT8 ? kFlip : uint8_t{0}; }

}  // namespace

ConvQuads::ConvQuads(int32_t panel, int64_t groups, int64_t joined)
    : Layout("quads_conv" + std::to_string(panel) + "g" + std::to_string(groups) + "j" + std::to_string(joined)),
      panel_(panel),
      groups_(groups),
      joined_(joined) {}

QuadFilters ConvQuads::filtersOf(const TensorInfo &info) const {
  const Shape &s = info.shape();
  const bool isByte = info.dataType() == DataType::INT8 || info.dataType() == DataType::UINT8;
  check(isByte && s.size() >= 2 && s[0] % groups_ == 0, "layout {} does not describe a tensor of type {} and shape {}",
        name(), info.dataType(), s);
  return {groups_, s[1], s[0] / groups_, elementCount(Shape(s.begin() + 2, s.end())), joined_};
}

int64_t ConvQuads::bytes(const TensorInfo &info) const {
  const QuadFilters f = filtersOf(info);
  return f.matrices() * matrixBytes(f);
}

void ConvQuads::pack(const TensorInfo &info, const void *plain, void *stored) const {
  const QuadFilters f = filtersOf(info);
  const uint8_t flip = flipOfWeights(info);
  if (const int64_t size = bytes(info); size > 0) std::memset(stored, 0, static_cast<size_t>(size));
  const auto *from = static_cast<const uint8_t *>(plain);
  auto *to = static_cast<uint8_t *>(stored);
  auto *sums = static_cast<uint32_t *>(stored);
  forWeights(*this, f, [&](int64_t i, int64_t place, int64_t sum) {
    to[place] = from[i] ^ flip;
    sums[sum] += static_cast<uint32_t>(static_cast<int8_t>(to[place]));
  });
}

void ConvQuads::unpack(const TensorInfo &info, const void *stored, void *plain) const {
  const uint8_t flip = flipOfWeights(info);
  const auto *from = static_cast<const uint8_t *>(stored);
  auto *to = static_cast<uint8_t *>(plain);
  forWeights(*this, filtersOf(info), [&](int64_t i, int64_t place, int64_t) { to[i] = from[place] ^ flip; });
}

const executable::Layout *convQuads(const Shape &weights, int64_t groups, JoinGroups mayJoin) {
  const int64_t panel = quadKernels().panelColumns, outChannels = groups == 0 ? 0 : weights[0] / groups;
  int64_t joined = 1;
  if (groups > 1 && weights[1] == 1 && outChannels == 1)
    joined = groups;
  else if (mayJoin == JoinGroups::kYes)
    for (int64_t j = 2; j <= groups && j * outChannels <= panel; ++j)
      if (groups % j == 0) joined = j;
  return executable::layoutNamed("quads_conv" + std::to_string(panel) + "g" + std::to_string(groups) + "j" +
                                 std::to_string(joined));
}

const ConvQuads *asConvQuads(const executable::Layout *layout) { return dynamic_cast<const ConvQuads *>(layout); }

}  // namespace popart::cpu
