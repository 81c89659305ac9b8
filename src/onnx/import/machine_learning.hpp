// What the operators of ai.onnx.ml share (machine_learning.cpp, post_transforms.cpp), and its ensembles of decision
// trees (forest.cpp).
#pragma once
#include "onnx/compose.hpp"

namespace popart::onnx {

// TreeEnsembleRegressor of ai.onnx.ml-1 and -3: nodes by tree and number, doubles beside floats.
void importTreeEnsembleRegressor(NodeContext &n);
// TreeEnsembleClassifier of ai.onnx.ml-1 and -3: the same, with labels and scores of classes.
void importTreeEnsembleClassifier(NodeContext &n);
// TreeEnsemble of ai.onnx.ml-5: nodes and leaves in lists of their own; branches on membership of a set.
void importTreeEnsemble(NodeContext &n);

// Input `i` as rows of features: (N, C) of FLOAT, or of DOUBLE where that is its type and `keepDoubles`; (C) is one
// row. Throws popart::error for another rank.
Value featureRows(Composer &to, int i, bool keepDoubles = false);

// `y` (N, C) after a post_transform; throws popart::error for another than the operators have.
Value postTransformed(const NodeContext &n, const Value &y, const std::string &transform);

// The same for scores of classes, where a single score is left as it is by all but PROBIT, as in ONNX Runtime.
Value classScores(const NodeContext &n, const Value &y, const std::string &transform);

// What stands beside a score s of the second of two classes: 1 - s, or -s.
enum class Counterpart { Rest, Opposite };
// (N, 2) of scores s (N, 1) of the second class: LOGISTIC of -s and s, PROBIT of counterpart and s; the other
// transforms leave both as they are, as in ONNX Runtime.
Value bothClasses(const NodeContext &n, const Value &score, const std::string &transform, Counterpart counterpart);

// The labels of list attribute `attribute`; empty where it is absent. Throws popart::error for labels that are text.
std::vector<int64_t> classLabels(const NodeContext &n, const char *attribute);
// Output 0: the label of each sample, of classes (N).
void giveLabels(Composer &to, const Value &classes, const std::vector<int64_t> &labels);
// The class with the largest score, the first of them: (N) of scores (N, C).
Value topClass(const Value &scores);

}  // namespace popart::onnx
