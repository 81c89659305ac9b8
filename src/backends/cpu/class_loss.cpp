// ONNX class losses on float32: NegativeLogLikelihoodLoss and its gradient. Input (N, C, d...), targets (N, d...); an
// ignored target has weight 0, one out of range is reported. One task sums the samples in order.
#include <algorithm>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/task_count.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::LossReduction;

struct Targets {
  int64_t batch = 1, classes = 1, inner = 1;
  DataType type = DataType::INT64;
  bool ignores = false, ignoresOutOfRange = false;
  int64_t ignored = 0;
  LossReduction reduction = LossReduction::Mean;

  int64_t count() const { return batch * inner; }
  // Class of sample i, or -1 if it is ignored or out of range. Out of range is reported unless such labels are ignored.
  int64_t checkedLabel(const KernelArgs &args, int64_t i) const noexcept {
    const int64_t t = indexAt(args.in[1], type, i);
    if (ignores && t == ignored) return -1;
    if (t >= 0 && t < classes) [[likely]]
      return t;
    if (!ignoresOutOfRange) args.context.report({executable::FailureKind::Label, 1, i, t, 0, classes - 1});
    return -1;
  }
  int64_t position(int64_t i, int64_t label) const { return (i / inner * classes + label) * inner + i % inner; }
  // The divisor of the sum: for Mean, the total weight of the samples; without weights, the number of samples that are
  // not ignored.
  double denominator(const void *targets, const float *weights) const {
    if (reduction != LossReduction::Mean) return 1;
    double sum = 0;
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t t = indexAt(targets, type, i);
      if (ignores && t == ignored) continue;
      if (!weights)
        sum += 1;
      else if (t >= 0 && t < classes)
        sum += static_cast<double>(weights[t]);
    }
    return sum;
  }
};

class LossKernel final : public executable::HostKernel {
 public:
  explicit LossKernel(const Targets &targets) : t_(targets) {}
  std::string name() const override { return "class loss"; }
  void run(const KernelArgs &args, int) const noexcept override {
    const float *x = static_cast<const float *>(args.in[0]), *weights = static_cast<const float *>(args.in[2]);
    float *y = static_cast<float *>(args.out[0]);
    double total = 0;
    for (int64_t i = 0; i < t_.count(); ++i) {
      const int64_t label = t_.checkedLabel(args, i);
      const float weight = label < 0 ? 0.0f : weights ? weights[label] : 1.0f;
      const float loss = weight == 0 ? 0.0f : -weight * x[t_.position(i, label)];
      if (t_.reduction == LossReduction::None)
        y[i] = loss;
      else
        total += static_cast<double>(loss);
    }
    if (t_.reduction != LossReduction::None) y[0] = static_cast<float>(total / t_.denominator(args.in[1], weights));
  }

 private:
  Targets t_;
};

// A task owns some images.
class LossGradientKernel final : public executable::HostKernel {
 public:
  explicit LossGradientKernel(const Targets &targets) : t_(targets) {
    tasks_ = taskCount(t_.batch * t_.classes * t_.inner, 1 << 15, t_.batch);
  }
  std::string name() const override { return "class loss gradient"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const float *g = static_cast<const float *>(args.in[0]), *weights = static_cast<const float *>(args.in[2]);
    float *dx = static_cast<float *>(args.out[0]);
    const double denominator = t_.denominator(args.in[1], weights);
    const int64_t begin = t_.batch * task / tasks_, end = t_.batch * (task + 1) / tasks_, image = t_.classes * t_.inner;
    std::fill(dx + begin * image, dx + end * image, 0.0f);
    for (int64_t i = begin * t_.inner; i < end * t_.inner; ++i) {
      const int64_t label = t_.checkedLabel(args, i);
      const float weight = label < 0 ? 0.0f : weights ? weights[label] : 1.0f;
      if (weight == 0) continue;
      const double incoming = static_cast<double>(g[t_.reduction == LossReduction::None ? i : 0]);
      dx[t_.position(i, label)] = static_cast<float>(-static_cast<double>(weight) * incoming / denominator);
    }
  }

 private:
  Targets t_;
  int64_t tasks_ = 1;
};

bool takesClassLoss(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return false;
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list)
      if (o.connected && o.info.dataType() != DataType::FLOAT && !isIndexType(o.info.dataType()))
        return reason = "it takes FLOAT only: got " + toText(o.info.dataType()), false;
  return true;
}

Targets targetsOf(const KernelRequest &request, const Shape &x) {
  Targets t;
  t.batch = x[0], t.classes = x[1];
  for (size_t d = 2; d < x.size(); ++d) t.inner *= x[d];
  t.type = request.inputs[1].info.dataType();
  t.ignoresOutOfRange = request.op->hasAttr(ops::kIgnoreOutOfRange);
  t.ignores = request.op->hasAttr("ignore_index");
  if (t.ignores) t.ignored = request.op->attrInt("ignore_index");
  t.reduction = ops::lossReduction(request.op->attrString("reduction"));
  return t;
}

std::unique_ptr<executable::Kernel> createLoss(const KernelRequest &request, std::string &reason) {
  if (!takesClassLoss(request, reason)) return nullptr;
  return std::make_unique<LossKernel>(targetsOf(request, request.inputs[0].info.shape()));
}
std::unique_ptr<executable::Kernel> createLossGradient(const KernelRequest &request, std::string &reason) {
  if (!takesClassLoss(request, reason)) return nullptr;
  return std::make_unique<LossGradientKernel>(targetsOf(request, request.outputs[0].info.shape()));
}

constexpr Entry kClassLossKernels[] = {{"NegativeLogLikelihoodLoss", createLoss},
                                       {"NegativeLogLikelihoodLossGrad", createLossGradient}};

}  // namespace

std::span<const Entry> classLossKernels() { return kClassLossKernels; }

}  // namespace popart::cpu
