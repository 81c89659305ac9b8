// Layouts: sizes, text, conversion between plain and stored form.
#include "executable/layout.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include <popart/error.hpp>

namespace popart::executable {
namespace {

// A packed matrix: leading dimensions batch, the last two are the matrix.
struct PackedShape {
  int64_t batch = 1, rows = 1, columns = 1, panels = 1, panel = 1;
};

PackedShape packedShape(const TensorInfo &info, const Layout &layout) {
  PackedShape p;
  const Shape &s = info.shape();
  const size_t rank = s.size();
  for (size_t i = 0; i + 2 < rank; ++i) p.batch *= s[i];
  p.rows = rank >= 2 ? s[rank - 2] : 1;
  p.columns = rank >= 1 ? s[rank - 1] : 1;
  if (layout.transposed) std::swap(p.rows, p.columns);
  p.panel = layout.panel;
  p.panels = (p.columns + p.panel - 1) / p.panel;
  return p;
}

// Panel by panel, in the order of the stored form: both sides are then read and written in runs.
template <class Move>
void forEachPacked(const TensorInfo &info, const Layout &layout, Move &&move) {
  const PackedShape p = packedShape(info, layout);
  const int64_t rowStep = layout.transposed ? 1 : p.columns, columnStep = layout.transposed ? p.rows : 1;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t first = 0; first < p.columns; first += p.panel) {
      const int64_t width = std::min(p.panel, p.columns - first);
      for (int64_t r = 0; r < p.rows; ++r) {
        const int64_t logical = b * p.rows * p.columns + r * rowStep + first * columnStep;
        const int64_t stored = ((b * p.panels + first / p.panel) * p.rows + r) * p.panel;
        for (int64_t c = 0; c < width; ++c) move(logical + c * columnStep, stored + c);
      }
    }
}

template <class Move>
void forEachChannelsLast(const TensorInfo &info, Move &&move) {
  const Shape &s = info.shape();
  const int64_t n = s.empty() ? 1 : s[0], c = s.size() > 1 ? s[1] : 1,
                spatial = n * c == 0 ? 0 : info.nelms() / (n * c);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < c; ++k)
      for (int64_t p = 0; p < spatial; ++p) move((i * c + k) * spatial + p, (i * spatial + p) * c + k);
}

// Weights (Cout, Cin/g, k…) as [group][Cout/g panel][k… x Cin/g][panel]; transposed: [group][Cin/g panel][k… reversed x
// Cout/g][panel].
template <class Move>
void forEachPackedConv(const TensorInfo &info, const Layout &layout, Move &&move) {
  const Shape &s = info.shape();
  const int64_t groups = layout.groups, out = s[0] / groups, in = s[1];
  int64_t taps = 1;
  for (size_t i = 2; i < s.size(); ++i) taps *= s[i];
  const bool turned = layout.transposed;
  const int64_t columns = turned ? in : out, channels = turned ? out : in;
  const int64_t columnStep = turned ? taps : in * taps, channelStep = turned ? in * taps : taps;
  const int64_t panels = (columns + layout.panel - 1) / layout.panel;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t first = 0; first < columns; first += layout.panel) {
      const int64_t width = std::min<int64_t>(layout.panel, columns - first), panel = g * panels + first / layout.panel;
      for (int64_t i = 0; i < channels; ++i)
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t logical = g * out * in * taps + first * columnStep + i * channelStep + t,
                        stored = ((panel * taps + (turned ? taps - 1 - t : t)) * channels + i) * layout.panel;
          for (int64_t c = 0; c < width; ++c) move(logical + c * columnStep, stored + c);
        }
    }
}

template <class Move>
void forEach(const TensorInfo &info, const Layout &layout, Move &&move) {
  switch (layout.kind) {
    case Layout::Kind::Packed:
      return forEachPacked(info, layout, move);
    case Layout::Kind::PackedConv:
      return forEachPackedConv(info, layout, move);
    case Layout::Kind::ChannelsLast:
      return forEachChannelsLast(info, move);
    case Layout::Kind::Plain:
      return;
  }
}

template <class T>
void packAs(const TensorInfo &info, const Layout &layout, const void *plain, void *stored) {
  std::memset(stored, 0, static_cast<size_t>(storageBytes(info, layout)));
  const T *from = static_cast<const T *>(plain);
  T *to = static_cast<T *>(stored);
  forEach(info, layout, [&](int64_t logical, int64_t place) { to[place] = from[logical]; });
}
template <class T>
void unpackAs(const TensorInfo &info, const Layout &layout, const void *stored, void *plain) {
  const T *from = static_cast<const T *>(stored);
  T *to = static_cast<T *>(plain);
  forEach(info, layout, [&](int64_t logical, int64_t place) { to[logical] = from[place]; });
}

// A packed layout describes matrices, the others tensors with channels.
void requireDescribed(const TensorInfo &info, const Layout &layout) {
  const Shape &s = info.shape();
  bool good = true;
  if (layout.kind == Layout::Kind::Packed) good = s.size() >= 2;
  if (layout.kind == Layout::Kind::ChannelsLast) good = s.size() >= 2;
  if (layout.kind == Layout::Kind::PackedConv)
    good = s.size() >= 2 && s[0] % layout.groups == 0 && (info.nelms() == 0 || (s[0] > 0 && s[1] > 0));
  check(good, "layout {} does not describe a tensor of shape {}", layout.str(), s);
}

}  // namespace

Layout Layout::parse(std::string_view name) {
  if (name.empty() || name == "plain") return {};
  if (name == "channels_last") return {Kind::ChannelsLast};
  const std::string_view whole = name;
  auto take = [&name](std::string_view word) {
    if (!name.starts_with(word)) return false;
    name.remove_prefix(word.size());
    return true;
  };
  auto number = [&name](int32_t &value) {
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), value);
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    return failure == std::errc() && value > 0;
  };
  Layout layout;
  bool good = take("packed");
  layout.kind = take("_conv") ? Kind::PackedConv : Kind::Packed;
  layout.transposed = take("_t");
  good = good && number(layout.panel);
  if (layout.kind == Kind::PackedConv) good = good && take("g") && number(layout.groups);
  if (!good || !name.empty())
    throw error(
        "layout: unknown name: got '{}', expected plain, channels_last, packed<columns> or "
        "packed_conv<columns>g<groups>, with _t for the transposed forms",
        whole);
  return layout;
}

std::string Layout::str() const {
  switch (kind) {
    case Kind::Plain:
      return "plain";
    case Kind::ChannelsLast:
      return "channels_last";
    case Kind::Packed:
      return (transposed ? "packed_t" : "packed") + std::to_string(panel);
    case Kind::PackedConv:
      return (transposed ? "packed_conv_t" : "packed_conv") + std::to_string(panel) + "g" + std::to_string(groups);
  }
  return "?";
}

int64_t storageBytes(const TensorInfo &info, const Layout &layout) {
  requireDescribed(info, layout);
  const int64_t element = popart::getDataTypeInfo(info.dataType()).nbytes;
  switch (layout.kind) {
    case Layout::Kind::Packed: {
      const PackedShape p = packedShape(info, layout);
      return p.batch * p.panels * p.rows * p.panel * element;
    }
    case Layout::Kind::PackedConv: {
      const Shape &s = info.shape();
      if (info.nelms() == 0) return 0;
      const int64_t columns = layout.transposed ? s[1] : s[0] / layout.groups;
      const int64_t panels = (columns + layout.panel - 1) / layout.panel;
      return layout.groups * panels * layout.panel * (info.nelms() / layout.groups / columns) * element;
    }
    default:
      return info.nbytes();
  }
}

void pack(const TensorInfo &info, const Layout &layout, const void *plain, void *stored) {
  if (layout.kind == Layout::Kind::Plain) {
    if (info.nbytes() > 0) std::memcpy(stored, plain, static_cast<size_t>(info.nbytes()));
    return;
  }
  switch (popart::getDataTypeInfo(info.dataType()).nbytes) {
    case 1:
      return packAs<uint8_t>(info, layout, plain, stored);
    case 2:
      return packAs<uint16_t>(info, layout, plain, stored);
    case 4:
      return packAs<uint32_t>(info, layout, plain, stored);
    case 8:
      return packAs<uint64_t>(info, layout, plain, stored);
    default:
      throw internal_error("pack: element type {} has no packed layout", info.dataType());
  }
}

void unpack(const TensorInfo &info, const Layout &layout, const void *stored, void *plain) {
  if (layout.kind == Layout::Kind::Plain) {
    if (info.nbytes() > 0) std::memcpy(plain, stored, static_cast<size_t>(info.nbytes()));
    return;
  }
  switch (popart::getDataTypeInfo(info.dataType()).nbytes) {
    case 1:
      return unpackAs<uint8_t>(info, layout, stored, plain);
    case 2:
      return unpackAs<uint16_t>(info, layout, stored, plain);
    case 4:
      return unpackAs<uint32_t>(info, layout, stored, plain);
    case 8:
      return unpackAs<uint64_t>(info, layout, stored, plain);
    default:
      throw internal_error("unpack: element type {} has no packed layout", info.dataType());
  }
}

}  // namespace popart::executable
