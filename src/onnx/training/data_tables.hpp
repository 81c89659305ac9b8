// Initializers that are data of the network, not weights: tables of coordinates that layers read like inputs.
#pragma once
#include <functional>
#include <vector>

#include "onnx/training/flat_model.hpp"

namespace popart::onnx {

// The left operand of a product with another initializer is data if two of three signs are present: its values follow a
// formula; a bias is added to the product; only nonlinear functions read the product before an op that depends on an
// input does. Otherwise both operands are factors of a weight (LoRA).
//
// For each initializer: the node of the product that reads it as data; -1: there is none. `isByFormula`: whether the
// values of an initializer follow a formula.
std::vector<int> dataTables(const FlatModel &model, const std::function<bool(const FlatInitializer &)> &isByFormula);

// Values that depend only on initializers; tables of data count as inputs.
std::vector<bool> staticValues(const FlatModel &model, const std::vector<int> &tables);

}  // namespace popart::onnx
