// What the operators of ai.onnx.ml share (machine_learning.cpp), and its ensembles of decision trees (forest.cpp).
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// TreeEnsembleRegressor of ai.onnx.ml-1 and -3: nodes by tree and number, doubles beside floats.
void importTreeEnsembleRegressor(NodeContext &n);
// TreeEnsemble of ai.onnx.ml-5: nodes and leaves in lists of their own; branches on membership of a set.
void importTreeEnsemble(NodeContext &n);

// Input `i` as rows of features: (N, C) of FLOAT, or of DOUBLE where that is its type and `keepDoubles`; (C) is one
// row. Throws popart::error for another rank.
Value featureRows(Composer &to, int i, bool keepDoubles = false);

// `y` (N, C) after a post_transform: NONE, LOGISTIC or SOFTMAX; throws popart::error for the others.
Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform);

}  // namespace popart::onnx
