// One direction of a recurrent layer as a loop over steps. The product of the inputs with their weights is computed for
// all steps at once, before the loop; an iteration computes the product with the state and element-wise ops.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "onnx/compose.hpp"

namespace popart::onnx {

enum class Cell { Rnn, Gru, Lstm };

// An activation function of ONNX's recurrent operators; parameters that are not given have the operator's defaults.
struct Activation {
  std::string name;  // "Tanh", in any case
  std::optional<float> alpha, beta;
};
// Which parameters the function has.
bool takesAlpha(const std::string &name);
bool takesBeta(const std::string &name);

// The settings that both directions share, except for the functions.
struct CellRule {
  Cell cell;
  std::vector<Activation> activations;    // f, g, h in the order of the cell
  std::optional<float> clip;              // limit of the inputs of gate activations
  bool linearBeforeReset = false;         // GRU
  bool inputForget = false;               // LSTM: the forget gate is one minus the input gate
  std::vector<int> order = {0, 1, 2, 3};  // LSTM: positions of input, output and forget gate and candidate
};

// T steps, batch B, hidden size H, G gates.
struct LayerInputs {
  Value input;          // [T, B, G H]: the product for all steps, plus the biases
  Value recurrence;     // [H, G H]
  Value scale, zero;    // for a recurrence of integers, one or one for each column; absent: it has floats
  Value candidateBias;  // [H] or absent: GRU with linear before reset, added before the reset gate
  Value peepholes;      // [3 H] or absent: of input, output and forget gate
  Value lengths;        // INT64 [B, 1] or absent: steps of each sequence
  Value hidden, cell;   // [B, H]: the first states; cell: LSTM only
  bool reverse = false;
};

struct LayerResults {
  Value all;           // [T, B, H], if wanted
  Value hidden, cell;  // [B, H]: the last states
};

LayerResults writeLayer(Composer &to, const CellRule &rule, const LayerInputs &inputs, bool wantsAll);

}  // namespace popart::onnx
