// Reference kernels of the negative log likelihood losses and their gradients. A label outside [0, C) that is not the
// ignored one is reported, and no element is read for it.
#include <algorithm>
#include <cmath>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::ref {
namespace {

using ops::LossReduction;

// The samples of Nll-like ops: probabilities [count, classes] and their labels.
struct Samples {
  const View &probs, &labels;
  int64_t count, classes;
  bool ignores;
  int64_t ignoredLabel;
  LossReduction reduction;

  bool ignoresOutOfRange;

  explicit Samples(const Context &c)
      : probs(c.in[0]),
        labels(c.in[1]),
        count(c.in[1].size()),
        classes(c.in[0].shape().back()),
        ignores(c.op.hasAttr("ignoreIndex")),
        ignoredLabel(ignores ? c.op.attrInt("ignoreIndex") : 0),
        reduction(ops::lossReduction(c.op.attrString("reduction"))),
        ignoresOutOfRange(c.op.hasAttr(ops::kIgnoreOutOfRange)) {
    for (int64_t i = 0; i < count && !ignoresOutOfRange; ++i)
      if (!ignored(i) && !valid(i)) c.report(executable::FailureKind::Label, 1, i, label(i), 0, classes - 1);
  }

  int64_t label(int64_t i) const { return loadInt(labels, i); }
  bool ignored(int64_t i) const { return ignores && label(i) == ignoredLabel; }
  bool valid(int64_t i) const { return !ignored(i) && label(i) >= 0 && label(i) < classes; }
  double value(int64_t i) const { return load(probs, i * classes + label(i)); }
  // What Mean divides by; 1 for the other reductions.
  double denominator() const {
    if (reduction != LossReduction::Mean) return 1;
    int64_t n = 0;
    for (int64_t i = 0; i < count; ++i) n += !ignored(i);
    return static_cast<double>(std::max<int64_t>(n, 1));
  }
};

void writeLoss(const Context &c, const Samples &s, bool logProbabilities) {
  const View &out = c.out[0];
  const double eps = ops::leastProbability(c.op.attributes, s.probs.info.dataType(), ops::LossPart::Loss);
  double total = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    double loss = 0;
    if (s.valid(i)) loss = logProbabilities ? -s.value(i) : -std::log(std::max(s.value(i), eps));
    if (s.reduction == LossReduction::None)
      store(out, i, loss);
    else
      total += loss;
  }
  if (s.reduction != LossReduction::None) store(out, 0, total / s.denominator());
}

// Gradient of the loss for sample i.
double incoming(const Context &c, const Samples &s, int64_t i, double denominator) {
  return load(c.in[2], c.in[2].size() == s.count && s.reduction == LossReduction::None ? i : 0) / denominator;
}

void nll(const Context &c) { writeLoss(c, Samples(c), c.op.attrInt("inputIsLogProbability") != 0); }

void nllGrad(const Context &c) {
  const Samples s(c);
  const bool logProbabilities = c.op.attrInt("inputIsLogProbability") != 0;
  const double eps = ops::leastProbability(c.op.attributes, s.probs.info.dataType(), ops::LossPart::Gradient);
  const double denominator = s.denominator();
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t label = s.label(i);
    for (int64_t k = 0; k < s.classes; ++k) {
      double grad = 0;
      if (s.valid(i) && k == label) {
        const double g = incoming(c, s, i, denominator);
        grad = logProbabilities ? -g : -g / std::max(s.value(i), eps);
      }
      store(c.out[0], i * s.classes + k, grad);
    }
  }
}

void writeDirectGradient(const Context &c, const Samples &s, const View &out) {
  const double denominator = s.denominator();
  for (int64_t i = 0; i < s.count; ++i) {
    const double g = incoming(c, s, i, denominator);
    const int64_t label = s.label(i);
    for (int64_t k = 0; k < s.classes; ++k) {
      const double onehot = k == label ? 1.0 : 0.0;
      const double p = load(s.probs, i * s.classes + k);
      store(out, i * s.classes + k, s.valid(i) ? (p - onehot) * g : 0.0);
    }
  }
}

void softmaxGradDirect(const Context &c) { writeDirectGradient(c, Samples(c), c.out[0]); }

void nllWithSoftmaxGradDirect(const Context &c) {
  const Samples s(c);
  if (c.hasOut(0)) writeLoss(c, s, false);
  if (c.hasOut(1)) writeDirectGradient(c, s, c.out[1]);
}

// The samples of ONNX class losses: targets (N, d…) over inputs (N, C, d…).
struct ClassTargets {
  const View &target;
  const View *weight;
  int64_t batch, classes, inner;
  bool ignores;
  int64_t ignoredTarget;
  LossReduction reduction;

  ClassTargets(const Context &c, const Shape &input)
      : target(c.in[1]),
        weight(c.hasIn(2) ? &c.in[2] : nullptr),
        batch(input[0]),
        classes(input[1]),
        inner(1),
        ignores(c.op.hasAttr("ignore_index")),
        ignoredTarget(ignores ? c.op.attrInt("ignore_index") : 0),
        reduction(ops::lossReduction(c.op.attrString("reduction"))) {
    for (size_t i = 2; i < input.size(); ++i) inner *= input[i];
    const bool reports = !c.op.hasAttr(ops::kIgnoreOutOfRange);
    for (int64_t i = 0; reports && i < count(); ++i) {
      const int64_t t = label(i);
      if ((t < 0 || t >= classes) && !(ignores && t == ignoredTarget))
        c.report(executable::FailureKind::Label, 1, i, t, 0, classes - 1);
    }
  }
  int64_t count() const { return batch * inner; }
  int64_t label(int64_t i) const { return loadInt(target, i); }
  bool isIgnored(int64_t i) const { return ignores && label(i) == ignoredTarget; }
  double weightOf(int64_t i) const {
    const int64_t t = label(i);
    if (isIgnored(i) || t < 0 || t >= classes) return 0;
    return weight ? load(*weight, t) : 1.0;
  }
  int64_t position(int64_t i) const { return (i / inner * classes + label(i)) * inner + i % inner; }
  double denominator() const {
    if (reduction != LossReduction::Mean) return 1;
    double sum = 0;
    for (int64_t i = 0; i < count(); ++i) sum += weight ? weightOf(i) : isIgnored(i) ? 0.0 : 1.0;
    return sum;
  }
};

void negativeLogLikelihood(const Context &c) {
  const ClassTargets t(c, c.in[0].shape());
  double total = 0;
  for (int64_t i = 0; i < t.count(); ++i) {
    const double w = t.weightOf(i);
    const double loss = w == 0 ? 0 : -w * load(c.in[0], t.position(i));
    if (t.reduction == LossReduction::None)
      store(c.out[0], i, loss);
    else
      total += loss;
  }
  if (t.reduction != LossReduction::None) store(c.out[0], 0, total / t.denominator());
}

void negativeLogLikelihoodGrad(const Context &c) {
  const ClassTargets t(c, c.out[0].shape());
  const double denominator = t.denominator();
  for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, 0.0);
  for (int64_t i = 0; i < t.count(); ++i) {
    const double w = t.weightOf(i);
    const double g = load(c.in[0], t.reduction == LossReduction::None ? i : 0);
    if (w != 0) store(c.out[0], t.position(i), -w * g / denominator);
  }
}

constexpr Entry kLossKernels[] = {
    {"Nll", nll},
    {"NllGrad", nllGrad},
    {"SoftmaxGradDirect", softmaxGradDirect},
    {"NlllWithSoftmaxGradDirect", nllWithSoftmaxGradDirect},
    {"NegativeLogLikelihoodLoss", negativeLogLikelihood},
    {"NegativeLogLikelihoodLossGrad", negativeLogLikelihoodGrad},
};

}  // namespace

std::span<const Entry> lossKernels() { return kLossKernels; }

}  // namespace popart::ref
