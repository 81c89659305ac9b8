// Operators along an axis of float32 tensors: softmax, log softmax, layer normalisation (last axes), and their
// gradients.
#include <algorithm>
#include <optional>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/rows.hpp"
#include "backends/cpu/kernels/transpose.hpp"
#include "backends/cpu/layer_norm.hpp"
#include "backends/cpu/parted_kernel.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// Rows of one task, so that a task reads about 8 Ki elements.
int64_t rowsPerTask(int64_t cols) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, cols)); }

struct Matrix {
  int64_t rows = 0, cols = 0;
};
// x with the dimensions from `axis` on as columns.
Matrix matrixOf(const Shape &shape, int64_t axis) {
  Matrix m{1, 1};
  for (size_t d = 0; d < shape.size(); ++d) (static_cast<int64_t>(d) < axis ? m.rows : m.cols) *= shape[d];
  return m;
}

bool takes(const KernelRequest &request, std::string &reason) {
  return allPlain(request, reason) && allOfType(request, DataType::FLOAT, reason);
}
const float *input(const KernelArgs &args, size_t i) { return static_cast<const float *>(args.in[i]); }
float *output(const KernelArgs &args, size_t i) { return static_cast<float *>(args.out[i]); }

class SoftmaxKernel final : public PartedKernel {
 public:
  enum class Pass : uint8_t { kForward, kGradient };
  SoftmaxKernel(SoftmaxForm form, Pass pass, Matrix m) : SoftmaxKernel(form, pass, m, rowsPerTask(m.cols)) {}
  SoftmaxKernel(SoftmaxForm form, Pass pass, Matrix m, int64_t rows) : form_(form), pass_(pass), m_(m), rows_(rows) {}
  std::string name() const override { return pass_ == Pass::kForward ? "softmax" : "softmax gradient"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, ceilDiv(m_.rows, rows_))); }
  bool canOverwrite(int input, int) const override { return input == 0; }
  std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const override {
    if (m_.rows == 0 || m_.rows % count != 0) return nullptr;
    cut = {pass_ == Pass::kForward ? 0b1u : 0b11u, 0b1};
    return std::make_shared<SoftmaxKernel>(form_, pass_, m_, m_.rows / count);
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * rows_, rows = std::min(rows_, m_.rows - begin), at = begin * m_.cols;
    if (rows <= 0 || m_.cols == 0) return;
    if (pass_ == Pass::kForward) return softmaxRows(form_, input(args, 0) + at, output(args, 0) + at, rows, m_.cols);
    softmaxGradientRows(form_, input(args, 1) + at, input(args, 0) + at, output(args, 0) + at, rows, m_.cols);
  }

 private:
  SoftmaxForm form_;
  Pass pass_;
  Matrix m_;
  int64_t rows_;  // of a task
};

// Softmax along an axis that is not the last: blocks of columns are transposed to rows, computed, and transposed back.
class ColumnSoftmaxKernel final : public executable::HostKernel {
 public:
  ColumnSoftmaxKernel(SoftmaxForm form, SoftmaxKernel::Pass pass, const AxisSizes &sizes)
      : form_(form), pass_(pass), sizes_(sizes) {
    columns_ = std::min<int64_t>(64, sizes.inner);
    columnTasks_ = ceilDiv(sizes.inner, columns_);
  }
  std::string name() const override {
    return pass_ == SoftmaxKernel::Pass::kForward ? "softmax of columns" : "softmax gradient of columns";
  }
  int tasks() const override { return static_cast<int>(sizes_.outer * columnTasks_); }
  int64_t scratchBytes() const override { return 2 * columns_ * sizes_.length * static_cast<int64_t>(sizeof(float)); }
  bool canOverwrite(int input, int) const override { return input == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t length = sizes_.length, inner = sizes_.inner, column = task % columnTasks_ * columns_,
                  count = std::min(columns_, inner - column);
    const int64_t at = task / columnTasks_ * length * inner + column;
    auto *first = static_cast<float *>(args.scratch), *second = first + columns_ * length;
    transpose(input(args, 0) + at, inner, first, length, length, count);
    if (pass_ == SoftmaxKernel::Pass::kForward) {
      softmaxRows(form_, first, first, count, length);
    } else {
      transpose(input(args, 1) + at, inner, second, length, length, count);
      softmaxGradientRows(form_, second, first, first, count, length);
    }
    transpose(first, length, output(args, 0) + at, inner, count, length);
  }

 private:
  SoftmaxForm form_;
  SoftmaxKernel::Pass pass_;
  AxisSizes sizes_;
  int64_t columns_, columnTasks_;
};

std::unique_ptr<executable::Kernel> createSoftmax(const KernelRequest &request, std::string &reason) {
  if (!takes(request, reason)) return nullptr;
  const Shape &shape = request.inputs[0].info.shape();
  const int64_t rank = static_cast<int64_t>(shape.size()),
                axis = normalizeAxis(request.op->attrInt("axis"), rank, "axis");
  const Matrix m = matrixOf(shape, axis);
  const std::string &type = request.op->def().base().type();
  const SoftmaxForm form = type.rfind("Log", 0) == 0 ? SoftmaxForm::kLogarithm : SoftmaxForm::kProbability;
  const auto pass = type.ends_with("Grad") ? SoftmaxKernel::Pass::kGradient : SoftmaxKernel::Pass::kForward;
  if (m.cols != shape[axis] && elementCount(shape) > 0 && !request.op->hasAttr("flatten"))
    return std::make_unique<ColumnSoftmaxKernel>(form, pass, aroundAxis(shape, axis));
  return std::make_unique<SoftmaxKernel>(form, pass, m);
}

class LayerNormKernel final : public executable::HostKernel {
 public:
  LayerNormKernel(Matrix m, float epsilon, bool hasBias, bool hasStatistics)
      : m_(m), epsilon_(epsilon), hasBias_(hasBias), hasStatistics_(hasStatistics) {}
  std::string name() const override { return "layer norm"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, ceilDiv(m_.rows, rowsPerTask(m_.cols)))); }
  int64_t scratchBytes() const override { return 2 * rowsPerTask(m_.cols) * static_cast<int64_t>(sizeof(float)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * rowsPerTask(m_.cols), rows = std::min(rowsPerTask(m_.cols), m_.rows - begin),
                  at = begin * m_.cols;
    if (rows <= 0) return;
    auto *spare = static_cast<float *>(args.scratch);
    float *mean = hasStatistics_ ? output(args, 1) + begin : spare,
          *deviation = hasStatistics_ ? output(args, 2) + begin : spare + rowsPerTask(m_.cols);
    layerNormRows({input(args, 1), hasBias_ ? input(args, 2) : nullptr, epsilon_}, input(args, 0) + at,
                  output(args, 0) + at, mean, deviation, rows, m_.cols);
  }

 private:
  Matrix m_;
  float epsilon_;
  bool hasBias_, hasStatistics_;
};

// A round of rows (statistics where none are given, dx), then one of columns (dscale, dbias).
class LayerNormGradKernel final : public executable::HostKernel {
 public:
  LayerNormGradKernel(Matrix m, float epsilon, bool hasStatistics, bool hasParameters, int threads)
      : m_(m), epsilon_(epsilon), hasStatistics_(hasStatistics), columns_(ceilDiv(m.cols, 64) < threads ? 16 : 64) {
    rounds_.add(std::max<int64_t>(1, ceilDiv(m.rows, rowsPerTask(m.cols))), 3);  // passes over memory
    if (hasParameters && m.cols > 0) rounds_.add(ceilDiv(m.cols, columns_), 2);
  }
  std::string name() const override { return "layer norm gradient"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  double bytes() const override {  // the round of columns reads dy and x again
    const double again = rounds_.ends().empty() ? 0 : 2;
    return Kernel::bytes() + again * sizeof(float) * static_cast<double>(m_.rows * m_.cols);
  }
  int64_t scratchBytes() const override { return hasStatistics_ ? 0 : m_.cols * static_cast<int64_t>(sizeof(float)); }
  int64_t sharedBytes() const override {
    return hasStatistics_ ? 0 : 2 * m_.rows * static_cast<int64_t>(sizeof(float));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    const float *dy = input(args, 0), *x = input(args, 1), *scale = input(args, 2);
    auto *shared = static_cast<float *>(args.shared);
    const float *mean = hasStatistics_ ? input(args, 3) : shared,
                *deviation = hasStatistics_ ? input(args, 4) : shared + m_.rows;
    if (place.round == 1) {
      const int64_t column = place.task * columns_, end = std::min(column + columns_, m_.cols);
      return layerNormParameterGradient(x, dy, mean, deviation, output(args, 1), output(args, 2), m_.rows, m_.cols,
                                        column, end);
    }
    const int64_t begin = place.task * rowsPerTask(m_.cols), rows = std::min(rowsPerTask(m_.cols), m_.rows - begin),
                  at = begin * m_.cols;
    for (int64_t r = begin; !hasStatistics_ && r < begin + rows; ++r)
      layerNormRows({nullptr, nullptr, epsilon_}, x + r * m_.cols, static_cast<float *>(args.scratch), shared + r,
                    shared + m_.rows + r, 1, m_.cols);
    if (rows <= 0) return;
    layerNormGradientRows({scale, nullptr, epsilon_}, x + at, dy + at, mean + begin, deviation + begin,
                          output(args, 0) + at, rows, m_.cols);
  }

 private:
  Matrix m_;
  float epsilon_;
  bool hasStatistics_;
  int64_t columns_;  // of a task
  Rounds rounds_;
};

bool has(const std::vector<executable::OperandDesc> &list, size_t i) { return i < list.size() && list[i].connected; }

std::unique_ptr<executable::Kernel> createLayerNorm(const KernelRequest &request, std::string &reason) {
  if (!takes(request, reason)) return nullptr;
  return layerNormOver(request, request.op->attrInt("axis"), reason);
}

std::unique_ptr<executable::Kernel> createLayerNormGradient(const KernelRequest &request, std::string &reason) {
  if (!takes(request, reason)) return nullptr;
  return layerNormGradientOver(request, request.op->attrInt("axis"), reason);
}

// Rows and columns of `x`; nothing when a parameter is broadcast over the columns.
std::optional<Matrix> normalised(const KernelRequest &request, const Shape &x, int64_t axis, size_t parameters,
                                 size_t firstParameter, std::string &reason) {
  axis = normalizeAxis(axis, static_cast<int64_t>(x.size()), "axis");
  const Shape columns(x.begin() + axis, x.end());
  for (size_t i = firstParameter; i < firstParameter + parameters; ++i)
    if (has(request.inputs, i) && request.inputs[i].info.shape() != columns)
      return reason = "scale or bias is broadcast over the normalised dimensions", std::nullopt;
  return matrixOf(x, axis);
}

constexpr Entry kEntries[] = {{"Softmax", createSoftmax},
                              {"LogSoftmax", createSoftmax},
                              {"SoftmaxGrad", createSoftmax},
                              {"LogSoftmaxGrad", createSoftmax},
                              {"LayerNormalization", createLayerNorm},
                              {"LayerNormalizationGrad", createLayerNormGradient}};

}  // namespace

std::unique_ptr<executable::Kernel> layerNormOver(const KernelRequest &request, int64_t axis, std::string &reason) {
  const auto m = normalised(request, request.inputs[0].info.shape(), axis, 2, 1, reason);
  if (!m) return nullptr;
  if (has(request.outputs, 1) != has(request.outputs, 2))
    return reason = "it has one of its two statistics only", nullptr;
  return std::make_unique<LayerNormKernel>(*m, request.op->attrFloat("epsilon"), has(request.inputs, 2),
                                           has(request.outputs, 1));
}

std::unique_ptr<executable::Kernel> layerNormGradientOver(const KernelRequest &request, int64_t axis,
                                                          std::string &reason) {
  const auto m = normalised(request, request.inputs[1].info.shape(), axis, 1, 2, reason);
  if (!m) return nullptr;
  if (has(request.outputs, 1) != has(request.outputs, 2))
    return reason = "one of its parameter gradients is not wanted", nullptr;
  return std::make_unique<LayerNormGradKernel>(*m, request.op->attrFloat("epsilon"),
                                               has(request.inputs, 3) && has(request.inputs, 4),
                                               has(request.outputs, 1), request.threads);
}

std::span<const Entry> rowwiseKernels() { return kEntries; }

}  // namespace popart::cpu
