// RNN, GRU and LSTM of ai.onnx and Lstm of ai.graphcore: checks of shapes, directions, layouts; then a loop for each
// direction (recurrent_layer.hpp). Gradients are those of the loop.
#include <popart/error.hpp>

#include "onnx/import/lengths.hpp"
#include "onnx/import/quantised.hpp"
#include "onnx/import/recurrent_layer.hpp"
#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

constexpr int kSequenceLengths = 4, kInitialHidden = 5, kInitialCell = 6, kPeepholes = 7;
// For DynamicQuantizeLSTM of com.microsoft, whose weights are integers and transposed.
constexpr int kInputScale = 8, kInputZero = 9, kRecurrenceScale = 10, kRecurrenceZero = 11;
bool isQuantised(const NodeContext &n) { return n.type() == "DynamicQuantizeLSTM"; }

struct CellSizes {
  int64_t directions, gates, steps, batch, input, hidden;
};

const char *namesOf(Cell cell, int function) {
  if (function > 0) return "Tanh";
  return cell == Cell::Rnn ? "Tanh" : "Sigmoid";
}

int functionCount(Cell cell) { return cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 2 : 3; }

// The functions of all directions in order; parameters go to the functions that take them, in order. compat: PopART's
// LSTM, which has one direction and versions up to 11, only uses the function of the gates (tests/python/onnx/
// test_recurrent.py).
std::vector<Activation> readActivations(const NodeContext &n, Cell cell, int64_t directions) {
  const auto names = n.attr<std::vector<std::string>>("activations", {});
  const auto alphas = n.attr<std::vector<float>>("activation_alpha", {});
  const auto betas = n.attr<std::vector<float>>("activation_beta", {});
  const int64_t each = functionCount(cell), expected = each * directions;
  const auto given = static_cast<int64_t>(names.size());
  const bool isOfGatesAlone = cell == Cell::Lstm && directions == 1 && given == 1 && n.opset() <= 11;
  n.require(given == 0 || given == expected || isOfGatesAlone,
            "attribute activations: got {} names, expected {} for each of {} directions. Name all, or none for the "
            "defaults",
            given, each, directions);
  std::vector<Activation> functions;
  size_t alpha = 0, beta = 0;
  for (int64_t i = 0; i < expected; ++i) {
    Activation f{i < given ? names[i] : namesOf(cell, static_cast<int>(i % each)), {}, {}};
    if (takesAlpha(f.name) && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (takesBeta(f.name) && beta < betas.size()) f.beta = betas[beta++];
    functions.push_back(f);
  }
  n.require(alpha == alphas.size() && beta == betas.size(),
            "activation_alpha and activation_beta have more numbers than the activations take: got {} and {}, expected "
            "{} and {}",
            static_cast<int64_t>(alphas.size()), static_cast<int64_t>(betas.size()), static_cast<int64_t>(alpha),
            static_cast<int64_t>(beta));
  return functions;
}

void requireShape(const NodeContext &n, int input, const char *name, const Shape &expected) {
  if (n.hasIn(input))
    n.require(n.info(input).shape() == expected,
              "input {} ({}) has another shape than the others ask for: got {}, expected {}", input, name,
              n.info(input), expected);
}

CellSizes readSizes(const NodeContext &n, Cell cell, bool batchFirst) {
  const std::string direction = n.attr<std::string>("direction", "forward");
  n.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
            "attribute direction: got '{}', expected forward, reverse or bidirectional", direction);
  for (int i = 0; i < 3; ++i)
    n.require(n.info(i).rank() == 3, "input {} must have three dimensions: got {}", i, n.info(i));
  CellSizes s{};
  s.directions = direction == "bidirectional" ? 2 : 1;
  s.gates = cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 3 : 4;
  s.steps = n.info(0).shape()[batchFirst ? 1 : 0];
  s.batch = n.info(0).shape()[batchFirst ? 0 : 1];
  s.input = n.info(0).shape()[2];
  s.hidden = n.info(2).shape()[isQuantised(n) ? 1 : 2];
  const auto declared = n.attr<int64_t>("hidden_size", s.hidden);
  n.require(declared == s.hidden, "attribute hidden_size contradicts the weights: got {}, input 2 (R) has {}", declared,
            n.info(2));
  const auto weights = [&](int64_t rows) {
    return isQuantised(n) ? Shape{s.directions, rows, s.gates * s.hidden}
                          : Shape{s.directions, s.gates * s.hidden, rows};
  };
  requireShape(n, 1, "W", weights(s.input));
  requireShape(n, 2, "R", weights(s.hidden));
  requireShape(n, 3, "B", {s.directions, 2 * s.gates * s.hidden});
  requireShape(n, kSequenceLengths, "sequence_lens", {s.batch});
  const Shape state = batchFirst ? Shape{s.batch, s.directions, s.hidden} : Shape{s.directions, s.batch, s.hidden};
  requireShape(n, kInitialHidden, "initial_h", state);
  if (cell != Cell::Lstm) return s;
  requireShape(n, kInitialCell, "initial_c", state);
  requireShape(n, kPeepholes, "P", {s.directions, 3 * s.hidden});
  return s;
}

// Row `direction` of a value whose first dimension is that of directions.
Value ofDirection(const Value &value, int64_t direction) {
  if (!value.valid()) return value;
  const Shape &shape = value.shape();
  return value.slice(0, direction, direction + 1).reshape(Shape(shape.begin() + 1, shape.end()));
}

class RecurrentNode {
 public:
  RecurrentNode(NodeContext &n, Cell cell)
      : n_(n),
        to_(n),
        cell_(cell),
        batchFirst_(n.attr<int64_t>("layout", 0) != 0),
        sizes_(readSizes(n, cell, batchFirst_)),
        functions_(readActivations(n, cell, sizes_.directions)) {}

  void import() {
    input_ = batchFirst_ ? to_.input(0).transpose({1, 0, 2}) : to_.input(0);
    if (n_.hasIn(kSequenceLengths))
      lengths_ = checkedLengths(to_, kSequenceLengths, sizes_.steps).reshape({sizes_.batch, 1});
    hidden_ = initialState(kInitialHidden);
    if (cell_ == Cell::Lstm) cellState_ = initialState(kInitialCell);
    std::vector<Value> all, hidden, cell;
    const bool backwards = n_.attr<std::string>("direction", "forward") == "reverse";
    for (int64_t d = 0; d < sizes_.directions; ++d) {
      const LayerResults r = writeLayer(to_, ruleOf(d), inputsOf(d, backwards || d == 1), n_.hasOut(0));
      if (n_.hasOut(0)) all.push_back(r.all.reshape({sizes_.steps, 1, sizes_.batch, sizes_.hidden}));
      hidden.push_back(r.hidden.reshape({1, sizes_.batch, sizes_.hidden}));
      if (cell_ == Cell::Lstm) cell.push_back(r.cell.reshape(hidden.back().shape()));
    }
    if (n_.hasOut(0)) {
      const Value y = concat(all, 1);
      to_.result(0, batchFirst_ ? y.transpose({2, 0, 1, 3}) : y);
    }
    lastState(1, hidden);
    if (cell_ == Cell::Lstm) lastState(2, cell);
  }

 private:
  Value initialState(int input) {
    if (!n_.hasIn(input)) return to_.zeros(input_.type(), {sizes_.directions, sizes_.batch, sizes_.hidden});
    return batchFirst_ ? to_.input(input).transpose({1, 0, 2}) : to_.input(input);
  }

  void lastState(int output, const std::vector<Value> &states) {
    if (!n_.hasOut(output)) return;
    const Value joined = concat(states, 0);
    to_.result(output, batchFirst_ ? joined.transpose({1, 0, 2}) : joined);
  }

  CellRule ruleOf(int64_t direction) const {
    CellRule rule{.cell = cell_, .activations = {}, .clip = {}};
    const int count = functionCount(cell_);
    const auto first = functions_.begin() + direction * count;
    rule.activations.assign(first, first + count);
    if (n_.hasAttr("clip")) {
      rule.clip = n_.attr("clip", 0.0f);
      n_.require(*rule.clip > 0, "attribute clip must be greater than 0: got {}", *rule.clip);
    }
    rule.linearBeforeReset = n_.attr<int64_t>("linear_before_reset", 0) != 0;
    rule.inputForget = n_.attr<int64_t>("input_forget", 0) != 0;
    return rule;
  }

  LayerInputs inputsOf(int64_t d, bool reverse) {
    const int64_t width = sizes_.gates * sizes_.hidden;
    LayerInputs in;
    in.reverse = reverse;
    in.lengths = lengths_;
    in.hidden = ofDirection(hidden_, d);
    in.cell = ofDirection(cellState_, d);
    if (cell_ == Cell::Lstm) in.peepholes = ofDirection(to_.optionalInput(kPeepholes), d);
    const Value rows = input_.reshape({sizes_.steps * sizes_.batch, sizes_.input}),
                weights = ofDirection(to_.input(1), d);
    in.recurrence = ofDirection(to_.input(2), d);
    if (isQuantised(n_)) {
      in.scale = ofDirection(to_.input(kRecurrenceScale), d), in.zero = ofDirection(to_.input(kRecurrenceZero), d);
      const QuantisedValue x = quantisedByRange(rows);
      in.input = scaledProduct(x.numbers, weights, x.scale, ofDirection(to_.input(kInputScale), d), x.zero,
                               ofDirection(to_.input(kInputZero), d));
    } else {
      in.recurrence = in.recurrence.transpose({1, 0});
      in.input = matmul(rows, weights.transpose({1, 0}));
    }
    if (n_.hasIn(3)) {
      const std::vector<Value> bias = ofDirection(to_.input(3), d).split(0, {width, width});
      Value recurrent = bias[1];
      if (cell_ == Cell::Gru && n_.attr<int64_t>("linear_before_reset", 0) != 0) {
        const std::vector<Value> parts = recurrent.split(0, {2 * sizes_.hidden, sizes_.hidden});
        in.candidateBias = parts[1];
        recurrent = concat({parts[0], to_.zeros(recurrent.type(), {sizes_.hidden})}, 0);
      }
      in.input = in.input + (bias[0] + recurrent);
    }
    in.input = in.input.reshape({sizes_.steps, sizes_.batch, width});
    return in;
  }

  NodeContext &n_;
  Composer to_;
  const Cell cell_;
  const bool batchFirst_;
  const CellSizes sizes_;
  const std::vector<Activation> functions_;
  Value input_, lengths_, hidden_, cellState_;
};

template <Cell C>
void importRecurrent(NodeContext &n) {
  RecurrentNode(n, C).import();
}

// ai.graphcore Lstm: weights [4, input + hidden, hidden], gates in the order forget, input, candidate, output.
void importGraphcoreLstm(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), weights = to.input(1);
  n.require(x.rank() == 3 && weights.rank() == 3, "input 0 and the weights must have three dimensions: got {} and {}",
            x.info(), weights.info());
  const int64_t steps = x.dim(0), batch = x.dim(1), size = x.dim(2), hidden = weights.dim(2);
  requireShape(n, 1, "weights", {4, size + hidden, hidden});
  requireShape(n, 2, "bias", {4, hidden});
  requireShape(n, 3, "initial state", {2, batch, hidden});
  requireShape(n, kSequenceLengths, "sequence lengths", {batch});
  LayerInputs in;
  const Value rows = weights.transpose({1, 0, 2}).reshape({size + hidden, 4 * hidden});
  in.recurrence = rows.slice(0, size, size + hidden);
  in.input = matmul(x.reshape({steps * batch, size}), rows.slice(0, 0, size));
  if (n.hasIn(2)) in.input = in.input + to.input(2).reshape({4 * hidden});
  in.input = in.input.reshape({steps, batch, 4 * hidden});
  const Value state = n.hasIn(3) ? to.input(3) : to.zeros(x.type(), {2, batch, hidden});
  in.hidden = ofDirection(state, 0);
  in.cell = ofDirection(state, 1);
  if (n.hasIn(kSequenceLengths)) in.lengths = checkedLengths(to, kSequenceLengths, steps).reshape({batch, 1});
  CellRule rule{
      .cell = Cell::Lstm, .activations = {{"Sigmoid", {}, {}}, {"Tanh", {}, {}}, {"Tanh", {}, {}}}, .clip = {}};
  rule.order = {1, 3, 0, 2};
  const bool full = n.attr<int64_t>("outputFullSequence", 1) != 0;
  const LayerResults r = writeLayer(to, rule, in, full);
  to.result(0, full ? r.all : r.hidden);
  to.result(1, r.cell);
}

}  // namespace

std::vector<ImportRule> recurrentRules() {
  return {{"ai.onnx", "RNN", importRecurrent<Cell::Rnn>},
          {"ai.onnx", "GRU", importRecurrent<Cell::Gru>},
          {"ai.onnx", "LSTM", importRecurrent<Cell::Lstm>},
          {"com.microsoft",
           "DynamicQuantizeLSTM",
           importRecurrent<Cell::Lstm>,
           {"X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point", "Y Y_h Y_c",
            "activation_alpha activation_beta activations clip direction hidden_size input_forget"},
           false,
           {1},
           NameCheck::Exact},
          {"ai.graphcore",
           "LSTM",
           importGraphcoreLstm,
           {"input weights bias initial_state sequence_lens", "output cell_state", "outputFullSequence"}}};
}

}  // namespace popart::onnx
