// Ensembles of decision trees (ai.onnx.ml): TreeEnsembleRegressor and TreeEnsemble, and what linear models share.
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// ai.onnx.ml-1 and -3: nodes by tree and number, doubles beside floats.
void importTreeEnsembleRegressor(NodeContext &n);
// ai.onnx.ml-5: nodes and leaves in lists of their own; branches on membership of a set.
void importTreeEnsemble(NodeContext &n);
inline constexpr OperatorNames kRegressorNames = {
    "X", "Y",
    "aggregate_function base_values base_values_as_tensor n_targets nodes_falsenodeids nodes_featureids nodes_hitrates "
    "nodes_hitrates_as_tensor nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids "
    "nodes_truenodeids "
    "nodes_values nodes_values_as_tensor post_transform target_ids target_nodeids target_treeids target_weights "
    "target_weights_as_tensor"};
inline constexpr OperatorNames kEnsembleNames = {
    "X", "Y",
    "aggregate_function leaf_targetids leaf_weights membership_values n_targets nodes_falseleafs nodes_falsenodeids "
    "nodes_featureids nodes_hitrates nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs "
    "nodes_truenodeids post_transform tree_roots"};

// `y` (N, C) after a post_transform: NONE, LOGISTIC or SOFTMAX; throws popart::error for the others.
Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform);

}  // namespace popart::onnx
