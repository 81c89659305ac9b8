// Optimizers of ai.onnx.preview.training: one update, written as its formula. Inputs are the learning rate R, the
// update count T, then all tensors, their gradients and each kind of their state in turn. Outputs are the same from the
// tensors on, but without the gradients.
#include <cmath>
#include <functional>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

// One tensor's operands: [X, G, states…]; returns [new X, new states…].
using Update = std::function<std::vector<Value>(const Value &rate, const Value &count, const std::vector<Value> &)>;

void updateEach(NodeContext &n, int states, const Update &update) {
  Composer to(n);
  const int kinds = 2 + states, tensors = (n.inputCount() - 2) / kinds;
  n.require(tensors > 0 && n.inputCount() == 2 + kinds * tensors && n.outputCount() <= (kinds - 1) * tensors,
            "needs R, T and {} inputs for each tensor: got {} inputs and {} outputs", kinds, n.inputCount(),
            n.outputCount());
  for (int i : {0, 1}) n.require(n.info(i).nelms() == 1, "R and T must be one number: got {}", n.info(i));
  for (int t = 0; t < tensors; ++t) {
    std::vector<Value> own;
    for (int k = 0; k < kinds; ++k) own.push_back(to.input(2 + k * tensors + t));
    for (const Value &v : own)
      n.require(v.info() == own[0].info() && isFloatingPoint(v.type()),
                "a tensor, its gradient and its state must have one float type and shape: got {} and {}", own[0].info(),
                v.info());
    const DataType type = own[0].type();
    const std::vector<Value> results =
        update(to.input(0).reshape({}).cast(type), to.input(1).reshape({}).cast(type), own);
    for (int k = 0; k + 1 < kinds; ++k)
      if (n.hasOut(k * tensors + t)) to.result(k * tensors + t, results[k]);
  }
}

Value regularised(const NodeContext &n, const std::vector<Value> &own) {
  const double coefficient = n.attr("norm_coefficient", 0.0f);
  return coefficient == 0 ? own[1] : own[0] * coefficient + own[1];
}

void importAdagrad(NodeContext &n) {
  updateEach(n, 1, [&](const Value &rate, const Value &count, const std::vector<Value> &own) -> std::vector<Value> {
    const Value g = regularised(n, own), squares = own[2] + g * g;
    const Value step = rate / (count * n.attr("decay_factor", 0.0f) + 1.0);
    return {own[0] - step * g / (squares.op("Sqrt") + n.attr("epsilon", 1e-6f)), squares};
  });
}

void importAdam(NodeContext &n) {
  const double alpha = n.attr("alpha", 0.9f), beta = n.attr("beta", 0.999f);
  updateEach(n, 2, [&](const Value &rate, const Value &count, const std::vector<Value> &own) -> std::vector<Value> {
    const Value g = regularised(n, own);
    const Value mean = own[2] * alpha + g * (1 - alpha), squares = own[3] * beta + g * g * (1 - beta);
    const Value started = count.op("Greater", {count.number(0)});
    // Before the first update the correction divides by zero, and is not used.
    const Value later = where(started, count, count.number(1));
    const auto rest = [&](double base) { return 1.0 - (later * std::log(base)).op("Exp"); };
    const Value step = where(started, rate * rest(beta).op("Sqrt") / rest(alpha), rate);
    const Value x = own[0] - step * mean / (squares.op("Sqrt") + n.attr("epsilon", 1e-6f));
    return {x * (1.0 - n.attr("norm_coefficient_post", 0.0f)), mean, squares};
  });
}

void importMomentum(NodeContext &n) {
  const std::string mode = n.attr<std::string>("mode", "");
  n.require(mode == "standard" || mode == "nesterov", "attribute mode: got '{}', expected standard or nesterov", mode);
  const double alpha = n.attr("alpha", 0.0f), beta = n.attr("beta", 1.0f);
  updateEach(n, 1, [&](const Value &rate, const Value &count, const std::vector<Value> &own) -> std::vector<Value> {
    const Value g = regularised(n, own);
    const Value share = where(count.op("Greater", {count.number(0)}), count.number(beta), count.number(1));
    const Value momentum = own[2] * alpha + share * g;
    return {own[0] - rate * (mode == "nesterov" ? g + momentum * alpha : momentum), momentum};
  });
}

}  // namespace

std::vector<ImportRule> previewTrainingRules() {
  constexpr const char *kDomain = "ai.onnx.preview.training";
  return {{kDomain, "Adagrad", importAdagrad, {"R T inputs", "outputs", "decay_factor epsilon norm_coefficient"}},
          {kDomain,
           "Adam",
           importAdam,
           {"R T inputs", "outputs", "alpha beta epsilon norm_coefficient norm_coefficient_post"}},
          {kDomain, "Momentum", importMomentum, {"R T inputs", "outputs", "alpha beta mode norm_coefficient"}}};
}

}  // namespace popart::onnx
