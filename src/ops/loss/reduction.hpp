// Facts of the loss operators: what happens to the per-element losses (`reduction`), and the least probability.
#pragma once
#include <string_view>

#include <popart/opdef.hpp>

namespace popart::ops {

enum class LossReduction { Sum, Mean, None };

// "Sum", "Mean", "NoReduction" (ai.graphcore) and "sum", "mean", "none" (ai.onnx). Throws popart::error for other
// texts.
LossReduction lossReduction(std::string_view text);
// The reduction of the op under inference; fails through the context, naming the op.
LossReduction inferLossReduction(const InferContext &c);

// Whether what the op computes of one element depends on no other one: a loss that is not reduced, or the gradient of
// one that is not averaged.
bool fallsApart(const Op &op);
// Rule of rows (ops/pieces.hpp): losses and gradients whose operands begin with the same axes; single numbers serve
// all.
bool lossPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);

// Losses of probabilities and their gradients count no probability as less than this: the attribute, or what follows
// from the element type of the probabilities.
inline constexpr const char *kLeastProbability = "leastProbability";
// Attribute of an op that gives a loss and its gradient: the gradient's element type (number of ONNX), to which it is
// rounded once; absent: that of the probabilities.
inline constexpr const char *kGradientType = "gradientType";
// Attribute of losses and their gradients, 1: a label that is no class has no loss and no gradient; absent: it ends the
// run. A mean divides by all rows but those with the ignored label.
inline constexpr const char *kIgnoreOutOfRange = "ignoreOutOfRange";
enum class LossPart { Loss, Gradient };
double leastProbability(const Attributes &attributes, DataType probabilities, LossPart part);
// States it in `attributes`, for a copy of `op` on operands of another type; nothing for other ops.
void stateLeastProbability(const Op &op, Attributes &attributes);

// Cost of a loss that reads one element of input 0 for each label (input 1).
void pickCost(const Op &op, Cost &cost);

}  // namespace popart::ops
