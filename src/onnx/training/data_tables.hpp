// Initializers that are data of the network, not weights: tables of coordinates that layers read as they read inputs.
#pragma once
#include <functional>
#include <vector>

#include "onnx/training/flat_model.hpp"

namespace popart::onnx {

// The left operand of a product with another initializer is data where two of three signs say so: its values are those
// of a formula; the product gets a bias; only nonlinear functions read the product before anything that depends on an
// input does. Otherwise both are factors of a weight (LoRA).
//
// By initializer: the node of the product that reads it as data; -1: it is none. `isByFormula`: what the values of an
// initializer say.
std::vector<int> dataTables(const FlatModel &model, const std::function<bool(const FlatInitializer &)> &isByFormula);

// Values that follow from initializers alone, where tables of data are inputs like others.
std::vector<bool> staticValues(const FlatModel &model, const std::vector<int> &tables);

}  // namespace popart::onnx
