// Parts that the operators of ai.onnx.ml share (machine_learning.cpp, post_transforms.cpp), and its ensembles of
// decision trees (forest.cpp).
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// TreeEnsembleRegressor of ai.onnx.ml-1 and -3: nodes by tree and number; values are floats or doubles.
void importTreeEnsembleRegressor(NodeContext &n);
// TreeEnsembleClassifier of ai.onnx.ml-1 and -3: the same, with labels and scores of classes.
void importTreeEnsembleClassifier(NodeContext &n);
// TreeEnsemble of ai.onnx.ml-5: nodes and leaves in separate lists; branches can test membership of a set.
void importTreeEnsemble(NodeContext &n);

// Input `i` as rows of features: (N, C) of FLOAT, or of DOUBLE if that is its type and `keepDoubles`; (C) is one row.
// Throws popart::error for another rank.
Value featureRows(Composer &to, int i, bool keepDoubles = false);

// `y` (N, C) after a post_transform; throws popart::error for a post_transform that the operators do not have.
Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform);

// The same for scores of classes. Only PROBIT changes a single score, as in ONNX Runtime.
Value classScores(const NodeContext &n, const Value &y, const std::string &transform);

// The score of the first of two classes if the second one has the score s: 1 - s, or -s.
enum class Counterpart { Rest, Opposite };
// (N, 2) from scores s (N, 1) of the second class: LOGISTIC of -s and s, PROBIT of counterpart and s; the other
// transforms change neither, as in ONNX Runtime.
Value bothClasses(const NodeContext &n, const Value &score, const std::string &transform, Counterpart counterpart);

// The labels in list attribute `attribute`; empty if it is absent. Throws popart::error for labels that are text.
std::vector<int64_t> classLabels(const NodeContext &n, const char *attribute);
// Makes output 0: the label of each sample, from classes (N).
void giveLabels(Composer &to, const Value &classes, const std::vector<int64_t> &labels);
// The first class with the largest score: (N) from scores (N, C).
Value topClass(const Value &scores);

}  // namespace popart::onnx
