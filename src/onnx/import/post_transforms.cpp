// The last steps of the operators of ai.onnx.ml: attribute post_transform, the scores of two classes given as one
// number, and labels.
#include <cmath>
#include <numbers>

#include <popart/error.hpp>

#include "onnx/import/machine_learning.hpp"

namespace popart::onnx {
namespace {

// A softmax of the elements that are not zero; zeros stay, even if a whole row is zero.
Value softmaxOfOthers(const Value &y) {
  constexpr double kZero = 1e-7;
  const std::vector<int64_t> axes = {y.rank() - 1};
  const Value isZero = y.op("Abs").op("LessOrEqual", {y.number(kZero)});
  const Value top = y.op("ReduceMax", {}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const Value powers = where(isZero, y.number(0), (y - top).op("Exp")), sum = powers.sum(axes, true);
  const Value zeros = y * (y.number(0) - top.op("Max", {y.number(0)})).op("Exp");
  return where(sum.op("Equal", {sum.number(0)}), y.number(0), where(isZero, zeros, powers) / sum);
}

// The quantile of the normal distribution: a first approximation (Winitzki's, accurate to a few thousandths) and two
// steps of Halley's method on erf(x) = 2 p - 1. Closer than 1e-12 to 0 and 1, erf has no digits left, and the first
// approximation is used.
Value probit(const Value &p) {
  constexpr double kShape = 0.147, kTail = 1e-12;
  const Value wide = p.cast(DataType::DOUBLE), u = wide * 2.0 - 1.0, both = wide * (1.0 - wide);
  const Value log = (both * 4.0).op("Log"), v = log * 0.5 + 2 / (std::numbers::pi * kShape);
  const Value guess = ((v * v - log / kShape).op("Sqrt") - v).op("Sqrt") * u.op("Sign");
  const Value isMiddle = both.op("Greater", {both.number(kTail)});
  Value x = where(isMiddle, guess, guess.number(0));
  for (int step = 0; step < 2; ++step) {
    const Value error = (x.op("Erf") - u) * (x * x).op("Exp") * (0.5 / std::numbers::inv_sqrtpi);
    x = x - error / (x * error + 1.0);
  }
  return (where(isMiddle, x, guess) * std::numbers::sqrt2).cast(p.type());
}

}  // namespace

Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform) {
  if (transform == "NONE") return y;
  if (transform == "LOGISTIC") return sigmoid(y);
  if (transform == "SOFTMAX") return y.op("Softmax", {}, {{"axis", int64_t{y.rank() - 1}}});
  if (transform == "SOFTMAX_ZERO") return softmaxOfOthers(y);
  if (transform == "PROBIT") return probit(y);
  n.fail("attribute post_transform: got '{}', expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT", transform);
}

Value classScores(const NodeContext &n, const Value &y, const std::string &transform) {
  const Value transformed = postTransformed(n, y, transform);
  return y.dim(-1) == 1 && transform != "PROBIT" ? y : transformed;
}

Value bothClasses(const NodeContext &n, const Value &score, const std::string &transform, Counterpart counterpart) {
  const Value opposite = score.number(0) - score;
  if (transform == "LOGISTIC") return sigmoid(concat({opposite, score}, 1));
  const Value both = concat({counterpart == Counterpart::Opposite ? opposite : 1.0 - score, score}, 1);
  const Value transformed = postTransformed(n, both, transform);
  return transform == "PROBIT" ? transformed : both;
}

std::vector<int64_t> classLabels(const NodeContext &n, const char *attribute) {
  n.require(!n.hasAttr("classlabels_strings"),
            "labels that are text are the host's: popart.backend makes them. Run the model there, or give {} instead "
            "of classlabels_strings",
            attribute);
  return n.attr<std::vector<int64_t>>(attribute, {});
}

void giveLabels(Composer &to, const Value &classes, const std::vector<int64_t> &labels) {
  if (to.node().hasOut(0)) to.result(0, to.ints(labels).gather(classes, 0));
}

Value topClass(const Value &scores) {
  return scores.op("ArgMax", {}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
}

}  // namespace popart::onnx
