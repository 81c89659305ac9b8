// How the CPU backend stores weights: matrices [rows, columns] as panels [ceil(columns / panel)][rows][panel], the last
// one padded with zeros. A panel is as wide as the register tile that products compute, so that a kernel reads its
// right operand front to back.
//
//   "packed16", "packed_t16"              panels.cpp: a matrix, or its transpose
//   "packed_conv16g1", "packed_conv_t…"   conv_panels.cpp: weights of a convolution, per group
#pragma once
#include <optional>
#include <string_view>

#include "executable/permuted_layout.hpp"

namespace popart::cpu {

// Whether matrices are stored transposed. Convolution weights (for the data gradient): channels swapped, taps reversed.
enum class Transposed : bool { kNo, kYes };

// The stored matrices, in order.
struct PanelShape {
  int64_t matrices = 1, rows = 0, columns = 0;
};

// Moves the elements of one panel; `from(row)` and `to(row)` are the offsets of a row's first element. Rows move in
// blocks of one cache line of floats, so that lines on both sides are used completely even if neighbouring columns are
// far apart.
template <class Move, class From, class To>
void forEachInPanel(int64_t rows, int64_t width, int64_t columnStep, Move &&move, From &&from, To &&to) {
  constexpr int64_t kBlock = 16;
  int64_t logical[kBlock], stored[kBlock];
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min(kBlock, rows - first);
    for (int64_t i = 0; i < count; ++i) logical[i] = from(first + i), stored[i] = to(first + i);
    if (columnStep == 1) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < width; ++c) move(logical[i] + c, stored[i] + c);
    } else {
      for (int64_t c = 0; c < width; ++c)
        for (int64_t i = 0; i < count; ++i) move(logical[i] + c * columnStep, stored[i] + c);
    }
  }
}

// The fields of a packing's name.
struct PanelName {
  int32_t panel = 0;  // columns per panel, above 0
  Transposed transposed = Transposed::kNo;
  int64_t groups = 0;  // of a convolution; 0: matrices

  std::string text() const;
  // nullopt if the text has another form.
  static std::optional<PanelName> parse(std::string_view text);
};

class PanelLayout : public executable::Layout {
 public:
  explicit PanelLayout(const PanelName &name) : Layout(name.text()), panel_(name.panel), transposed_(name.transposed) {}
  int32_t panel() const { return panel_; }  // columns per panel
  Transposed transposed() const { return transposed_; }
  virtual PanelShape shapeOf(const TensorInfo &info) const = 0;

  int64_t places(const TensorInfo &info) const {
    const PanelShape s = shapeOf(info);
    return s.matrices * panels(s) * s.rows * panel_;
  }

 protected:
  int64_t panels(const PanelShape &s) const { return (s.columns + panel_ - 1) / panel_; }

 private:
  int32_t panel_;
  Transposed transposed_;
};

// The last two dimensions are the matrix, the others the batch.
class MatrixPanels final : public executable::PermutedLayout<MatrixPanels, PanelLayout> {
 public:
  explicit MatrixPanels(const PanelName &name) : PermutedLayout(name) {}
  bool describes(const TensorInfo &info) const { return info.rank() >= 2; }
  PanelShape shapeOf(const TensorInfo &info) const override;

  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    const PanelShape s = shapeOf(info);
    const bool isTransposed = transposed() == Transposed::kYes;
    const int64_t rowStep = isTransposed ? 1 : s.columns, columnStep = isTransposed ? s.rows : 1;
    for (int64_t b = 0; b < s.matrices; ++b)
      for (int64_t first = 0; first < s.columns; first += panel()) {
        const int64_t width = std::min<int64_t>(panel(), s.columns - first);
        const int64_t logical = b * s.rows * s.columns + first * columnStep;
        const int64_t stored = (b * panels(s) + first / panel()) * s.rows * panel();
        forEachInPanel(
            s.rows, width, columnStep, move, [&](int64_t r) { return logical + r * rowStep; },
            [&](int64_t r) { return stored + r * panel(); });
      }
  }
};

// Weights (Cout, Cin / groups, k…) as [group][Cout / groups panel][k… x Cin / groups][panel]; transposed:
// [group][Cin / groups panel][k… reversed x Cout / groups][panel].
class ConvPanels final : public executable::PermutedLayout<ConvPanels, PanelLayout> {
 public:
  explicit ConvPanels(const PanelName &name) : PermutedLayout(name), groups_(name.groups) {}
  int64_t groups() const { return groups_; }
  bool describes(const TensorInfo &info) const;
  PanelShape shapeOf(const TensorInfo &info) const override;

  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    const Shape &s = info.shape();
    const int64_t out = s[0] / groups_, in = s[1];
    int64_t taps = 1;
    for (size_t i = 2; i < s.size(); ++i) taps *= s[i];
    const bool isTransposed = transposed() == Transposed::kYes;
    const int64_t columns = isTransposed ? in : out, channels = isTransposed ? out : in;
    const int64_t columnStep = isTransposed ? taps : in * taps, channelStep = isTransposed ? in * taps : taps;
    const int64_t count = (columns + panel() - 1) / panel();
    for (int64_t g = 0; g < groups_; ++g)
      for (int64_t first = 0; first < columns; first += panel()) {
        const int64_t width = std::min<int64_t>(panel(), columns - first), at = g * count + first / panel();
        const int64_t logical = g * out * in * taps + first * columnStep;
        forEachInPanel(
            channels * taps, width, columnStep, move,
            [&](int64_t row) { return logical + row / taps * channelStep + row % taps; },
            [&](int64_t row) {
              const int64_t t = isTransposed ? taps - 1 - row % taps : row % taps;
              return ((at * taps + t) * channels + row / taps) * panel();
            });
      }
  }

 private:
  int64_t groups_;
};

// The layouts that this machine's kernels read.
const executable::Layout *matrixPanels(Transposed transposed);
// For weights of this shape. Weights of groups with few channels (ConvShape::joinsGroups()) are one matrix (taps *
// Cin/g) x Cout, the same for all passes.
const executable::Layout *convPanels(const Shape &weights, int64_t groups, Transposed transposed);

// The layout as this class, or null if it has another class. For createKernel(), not for run().
const PanelLayout *asPanels(const executable::Layout *layout);
const MatrixPanels *asMatrixPanels(const executable::Layout *layout);
const ConvPanels *asConvPanels(const executable::Layout *layout);

}  // namespace popart::cpu
