// Losses as nodes. No intermediate value overflows unless the loss does: logarithms of softmax and sigmoid are one
// operator, and squares are only computed up to the width of the square part.
#include "onnx/losses.hpp"

#include <limits>

#include "onnx/loss_nodes.hpp"

namespace popart::onnx {
namespace {

constexpr int64_t kClassLossOpset = 12;  // SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss

const char *reductionText(ReductionType reduction) {
  return reduction == ReductionType::Sum ? "sum" : reduction == ReductionType::Mean ? "mean" : "none";
}

// The parts that the losses of classes share.
struct ClassLoss {
  LossNodes &to;
  TensorId weight;  // in the type of the loss; empty: ones
  int64_t ignoreIndex;
  ReductionType reduction;
  int64_t rank;  // of the scores; -1: unknown
  DataType type;
  float smoothing = 0;

  // One row for scores (C); `losses` without that row again.
  TensorId rows(const TensorId &x) const { return rank == 1 ? to.unsqueeze(x, 0) : x; }
  TensorId withoutRows(const TensorId &losses) const {
    return rank == 1 && reduction == ReductionType::NoReduction ? to.squeeze(losses, 0) : losses;
  }
  int64_t rowsRank() const { return rank == 1 ? 2 : rank; }

  TensorId asOneNode(const char *operatorType, const TensorId &scores, const TensorId &labels) const {
    std::vector<TensorId> inputs = {rows(scores), rows(labels)};
    if (!weight.empty()) inputs.push_back(weight);
    return withoutRows(to.op(operatorType, inputs,
                             {{"reduction", std::string(reductionText(reduction))}, {"ignore_index", ignoreIndex}}));
  }

  TensorId logLikelihood(const TensorId &logProbabilities, const TensorId &labels, ReductionType joins) const {
    return to.graphcore("Nll", {logProbabilities, labels},
                        {{"reduction", int64_t{static_cast<int>(joins)}},
                         {"ignoreIndex", ignoreIndex},
                         {"inputIsLogProbability", int64_t{1}}});
  }

  // The losses from log probabilities with the classes last.
  TensorId ofNumbers(const TensorId &logProbabilities, const TensorId &labels) const {
    const bool isPlain = weight.empty() && smoothing == 0;
    if (isPlain && reduction != ReductionType::Mean)
      return withoutRows(logLikelihood(logProbabilities, labels, reduction));
    const DataType given = to.type(labels);
    const DataType labelType =
        given == DataType::INT64 || given == DataType::UNDEFINED ? DataType::INT64 : DataType::INT32;
    const TensorId numbers = to.cast(labels, labelType);
    const TensorId isIgnored = to.op("Equal", {numbers, to.number(static_cast<double>(ignoreIndex), labelType)});
    const TensorId counted = to.op("Not", {isIgnored});
    TensorId weights = to.op("Cast", {counted}, {{"to", int64_t{toOnnxDataType(type)}}});
    if (isPlain)
      return to.add(logLikelihood(logProbabilities, labels, reduction),
                    undefinedAtZero(to.reduce("ReduceSum", weights)));
    TensorId losses = logLikelihood(logProbabilities, labels, ReductionType::NoReduction);
    const TensorId mask = weights;
    if (!weight.empty()) {
      const TensorId here = to.op("Cast", {counted}, {{"to", int64_t{toOnnxDataType(labelType)}}});
      weights = to.mul(to.op("Gather", {weight, to.mul(numbers, here)}), mask);
      losses = to.mul(losses, weights);
    }
    if (smoothing > 0) losses = smoothed(losses, logProbabilities, mask);
    return reduced(losses, weights);
  }

  // (1 - smoothing) times the losses, plus smoothing times the mean over all classes.
  TensorId smoothed(const TensorId &losses, const TensorId &logProbabilities, const TensorId &mask) const {
    const TensorId weighted = weight.empty() ? logProbabilities : to.mul(logProbabilities, weight);
    const TensorId all = to.mul(to.op("Neg", {to.reduce("ReduceSum", weighted, {rowsRank() - 1})}), mask);
    const TensorId share = to.number(smoothing / static_cast<double>(classes), type);
    return to.add(to.mul(losses, to.number(1.0 - double{smoothing}, type)), to.mul(all, share));
  }

  // Mean divides by the sum of the weights. If that is 0, the mean is NaN, as in PyTorch, and its gradient 0.
  TensorId reduced(const TensorId &losses, const TensorId &weights) const {
    if (reduction != ReductionType::Mean) return withoutRows(to.joined(losses, reduction));
    const TensorId total = to.reduce("ReduceSum", weights);
    const TensorId divisor = to.atLeast(total, double{std::numeric_limits<float>::min()}, type);
    const TensorId mean = to.div(to.reduce("ReduceSum", losses), divisor);
    return to.add(mean, undefinedAtZero(total));
  }
  TensorId undefinedAtZero(const TensorId &total) const { return to.div(to.number(0, type), total); }

  // Labels are probabilities of the shape of the scores; classes last in both.
  TensorId ofProbabilities(const TensorId &logProbabilities, const TensorId &labels) const {
    TensorId shares = labels;
    if (smoothing > 0)
      shares = to.add(to.mul(shares, to.number(1.0 - double{smoothing}, type)),
                      to.number(smoothing / static_cast<double>(classes), type));
    TensorId products = to.mul(shares, logProbabilities);
    if (!weight.empty()) products = to.mul(products, weight);
    return to.joined(to.op("Neg", {to.reduce("ReduceSum", products, {rank - 1})}), reduction);
  }

  int64_t classes = -1;
};

void requireClasses(const LossNodes &to, const ClassLoss &loss, const TensorId &scores, const TensorId &weight) {
  const int64_t given = weight.empty() ? -1 : to.size(weight, 0);
  to.require(given < 0 || loss.classes < 0 || given == loss.classes,
             "tensor '{}': weights by class: got {}, expected one for each of the {} classes of '{}'", weight, given,
             loss.classes, scores);
}

ClassLoss classLoss(LossNodes &to, const TensorId &scores, const TensorId &weight, int64_t ignoreIndex,
                    ReductionType reduction) {
  const DataType type = to.arithmetic(scores);
  const int64_t rank = to.rank(scores);
  to.require(rank != 0, "tensor '{}': classes: got a scalar, expected one dimension or more", scores);
  ClassLoss loss{to, weight.empty() ? weight : to.factor(weight, type), ignoreIndex, reduction, rank, type};
  loss.classes = to.size(scores, rank == 1 ? 0 : 1);
  requireClasses(to, loss, scores, weight);
  return loss;
}

TensorId ofElements(LossNodes &to, const TensorId &losses, const LossSettings &settings) {
  return to.joined(losses, settings.reduction);
}

struct Pair {
  TensorId input, target;
  DataType type;
};
// Both in the type of the loss.
Pair pairOf(LossNodes &to, const TensorId &input, const TensorId &target) {
  const DataType type = to.arithmetic(input);
  return {to.cast(input, type), to.cast(target, type), type};
}

TensorId distanceOf(LossNodes &to, const Pair &p) { return to.op("Abs", {to.sub(p.input, p.target)}); }

// m (|d| - m / 2) with m = min(|d|, width): d² / 2 up to the width.
TensorId squareThenLinear(LossNodes &to, const Pair &p, double width) {
  const TensorId distance = distanceOf(to, p), within = to.atMost(distance, width, p.type);
  return to.mul(within, to.sub(distance, to.mul(within, to.number(0.5, p.type))));
}

// `positive` where the label is 1, `negative` where it is -1.
TensorId byLabel(LossNodes &to, const TensorId &label, const TensorId &positive, const TensorId &negative,
                 DataType type) {
  const TensorId half = to.mul(to.cast(label, type), to.number(0.5, type)), middle = to.number(0.5, type);
  return to.add(to.mul(to.add(middle, half), positive), to.mul(to.sub(middle, half), negative));
}

}  // namespace

TensorId crossEntropyLoss(ModelBuilder &b, const TensorId &logits, const TensorId &labels,
                          const CrossEntropySettings &s) {
  LossNodes to(b, "cross_entropy", s.name);
  to.require(s.labelSmoothing >= 0 && s.labelSmoothing <= 1, "label smoothing: got {}, expected 0 to 1",
             s.labelSmoothing);
  ClassLoss loss = classLoss(to, logits, s.weight, s.ignoreIndex, s.reduction);
  loss.smoothing = s.labelSmoothing;
  const TensorId scores = to.cast(logits, loss.type);
  const DataType labelType = to.type(labels);
  to.require(labelType != DataType::UNDEFINED, "labels '{}': element type is not known. Declare it in the model",
             labels);
  const bool areNumbers = !isFloatingPoint(labelType);
  if (areNumbers && s.labelSmoothing == 0 && to.version() >= kClassLossOpset)
    return loss.asOneNode("SoftmaxCrossEntropyLoss", scores, labels);
  to.knownRank(logits);
  to.require(s.labelSmoothing == 0 || loss.classes > 0, "tensor '{}': the number of classes is not known", logits);
  if (areNumbers) {
    const TensorId last = to.classesLast(loss.rows(scores), loss.rowsRank());
    return loss.ofNumbers(to.logSoftmaxLast(last, loss.rowsRank()), loss.rows(labels));
  }
  const TensorId logProbabilities = to.logSoftmaxLast(to.classesLast(scores, loss.rank), loss.rank);
  return loss.ofProbabilities(logProbabilities, to.classesLast(to.cast(labels, loss.type), loss.rank));
}

TensorId negativeLogLikelihoodLoss(ModelBuilder &b, const TensorId &logProbabilities, const TensorId &labels,
                                   const NegativeLogLikelihoodSettings &s) {
  LossNodes to(b, "nll", s.name);
  const ClassLoss loss = classLoss(to, logProbabilities, s.weight, s.ignoreIndex, s.reduction);
  const TensorId scores = to.cast(logProbabilities, loss.type);
  if (to.version() >= kClassLossOpset) return loss.asOneNode("NegativeLogLikelihoodLoss", scores, labels);
  to.knownRank(logProbabilities);
  return loss.ofNumbers(to.classesLast(loss.rows(scores), loss.rowsRank()), loss.rows(labels));
}

// (1 - t) x + (1 + (w - 1) t) log(1 + e^-x)
TensorId binaryCrossEntropyLoss(ModelBuilder &b, const TensorId &logits, const TensorId &labels,
                                const BinaryCrossEntropySettings &s) {
  LossNodes to(b, "binary_cross_entropy", s.name);
  const auto [x, t, type] = pairOf(to, logits, labels);
  const TensorId one = to.number(1, type);
  TensorId logarithm = to.op("Softplus", {to.op("Neg", {x})});
  if (!s.posWeight.empty()) {
    const TensorId more = to.sub(to.factor(s.posWeight, type), one);
    logarithm = to.mul(to.add(one, to.mul(more, t)), logarithm);
  }
  TensorId losses = to.add(to.mul(to.sub(one, t), x), logarithm);
  if (!s.weight.empty()) losses = to.mul(losses, to.factor(s.weight, type));
  return ofElements(to, losses, s);
}

TensorId meanSquaredErrorLoss(ModelBuilder &b, const TensorId &input, const TensorId &target, const LossSettings &s) {
  LossNodes to(b, "mse", s.name);
  const Pair p = pairOf(to, input, target);
  const TensorId difference = to.sub(p.input, p.target);
  return ofElements(to, to.mul(difference, difference), s);
}

TensorId meanAbsoluteErrorLoss(ModelBuilder &b, const TensorId &input, const TensorId &target, const LossSettings &s) {
  LossNodes to(b, "mae", s.name);
  return ofElements(to, distanceOf(to, pairOf(to, input, target)), s);
}

TensorId huberLoss(ModelBuilder &b, const TensorId &input, const TensorId &target, const HuberSettings &s) {
  LossNodes to(b, "huber", s.name);
  to.require(s.delta > 0, "delta: got {}, expected a positive number", s.delta);
  return ofElements(to, squareThenLinear(to, pairOf(to, input, target), s.delta), s);
}

TensorId smoothL1Loss(ModelBuilder &b, const TensorId &input, const TensorId &target, const SmoothL1Settings &s) {
  LossNodes to(b, "smooth_l1", s.name);
  to.require(s.beta >= 0, "beta: got {}, expected at least 0", s.beta);
  const Pair p = pairOf(to, input, target);
  if (s.beta == 0) return ofElements(to, distanceOf(to, p), s);
  return ofElements(to, to.div(squareThenLinear(to, p, s.beta), to.number(s.beta, p.type)), s);
}

// p (log p - input), 0 where p is 0; e^p (p - input) of logarithms.
TensorId klDivergenceLoss(ModelBuilder &b, const TensorId &input, const TensorId &target,
                          const KlDivergenceSettings &s) {
  LossNodes to(b, "kl_divergence", s.name);
  auto [x, t, type] = pairOf(to, input, target);
  if (s.input == InputForm::Logits) {
    const int64_t rank = to.knownRank(input);
    to.require(rank > 0, "tensor '{}': classes: got a scalar, expected one dimension or more", input);
    x = to.logSoftmaxLast(to.classesLast(x, rank), rank);
    t = to.classesLast(t, rank);
  }
  const bool areLogs = s.target == TargetForm::LogProbabilities;
  const TensorId logarithm =
      areLogs ? t : to.op("Log", {to.atLeast(t, double{std::numeric_limits<float>::min()}, type)});
  const TensorId losses = to.mul(areLogs ? to.op("Exp", {t}) : t, to.sub(logarithm, x));
  if (s.batchMean == BatchMean::No) return ofElements(to, losses, s);
  return to.joined(to.reduce("ReduceMean", losses, {0}), ReductionType::Sum);
}

TensorId hingeLoss(ModelBuilder &b, const TensorId &input, const TensorId &labels, const MarginSettings &s) {
  LossNodes to(b, "hinge", s.name);
  const Pair p = pairOf(to, input, labels);
  return ofElements(to, to.relu(to.sub(to.number(s.margin, p.type), to.mul(p.target, p.input))), s);
}

TensorId hingeEmbeddingLoss(ModelBuilder &b, const TensorId &input, const TensorId &labels, const MarginSettings &s) {
  LossNodes to(b, "hinge_embedding", s.name);
  const Pair p = pairOf(to, input, labels);
  const TensorId below = to.relu(to.sub(to.number(s.margin, p.type), p.input));
  return ofElements(to, byLabel(to, p.target, p.input, below, p.type), s);
}

TensorId cosineEmbeddingLoss(ModelBuilder &b, const TensorId &first, const TensorId &second, const TensorId &labels,
                             const CosineEmbeddingSettings &s) {
  constexpr double kLeastSquare = 1e-12;  // PyTorch's
  LossNodes to(b, "cosine_embedding", s.name);
  const int64_t rank = to.knownRank(first);
  to.require(rank == 1 || rank == 2, "tensor '{}': dimensions: got {}, expected (N, D) or (D)", first, rank);
  const Pair p = pairOf(to, first, second);
  const auto sum = [&](const TensorId &x, const TensorId &y) {
    return to.reduce("ReduceSum", to.mul(x, y), {rank - 1});
  };
  const auto length = [&](const TensorId &x) {
    return to.op("Sqrt", {to.add(sum(x, x), to.number(kLeastSquare, p.type))});
  };
  const TensorId cosine = to.div(to.div(sum(p.input, p.target), length(p.input)), length(p.target));
  const TensorId apart = to.sub(to.number(1, p.type), cosine);
  const TensorId near = to.relu(to.sub(cosine, to.number(s.margin, p.type)));
  return ofElements(to, byLabel(to, labels, apart, near, p.type), s);
}

TensorId tripletMarginLoss(ModelBuilder &b, const TensorId &anchor, const TensorId &positive, const TensorId &negative,
                           const TripletMarginSettings &s) {
  LossNodes to(b, "triplet_margin", s.name);
  to.require(s.p > 0, "p: got {}, expected a positive number", s.p);
  const int64_t rank = to.knownRank(anchor);
  to.require(rank > 0, "tensor '{}': dimensions: got a scalar, expected (N, D) or (D)", anchor);
  const DataType type = to.arithmetic(anchor);
  const TensorId a = to.cast(anchor, type), near = to.cast(positive, type), far = to.cast(negative, type);
  const auto distance = [&](const TensorId &x, const TensorId &y) {
    const TensorId difference = to.add(to.sub(x, y), to.number(s.eps, type));
    if (s.p == 1) return to.reduce("ReduceL1", difference, {rank - 1});
    if (s.p == 2) return to.reduce("ReduceL2", difference, {rank - 1});
    const TensorId powers = to.op("Pow", {to.op("Abs", {difference}), to.number(s.p, type)});
    return to.op("Pow", {to.reduce("ReduceSum", powers, {rank - 1}), to.number(1.0 / double{s.p}, type)});
  };
  TensorId toNegative = distance(a, far);
  if (s.swap == SwapDistances::Yes) toNegative = to.op("Min", {toNegative, distance(near, far)});
  const TensorId over = to.sub(distance(a, near), toNegative);
  return ofElements(to, to.relu(to.add(over, to.number(s.margin, type))), s);
}

TensorId ctcLoss(ModelBuilder &b, const TensorId &logProbabilities, const TensorId &targets,
                 const TensorId &inputLengths, const TensorId &targetLengths, const CtcSettings &s) {
  LossNodes to(b, "ctc", s.name);
  TensorId x = to.cast(logProbabilities, to.arithmetic(logProbabilities));
  if (s.input == InputForm::Logits) x = to.logSoftmaxLast(x, 3);
  return to.graphcore("Ctc", {x, targets, inputLengths, targetLengths},
                      {{"reduction", int64_t{static_cast<int>(s.reduction)}},
                       {"blank", s.blank},
                       {"zeroInfinity", int64_t{s.zeroInfinity}}});
}

}  // namespace popart::onnx
