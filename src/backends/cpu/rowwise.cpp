// Operators along an axis of tensors: softmax, log softmax, layer and root mean square normalisation (last axes), and
// their gradients. Rows of 16-bit tensors are widened when they are read, and computed in float32.
#include <algorithm>
#include <optional>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/column_softmax.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/rows.hpp"
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

// Whether all operands and results are FLOAT, or all of one 16-bit type.
bool takesRowwise(const KernelRequest &request, std::string &reason) {
  const DataType type = request.inputs[0].info.dataType();
  return allPlain(request, reason) && allOfType(request, isHalf(type) ? type : DataType::FLOAT, reason);
}
// Number of rows of 16-bit numbers that become floats in scratch memory at a time.
int64_t rowsWidened(int64_t cols) { return std::max<int64_t>(1, 2048 / std::max<int64_t>(1, cols)); }

const float *input(const KernelArgs &args, size_t i) { return static_cast<const float *>(args.in[i]); }

class SoftmaxKernel final : public PartedKernel {
 public:
  enum class Pass : uint8_t { kForward, kGradient };
  SoftmaxKernel(SoftmaxForm form, Pass pass, Matrix m, DataType type)
      : SoftmaxKernel(form, pass, m, type, rowsPerTask(m.cols)) {}
  SoftmaxKernel(SoftmaxForm form, Pass pass, Matrix m, DataType type, int64_t rows)
      : form_(form), pass_(pass), m_(m), type_(type), rows_(rows) {}
  std::string name() const override { return pass_ == Pass::kForward ? "softmax" : "softmax gradient"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, ceilDiv(m_.rows, rows_))); }
  int64_t scratchBytes() const override {
    return isHalf(type_) ? 2 * rowsWidened(m_.cols) * m_.cols * static_cast<int64_t>(sizeof(float)) : 0;
  }
  bool canOverwrite(int input, int) const override { return input == 0; }
  std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const override {
    if (m_.rows == 0 || m_.rows % count != 0) return nullptr;
    cut = {pass_ == Pass::kForward ? 0b1u : 0b11u, 0b1};
    return std::make_shared<SoftmaxKernel>(form_, pass_, m_, type_, m_.rows / count);
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * rows_, end = std::min(begin + rows_, m_.rows);
    const int64_t step = isHalf(type_) ? rowsWidened(m_.cols) : rows_;
    auto *first = static_cast<float *>(args.scratch), *second = first + step * m_.cols;
    for (int64_t row = begin; row < end && m_.cols > 0; row += step) {
      const int64_t rows = std::min(step, end - row), at = row * m_.cols, count = rows * m_.cols;
      const float *x = floatsAt(args.in[0], at, count, type_, first);
      float *y = placeAt(args.out[0], at, type_, first);
      if (pass_ == Pass::kForward)
        softmaxRows(form_, x, y, rows, m_.cols);
      else
        softmaxGradientRows(form_, floatsAt(args.in[1], at, count, type_, second), x, y, rows, m_.cols);
      keepFloats(y, args.out[0], at, count, type_);
    }
  }

 private:
  SoftmaxForm form_;
  Pass pass_;
  Matrix m_;
  DataType type_;
  int64_t rows_;  // rows per task
};

std::unique_ptr<executable::Kernel> createSoftmax(const KernelRequest &request, std::string &reason) {
  if (!takesRowwise(request, reason)) return nullptr;
  const Shape &shape = request.inputs[0].info.shape();
  const int64_t rank = static_cast<int64_t>(shape.size()),
                axis = normalizeAxis(request.op->attrInt("axis"), rank, "axis");
  const Matrix m = matrixOf(shape, axis);
  const std::string &type = request.op->def().base().type();
  const SoftmaxForm form = type.rfind("Log", 0) == 0 ? SoftmaxForm::kLogarithm : SoftmaxForm::kProbability;
  const auto pass = type.ends_with("Grad") ? SoftmaxKernel::Pass::kGradient : SoftmaxKernel::Pass::kForward;
  const DataType dataType = request.inputs[0].info.dataType();
  if (m.cols == shape[axis] || elementCount(shape) == 0 || request.op->hasAttr("flatten"))
    return std::make_unique<SoftmaxKernel>(form, pass, m, dataType);
  if (dataType != DataType::FLOAT) return reason = "along columns it takes FLOAT only", nullptr;
  const AxisSizes sizes = aroundAxis(shape, axis);
  return pass == SoftmaxKernel::Pass::kGradient ? columnSoftmaxGradient(form, sizes, request.threads)
                                                : columnSoftmax(form, sizes, request.threads);
}

class LayerNormKernel final : public executable::HostKernel {
 public:
  // `parameters`: types of scale and bias; `statistics`: of mean and r if the kernel writes them. UNDEFINED: absent.
  LayerNormKernel(NormForm form, Matrix m, DataType type, float epsilon, std::pair<DataType, DataType> parameters,
                  DataType statistics)
      : form_(form),
        m_(m),
        type_(type),
        epsilon_(epsilon),
        scaleType_(parameters.first),
        biasType_(parameters.second),
        hasStatistics_(statistics != DataType::UNDEFINED),
        statistics_(statistics) {}
  std::string name() const override { return form_ == NormForm::kCentred ? "layer norm" : "root mean square norm"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, ceilDiv(m_.rows, rowsPerTask(m_.cols)))); }
  int64_t scratchBytes() const override {
    const int64_t widened = isHalf(type_) ? (rowsWidened(m_.cols) + 2) * m_.cols : 0;
    return (2 * rowsPerTask(m_.cols) + widened) * static_cast<int64_t>(sizeof(float));
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = task * rowsPerTask(m_.cols), end = std::min(begin + rowsPerTask(m_.cols), m_.rows);
    auto *means = static_cast<float *>(args.scratch), *deviations = means + rowsPerTask(m_.cols);
    float *spare = deviations + rowsPerTask(m_.cols), *scale = spare + rowsWidened(m_.cols) * m_.cols;
    const bool hasBias = biasType_ != DataType::UNDEFINED;
    const LayerNorm norm{floatsAt(args.in[1], 0, m_.cols, scaleType_, scale),
                         hasBias ? floatsAt(args.in[2], 0, m_.cols, biasType_, scale + m_.cols) : nullptr, epsilon_,
                         form_};
    const int64_t step = isHalf(type_) ? rowsWidened(m_.cols) : rowsPerTask(m_.cols);
    for (int64_t row = begin; row < end; row += step) {
      const int64_t rows = std::min(step, end - row), at = row * m_.cols, count = rows * m_.cols;
      float *mean = hasStatistics_ ? placeAt(args.out[1], row, statistics_, means) : means,
            *deviation = hasStatistics_ ? placeAt(args.out[2], row, statistics_, deviations) : deviations;
      float *y = placeAt(args.out[0], at, type_, spare);
      layerNormRows(norm, floatsAt(args.in[0], at, count, type_, spare), y, mean, deviation, rows, m_.cols);
      keepFloats(y, args.out[0], at, count, type_);
      if (!hasStatistics_) continue;
      keepFloats(mean, args.out[1], row, rows, statistics_);
      keepFloats(deviation, args.out[2], row, rows, statistics_);
    }
  }

 private:
  NormForm form_;
  Matrix m_;
  DataType type_;
  float epsilon_;
  DataType scaleType_, biasType_;
  bool hasStatistics_;
  DataType statistics_;
};

// A round of rows (dx, and statistics unless they are given as floats), then a round of columns (dscale, dbias).
class LayerNormGradKernel final : public executable::HostKernel {
 public:
  // `statistics`: type of the given statistics; UNDEFINED: none. `parameters`: number of results dscale, dbias;
  // `parameterType`: type of scale, dscale and dbias.
  LayerNormGradKernel(NormForm form, Matrix m, DataType type, float epsilon, DataType statistics, int parameters,
                      DataType parameterType, int threads)
      : form_(form),
        m_(m),
        type_(type),
        epsilon_(epsilon),
        hasStatistics_(statistics != DataType::UNDEFINED),
        statistics_(statistics),
        parameters_(parameters),
        parameterType_(parameterType),
        columns_(ceilDiv(m.cols, 64) < threads ? 16 : 64) {
    rounds_.add(std::max<int64_t>(1, ceilDiv(m.rows, rowsPerTask(m.cols))), 3);  // 3 passes over memory
    if (parameters > 0 && m.cols > 0) rounds_.add(ceilDiv(m.cols, columns_), 2);
  }
  std::string name() const override {
    return form_ == NormForm::kCentred ? "layer norm gradient" : "root mean square norm gradient";
  }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  double bytes() const override {  // the round of columns reads dy and x again
    const double again = rounds_.ends().empty() ? 0 : 2;
    return Kernel::bytes() + again * (isHalf(type_) ? 2 : 4) * static_cast<double>(m_.rows * m_.cols);
  }
  int64_t scratchBytes() const override {
    const int64_t widened = isHalf(type_) ? (2 * rowsWidened(m_.cols) + 1) * m_.cols : 0;
    return widened * static_cast<int64_t>(sizeof(float));
  }
  int64_t sharedBytes() const override {
    return readsStatistics() ? 0 : 2 * m_.rows * static_cast<int64_t>(sizeof(float));
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    auto *shared = static_cast<float *>(args.shared);
    const float *mean = readsStatistics() ? input(args, 3) : shared,
                *deviation = readsStatistics() ? input(args, 4) : shared + m_.rows;
    if (place.round == 1) {
      const int64_t column = place.task * columns_, end = std::min(column + columns_, m_.cols);
      return layerNormParameterGradient(type_, args.in[1], args.in[0], mean, deviation, parameterType_, args.out[1],
                                        parameters_ > 1 ? args.out[2] : nullptr, m_.rows, m_.cols, column, end);
    }
    const int64_t begin = place.task * rowsPerTask(m_.cols), end = std::min(begin + rowsPerTask(m_.cols), m_.rows);
    const int64_t step = isHalf(type_) ? rowsWidened(m_.cols) : rowsPerTask(m_.cols);
    auto *spareX = static_cast<float *>(args.scratch), *spareDy = spareX + rowsWidened(m_.cols) * m_.cols;
    float *spareScale = spareDy + rowsWidened(m_.cols) * m_.cols;
    const LayerNorm norm{floatsAt(args.in[2], 0, m_.cols, parameterType_, spareScale), nullptr, epsilon_, form_};
    for (int64_t row = begin; row < end; row += step) {
      const int64_t rows = std::min(step, end - row), at = row * m_.cols, count = rows * m_.cols;
      const float *x = floatsAt(args.in[1], at, count, type_, spareX),
                  *dy = floatsAt(args.in[0], at, count, type_, spareDy);
      if (!readsStatistics()) findStatistics(args, x, row, rows);
      float *dx = placeAt(args.out[0], at, type_, spareDy);
      layerNormGradientRows(norm, x, dy, mean + row, deviation + row, dx, rows, m_.cols);
      keepFloats(dx, args.out[0], at, count, type_);
    }
  }

 private:
  // Whether the given statistics are read in place.
  bool readsStatistics() const { return statistics_ == DataType::FLOAT; }
  // Computes the statistics of some rows of x in shared memory.
  void findStatistics(const KernelArgs &args, const float *x, int64_t row, int64_t rows) const noexcept {
    float *mean = static_cast<float *>(args.shared) + row, *deviation = mean + m_.rows;
    if (hasStatistics_) {
      widen(statistics_, static_cast<const uint16_t *>(args.in[3]) + row, rows, mean);
      return widen(statistics_, static_cast<const uint16_t *>(args.in[4]) + row, rows, deviation);
    }
    layerNormRows({nullptr, nullptr, epsilon_, form_}, x, nullptr, mean, deviation, rows, m_.cols);
  }

  NormForm form_;
  Matrix m_;
  DataType type_;
  float epsilon_;
  bool hasStatistics_;
  DataType statistics_;
  int parameters_;
  DataType parameterType_;
  int64_t columns_;  // columns per task
  Rounds rounds_;
};

bool has(const std::vector<executable::OperandDesc> &list, size_t i) { return i < list.size() && list[i].connected; }
DataType typeOf(const std::vector<executable::OperandDesc> &list, size_t i) {
  return has(list, i) ? list[i].info.dataType() : DataType::UNDEFINED;
}

// As takesRowwise(), but operands after the first `activations` ones, and results after the first one, may also be
// FLOAT.
bool takesNorm(KernelRequest request, size_t activations, std::string &reason) {
  if (!allPlain(request, reason)) return false;
  const auto leaveOutFloats = [](std::vector<executable::OperandDesc> &operands, size_t first) {
    for (size_t i = first; i < operands.size(); ++i)
      if (operands[i].connected && operands[i].info.dataType() == DataType::FLOAT) operands[i].connected = false;
  };
  leaveOutFloats(request.inputs, activations);
  leaveOutFloats(request.outputs, 1);
  return takesRowwise(request, reason);
}

// Rows and columns of `x`; nullopt if a parameter is broadcast over the columns.
std::optional<Matrix> normalised(const KernelRequest &request, const Shape &x, int64_t axis, size_t parameters,
                                 size_t firstParameter, std::string &reason) {
  axis = normalizeAxis(axis, static_cast<int64_t>(x.size()), "axis");
  const Shape columns(x.begin() + axis, x.end());
  for (size_t i = firstParameter; i < firstParameter + parameters; ++i)
    if (has(request.inputs, i) && request.inputs[i].info.shape() != columns)
      return reason = "scale or bias is broadcast over the normalised dimensions", std::nullopt;
  return matrixOf(x, axis);
}

// As layerNormOver() and layerNormGradientOver(); the form kRootMeanSquare has no bias and no statistics.
std::unique_ptr<executable::Kernel> normOver(NormForm form, const KernelRequest &request, int64_t axis,
                                             std::string &reason) {
  const auto m = normalised(request, request.inputs[0].info.shape(), axis, 2, 1, reason);
  if (!m) return nullptr;
  if (has(request.outputs, 1) != has(request.outputs, 2))
    return reason = "it has one of its two statistics only", nullptr;
  return std::make_unique<LayerNormKernel>(
      form, *m, request.inputs[0].info.dataType(), request.op->attrFloat("epsilon"),
      std::pair(typeOf(request.inputs, 1), typeOf(request.inputs, 2)), typeOf(request.outputs, 1));
}

std::unique_ptr<executable::Kernel> normGradientOver(NormForm form, const KernelRequest &request, int64_t axis,
                                                     std::string &reason) {
  const auto m = normalised(request, request.inputs[1].info.shape(), axis, 1, 2, reason);
  if (!m) return nullptr;
  const bool hasScale = has(request.outputs, 1), hasBias = has(request.outputs, 2);
  if (hasBias && !hasScale) return reason = "only the gradient of the bias is requested", nullptr;
  return std::make_unique<LayerNormGradKernel>(
      form, *m, request.inputs[1].info.dataType(), request.op->attrFloat("epsilon"),
      has(request.inputs, 4) ? typeOf(request.inputs, 3) : DataType::UNDEFINED, int{hasScale} + int{hasBias},
      typeOf(request.inputs, 2), request.threads);
}

template <NormForm kForm>
std::unique_ptr<executable::Kernel> createRowNorm(const KernelRequest &request, std::string &reason) {
  if (!takesNorm(request, 1, reason)) return nullptr;
  return normOver(kForm, request, request.op->attrInt("axis"), reason);
}

template <NormForm kForm>
std::unique_ptr<executable::Kernel> createRowNormGradient(const KernelRequest &request, std::string &reason) {
  if (!takesNorm(request, 2, reason)) return nullptr;
  return normGradientOver(kForm, request, request.op->attrInt("axis"), reason);
}

constexpr Entry kRowwiseKernels[] = {{"Softmax", createSoftmax},
                                     {"LogSoftmax", createSoftmax},
                                     {"SoftmaxGrad", createSoftmax},
                                     {"LogSoftmaxGrad", createSoftmax},
                                     {"LayerNormalization", createRowNorm<NormForm::kCentred>},
                                     {"LayerNormalizationGrad", createRowNormGradient<NormForm::kCentred>},
                                     {"RMSNormalization", createRowNorm<NormForm::kRootMeanSquare>},
                                     {"RMSNormalizationGrad", createRowNormGradient<NormForm::kRootMeanSquare>}};

}  // namespace

std::unique_ptr<executable::Kernel> layerNormOver(const KernelRequest &request, int64_t axis, std::string &reason) {
  return normOver(NormForm::kCentred, request, axis, reason);
}

std::unique_ptr<executable::Kernel> layerNormGradientOver(const KernelRequest &request, int64_t axis,
                                                          std::string &reason) {
  return normGradientOver(NormForm::kCentred, request, axis, reason);
}

std::span<const Entry> rowwiseKernels() { return kRowwiseKernels; }

}  // namespace popart::cpu
