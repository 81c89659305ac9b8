// Negative log likelihood of class probabilities, of FLOAT or 16 bits, and its gradients. Definitions:
// src/ops/loss/nll.cpp. A label out of range is reported unless it is ignored. One task adds the loss in sample order.
// The first run warns if an input of probabilities has values that cannot be probabilities.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include <popart/graph.hpp>
#include <popart/logging.hpp>
#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::LossReduction;

using LabelFn = int64_t (*)(const void *labels, int64_t i);
template <class T>
int64_t labelAt(const void *labels, int64_t i) {
  return static_cast<int64_t>(static_cast<const T *>(labels)[i]);
}
LabelFn labelReader(DataType type) {
  switch (type) {
    case DataType::INT32:
      return labelAt<int32_t>;
    case DataType::INT64:
      return labelAt<int64_t>;
    case DataType::UINT32:
      return labelAt<uint32_t>;
    case DataType::INT16:
      return labelAt<int16_t>;
    case DataType::UINT16:
      return labelAt<uint16_t>;
    case DataType::INT8:
      return labelAt<int8_t>;
    case DataType::UINT8:
      return labelAt<uint8_t>;
    default:
      return nullptr;
  }
}

// The results of an op of the family: output `loss` and output `gradient` (-1: none). isDirect: the gradient is with
// respect to the input of the softmax.
struct Form {
  int loss = -1, gradient = -1;
  bool isDirect = false, isLogarithm = false;
  float least = 0;  // lower bound of a probability
};

struct LossProblem {
  int64_t samples, classes;
  LossReduction reduction;
  bool ignores = false, ignoresOutOfRange = false, gradientPerSample = false;
  DataType type = DataType::FLOAT;      // of all operands except the labels and the gradient
  DataType gradient = DataType::FLOAT;  // type of the gradient
  int64_t ignored = 0;
  LabelFn label;

  // Label of sample i; kIgnored, or kInvalid if it is out of range, which is reported unless such labels are ignored.
  static constexpr int64_t kIgnored = -1, kInvalid = -2;
  int64_t labelOf(const KernelArgs &args, int64_t i) const noexcept {
    const int64_t found = label(args.in[1], i);
    if (ignores && found == ignored) return kIgnored;
    if (found >= 0 && found < classes) [[likely]]
      return found;
    if (!ignoresOutOfRange) args.context.report({executable::FailureKind::Label, 1, i, found, 0, classes - 1});
    return kInvalid;
  }
};

// Checks the probabilities of the first run.
class FirstValues {
 public:
  // `name`: of the op, for the warning; empty: no check.
  explicit FirstValues(std::string name) : name_(std::move(name)), done_(name_.empty()) {}
  bool looks() const { return !name_.empty(); }
  void check(const void *probabilities, int64_t elems, DataType type) const noexcept {
    if (done_.load(std::memory_order_relaxed) || done_.exchange(true)) return;
    constexpr float kRounding = 1e-2f;  // of a softmax in 16 bits
    for (int64_t i = 0; i < elems; ++i)
      if (const float p = numberAt(probabilities, i, type); p < -kRounding || p > 1 + kRounding) return warn(p, i);
  }

 private:
  void warn(float value, int64_t place) const noexcept try {
    logging::session::warn(
        "nllloss '{}': its input cannot be probabilities: element {}: got {}, expected values from 0 to 1. For logits "
        "use popart.losses.cross_entropy, which has the softmax inside, or put a softmax in front; for log "
        "probabilities popart.losses.nll, or inputIsLogProbability",
        name_, place, value);
  } catch (...) {  // no warning if memory is exhausted
  }

  std::string name_;
  mutable std::atomic<bool> done_;
};

// The op that is named if the kernel of `op` checks its probabilities. Only the loss is checked, or its gradient if
// there is no loss.
std::string nameForWarning(const Op &op) {
  const bool isLogarithm = op.hasAttr("inputIsLogProbability") && op.attrInt("inputIsLogProbability") != 0;
  const std::string &type = op.def().base().type();
  if (isLogarithm || (type != "Nll" && type != "NllGrad")) return {};
  const Graph &graph = op.getGraph();
  if (type == "NllGrad")
    for (const Use &use : graph.tensor(op.inputs()[0]).uses())
      if (use.input == 0 && graph.op(use.op).has(Trait::Loss)) return {};
  return op.name().empty() ? op.debugName() : op.name();
}

class NllKernel final : public executable::HostKernel {
 public:
  NllKernel(Form form, LossProblem problem, std::string nameForWarning)
      : first_(std::move(nameForWarning)),
        form_(form),
        p_(std::move(problem)),
        rowsPerTask_(std::max<int64_t>(1, 32768 / std::max<int64_t>(1, p_.classes))) {}
  std::string name() const override {
    return form_.gradient < 0 ? "nll" : form_.loss < 0 ? "nll gradient" : "nll with gradient";
  }
  int tasks() const override {
    const int64_t gradients = form_.gradient < 0 ? 0 : (p_.samples + rowsPerTask_ - 1) / rowsPerTask_;
    return static_cast<int>(std::max<int64_t>(1, gradients));
  }
  bool canOverwrite(int input, int output) const override {
    return input == 0 && output == form_.gradient && form_.loss < 0 && !first_.looks();
  }
  int64_t scratchBytes() const override {
    return isHalf(p_.gradient) && form_.gradient >= 0 ? p_.classes * static_cast<int64_t>(sizeof(float)) : 0;
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (task == 0) first_.check(args.in[0], p_.samples * p_.classes, p_.type);
    const double denominator = count(args.in[1]);
    if (form_.loss >= 0 && task == 0) writeLoss(args, denominator);
    if (form_.gradient < 0) return;
    void *out = args.out[form_.gradient];
    auto *spare = static_cast<float *>(args.scratch);
    const int64_t end = std::min((task + 1) * rowsPerTask_, p_.samples), classes = p_.classes;
    for (int64_t i = task * rowsPerTask_; i < end; ++i) {
      const float incoming = numberAt(args.in[2], p_.gradientPerSample ? i : 0, p_.type);
      const float g = static_cast<float>(static_cast<double>(incoming) / denominator);
      const int64_t label = p_.labelOf(args, i);
      float *gradient = placeAt(out, i * classes, p_.gradient, spare);
      row(args.in[0], i * classes, gradient, label < 0 ? 0.0f : g, label);
      keepFloats(gradient, out, i * classes, classes, p_.gradient);
    }
  }

 private:
  // `out` may be the memory to which the probabilities, elements of `in` from `first` on, are converted.
  void row(const void *in, int64_t first, float *out, float g, int64_t label) const noexcept {
    if (form_.isDirect) {
      const float *probabilities = floatsAt(in, first, p_.classes, p_.type, out);
      const float atLabel = label >= 0 ? (probabilities[label] - 1.0f) * g : 0;
      if (g == 0.0f)
        std::fill_n(out, p_.classes, 0.0f);
      else
        for (int64_t k = 0; k < p_.classes; ++k) out[k] = probabilities[k] * g;
      if (label >= 0) out[label] = atLabel;
      return;
    }
    const float value = label < 0           ? 0
                        : form_.isLogarithm ? -g
                                            : -g / std::max(numberAt(in, first + label, p_.type), form_.least);
    std::fill_n(out, p_.classes, 0.0f);
    if (label >= 0) out[label] = value;
  }

  double count(const void *labels) const noexcept {
    if (p_.reduction != LossReduction::Mean) return 1;
    int64_t n = p_.samples;
    for (int64_t i = 0; i < p_.samples && p_.ignores; ++i) n -= p_.label(labels, i) == p_.ignored;
    return static_cast<double>(std::max<int64_t>(n, 1));
  }

  void writeLoss(const KernelArgs &args, double denominator) const noexcept {
    void *out = args.out[form_.loss];
    double total = 0;
    for (int64_t i = 0; i < p_.samples; ++i) {
      const int64_t label = p_.labelOf(args, i);
      float loss = 0;
      const float x = label >= 0 ? numberAt(args.in[0], i * p_.classes + label, p_.type) : 0;
      if (label >= 0) loss = form_.isLogarithm ? -x : -std::log(std::max(x, form_.least));
      if (p_.reduction == LossReduction::None) setNumberAt(out, i, p_.type, loss);
      total += static_cast<double>(loss);
    }
    if (p_.reduction != LossReduction::None) setNumberAt(out, 0, p_.type, static_cast<float>(total / denominator));
  }

  FirstValues first_;
  Form form_;
  LossProblem p_;
  int64_t rowsPerTask_;
};

std::unique_ptr<executable::Kernel> createNll(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const std::string &type = op.def().base().type();
  auto is = [](const std::vector<executable::OperandDesc> &list, size_t i) {
    return i < list.size() && list[i].connected;
  };
  const DataType dataType = request.inputs[0].info.dataType();
  const size_t gradient = op.hasAttr(ops::kGradientType) ? 1 : request.outputs.size();  // may have another type
  for (const auto *list : {&request.inputs, &request.outputs})
    for (size_t i = 0; i < list->size(); ++i) {
      const bool isLabels = list == &request.inputs && i == 1, isRounded = list == &request.outputs && i == gradient;
      if (!isLabels && !isRounded && (*list)[i].connected && (*list)[i].info.dataType() != dataType)
        return reason = "its operands and results differ in type", nullptr;
    }
  if (dataType != DataType::FLOAT && !isHalf(dataType)) return reason = "it takes no " + toText(dataType), nullptr;
  Form form;
  form.isDirect = type == "SoftmaxGradDirect" || type == "NlllWithSoftmaxGradDirect";
  form.isLogarithm = op.hasAttr("inputIsLogProbability") && op.attrInt("inputIsLogProbability") != 0;
  const bool hasLoss = type == "Nll" || type == "NlllWithSoftmaxGradDirect";
  const auto part = hasLoss ? ops::LossPart::Loss : ops::LossPart::Gradient;
  form.least = static_cast<float>(ops::leastProbability(op.attributes(), request.inputs[0].info.dataType(), part));
  if (hasLoss && is(request.outputs, 0)) form.loss = 0;
  if (!hasLoss) form.gradient = 0;
  if (type == "NlllWithSoftmaxGradDirect" && is(request.outputs, 1)) form.gradient = 1;
  LossProblem p;
  p.type = dataType;
  p.gradient = gradient < request.outputs.size() ? request.outputs[gradient].info.dataType() : dataType;
  p.samples = request.inputs[1].info.nelms();
  p.classes = request.inputs[0].info.shape().back();
  p.reduction = ops::lossReduction(op.attrString("reduction"));
  p.ignores = op.hasAttr("ignoreIndex");
  if (p.ignores) p.ignored = op.attrInt("ignoreIndex");
  p.ignoresOutOfRange = op.hasAttr(ops::kIgnoreOutOfRange);
  p.label = labelReader(request.inputs[1].info.dataType());
  if (!p.label) return reason = "it takes no labels of " + toText(request.inputs[1].info.dataType()), nullptr;
  if (is(request.inputs, 2))
    p.gradientPerSample = p.reduction == LossReduction::None && request.inputs[2].info.nelms() == p.samples;
  return std::make_unique<NllKernel>(form, std::move(p), nameForWarning(op));
}

constexpr Entry kLossKernels[] = {{"Nll", createNll},
                                  {"NllGrad", createNll},
                                  {"SoftmaxGradDirect", createNll},
                                  {"NlllWithSoftmaxGradDirect", createNll}};

}  // namespace

std::span<const Entry> lossKernels() { return kLossKernels; }

}  // namespace popart::cpu
