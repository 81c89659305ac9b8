#include "backends/cpu/layouts/quad_panels.hpp"

#include <algorithm>
#include <cstring>

#include <popart/error.hpp>

#include "backends/cpu/kernels/quad_product.hpp"
#include "backends/cpu/layouts/panel_names.hpp"

namespace popart::cpu {
namespace {

const executable::LayoutFamily kQuadFamily("quads<columns>", [](std::string_view name) {
  return panelsNamed<QuadPanels>(name, "quads");
});

struct Matrices {
  int64_t count, rows, columns;
};

Matrices matricesOf(const QuadPanels &layout, const TensorInfo &info) {
  const Shape &s = info.shape();
  const bool isByte = info.dataType() == DataType::INT8 || info.dataType() == DataType::UINT8;
  check(isByte && s.size() >= 2, "layout {} does not describe a tensor of type {} and shape {}", layout.name(),
        info.dataType(), s);
  return {elementCount(Shape(s.begin(), s.end() - 2)), s[s.size() - 2], s.back()};
}

uint8_t flipOf(const TensorInfo &info) { return info.dataType() == DataType::UINT8 ? kFlip : uint8_t{0}; }

// Calls f(address of a panel's first number in `plain`, address of the panel in `stored`, number of columns) for all
// panels of all matrices.
template <class Byte, class Plain, class F>
void forPanels(const QuadPanels &layout, const Matrices &m, Plain *plain, Byte *stored, F &&f) {
  for (int64_t i = 0; i < m.count; ++i)
    for (int64_t first = 0; first < m.columns; first += layout.panel(), stored += layout.panelBytes(m.rows))
      f(plain + i * m.rows * m.columns + first, stored, std::min<int64_t>(layout.panel(), m.columns - first));
}

}  // namespace

int64_t QuadPanels::bytes(const TensorInfo &info) const {
  const Matrices m = matricesOf(*this, info);
  return m.count * matrixBytes(m.rows, m.columns);
}

void QuadPanels::pack(const TensorInfo &info, const void *plain, void *stored) const {
  const Matrices m = matricesOf(*this, info);
  const uint8_t flip = flipOf(info);
  if (const int64_t size = bytes(info); size > 0) std::memset(stored, 0, static_cast<size_t>(size));
  forPanels(*this, m, static_cast<const uint8_t *>(plain), static_cast<uint8_t *>(stored),
            [&](const uint8_t *from, uint8_t *to, int64_t columns) {
              auto *sums = reinterpret_cast<int32_t *>(to);
              to += sumBytes();
              for (int64_t r = 0; r < m.rows; ++r)
                for (int64_t c = 0; c < columns; ++c) {
                  const auto number = static_cast<uint8_t>(from[r * m.columns + c] ^ flip);
                  to[(r / 4 * panel_ + c) * 4 + r % 4] = number;
                  sums[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) +
                                                 static_cast<uint32_t>(static_cast<int8_t>(number)));
                }
            });
}

void QuadPanels::unpack(const TensorInfo &info, const void *stored, void *plain) const {
  const Matrices m = matricesOf(*this, info);
  const uint8_t flip = flipOf(info);
  forPanels(*this, m, static_cast<uint8_t *>(plain), static_cast<const uint8_t *>(stored),
            [&](uint8_t *to, const uint8_t *from, int64_t columns) {
              from += sumBytes();
              for (int64_t r = 0; r < m.rows; ++r)
                for (int64_t c = 0; c < columns; ++c)
                  to[r * m.columns + c] = static_cast<uint8_t>(from[(r / 4 * panel_ + c) * 4 + r % 4] ^ flip);
            });
}

const executable::Layout *quadPanels() {
  return executable::layoutNamed("quads" + std::to_string(quadKernels().panelColumns));
}

const QuadPanels *asQuadPanels(const executable::Layout *layout) { return dynamic_cast<const QuadPanels *>(layout); }

}  // namespace popart::cpu
