// See recurrent_layer.hpp. Formulas as in the ONNX operators' text.
#include "onnx/import/recurrent_layer.hpp"

#include <algorithm>
#include <cctype>

#include "onnx/import/quantised.hpp"

namespace popart::onnx {
namespace {

std::string lowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Value apply(const Activation &f, const Value &x) {
  const std::string name = lowerCase(f.name);
  const auto with = [&](const char *type, float alpha) { return x.op(type, {}, {{"alpha", f.alpha.value_or(alpha)}}); };
  if (name == "tanh") return tanh(x);
  if (name == "sigmoid") return sigmoid(x);
  if (name == "relu") return x.op("Relu");
  if (name == "softsign") return x.op("Softsign");
  if (name == "softplus") return x.op("Softplus");
  if (name == "leakyrelu") return with("LeakyRelu", 0.01f);
  if (name == "thresholdedrelu") return with("ThresholdedRelu", 1.0f);
  if (name == "elu") return with("Elu", 1.0f);
  if (name == "hardsigmoid")
    return x.op("HardSigmoid", {}, {{"alpha", f.alpha.value_or(0.2f)}, {"beta", f.beta.value_or(0.5f)}});
  if (name == "affine") return x * f.alpha.value_or(1.0f) + f.beta.value_or(0.0f);
  if (name == "scaledtanh") return tanh(x * f.beta.value_or(1.0f)) * f.alpha.value_or(1.0f);
  x.composer().node().fail(
      "attribute activations: '{}' is not supported: expected Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, "
      "ScaledTanh, HardSigmoid, Elu, Softsign or Softplus",
      f.name);
}

// The current step of the loop, in its body.
class Step {
 public:
  Step(LoopWriter &loop, const CellRule &rule, const LayerInputs &inputs, const Value &hidden)
      : rule_(rule), hidden_(hidden), size_(hidden.dim(-1)) {
    const int64_t last = inputs.input.dim(0) - 1;
    Value position = loop.iteration();
    if (inputs.reverse) position = static_cast<double>(last) - position;
    input_ = loop.bring(inputs.input).gather(position, 0);
    recurrence_ = loop.bring(inputs.recurrence);
    scale_ = loop.bring(inputs.scale), zero_ = loop.bring(inputs.zero);
    candidateBias_ = loop.bring(inputs.candidateBias);
    if (inputs.peepholes.valid()) peepholes_ = loop.bring(inputs.peepholes).split(0, std::vector<int64_t>(3, size_));
    if (inputs.lengths.valid()) running_ = position.op("Less", {loop.bring(inputs.lengths)});
  }

  Value rnn() const { return gate(0, input_ + product()); }

  Value gru() const {
    const std::vector<Value> in = input_.split(1, {2 * size_, size_});
    Value gates, candidate;
    if (rule_.linearBeforeReset) {
      const std::vector<Value> part = product().split(1, {2 * size_, size_});
      gates = gate(0, in[0] + part[0]);
      candidate = candidateBias_.valid() ? part[1] + candidateBias_ : part[1];
    } else {
      gates = gate(0, in[0] + matmul(hidden_, recurrence_.slice(1, 0, 2 * size_)));
    }
    const std::vector<Value> z = gates.split(1, {size_, size_});
    candidate =
        rule_.linearBeforeReset ? z[1] * candidate : matmul(z[1] * hidden_, recurrence_.slice(1, 2 * size_, 3 * size_));
    candidate = gate(1, in[1] + candidate);
    return candidate + z[0] * (hidden_ - candidate);
  }

  // The new hidden state; `cell` becomes the new cell state.
  Value lstm(Value &cell) const {
    const std::vector<Value> part = (input_ + product()).split(1, std::vector<int64_t>(4, size_));
    Value in = part[rule_.order[0]], out = part[rule_.order[1]], forget = part[rule_.order[2]];
    if (!peepholes_.empty()) in = in + peepholes_[0] * cell;
    if (!peepholes_.empty()) forget = forget + peepholes_[2] * cell;
    in = gate(0, in);
    forget = rule_.inputForget ? 1.0 - in : gate(0, forget);
    cell = forget * cell + in * gate(1, part[rule_.order[3]]);
    if (!peepholes_.empty()) out = out + peepholes_[1] * cell;
    return gate(0, out) * apply(rule_.activations[2], cell);
  }

  // `fresh` while the sequence continues, otherwise `other`.
  Value running(const Value &fresh, const Value &other) const {
    return running_.valid() ? where(running_, fresh, other) : fresh;
  }

 private:
  // The product of the state and all gates' weights; for integers the state is quantised by its range.
  Value product() const {
    if (!scale_.valid()) return matmul(hidden_, recurrence_);
    const QuantisedValue state = quantisedByRange(hidden_);
    return scaledProduct(state.numbers, recurrence_, state.scale, scale_, state.zero, zero_);
  }

  Value gate(int function, const Value &x) const {
    return apply(rule_.activations[function], rule_.clip ? x.clamp(-*rule_.clip, *rule_.clip) : x);
  }

  const CellRule &rule_;
  Value hidden_;
  int64_t size_;
  Value input_, recurrence_, scale_, zero_, candidateBias_, running_;
  std::vector<Value> peepholes_;
};

}  // namespace

bool takesAlpha(const std::string &name) {
  static const char *const kNames[] = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"};
  return std::ranges::find(kNames, lowerCase(name)) != std::end(kNames);
}

bool takesBeta(const std::string &name) {
  static const char *const kNames[] = {"affine", "scaledtanh", "hardsigmoid"};
  return std::ranges::find(kNames, lowerCase(name)) != std::end(kNames);
}

LayerResults writeLayer(Composer &to, const CellRule &rule, const LayerInputs &inputs, bool wantsAll) {
  LoopWriter loop(to, inputs.reverse ? "reverse" : "forward", inputs.input.dim(0));
  const Value hidden = loop.carry(inputs.hidden);
  const bool hasCell = rule.cell == Cell::Lstm;
  const Value cell = hasCell ? loop.carry(inputs.cell) : Value();
  const Step step(loop, rule, inputs, hidden);
  Value newCell = cell;
  const Value fresh = rule.cell == Cell::Rnn ? step.rnn() : rule.cell == Cell::Gru ? step.gru() : step.lstm(newCell);
  std::vector<Value> next = {step.running(fresh, hidden)};
  if (hasCell) next.push_back(step.running(newCell, cell));
  std::vector<Value> scans;
  if (wantsAll) scans.push_back(inputs.lengths.valid() ? step.running(fresh, fresh.number(0)) : fresh);
  const std::vector<Value> out = loop.run(next, scans);
  LayerResults results{{}, out[0], hasCell ? out[1] : Value()};
  if (wantsAll) results.all = inputs.reverse ? out.back().reverse(0) : out.back();
  return results;
}

}  // namespace popart::onnx
