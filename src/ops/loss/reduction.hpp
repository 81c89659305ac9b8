// Queries about loss operators: how the losses of elements are reduced (`reduction`), and the least probability.
#pragma once
#include <string_view>

#include <popart/opdef.hpp>

namespace popart::ops {

enum class LossReduction { Sum, Mean, None };

// "Sum", "Mean", "NoReduction" (ai.graphcore) and "sum", "mean", "none" (ai.onnx). Throws popart::error for other
// texts.
LossReduction lossReduction(std::string_view text);
// The reduction of the op under inference; fails through the context, with the name of the op.
LossReduction inferLossReduction(const InferContext &c);

// Whether each element is computed independently of the others: a loss that is not reduced, or the gradient of a loss
// that is not averaged.
bool fallsApart(const Op &op);
// Rule of rows (ops/pieces.hpp) for losses and gradients whose operands begin with the same axes; all pieces share
// single numbers.
bool lossPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);

// Losses of probabilities and their gradients raise smaller probabilities to this one: the attribute, or by default a
// number for the element type of the probabilities.
inline constexpr const char *kLeastProbability = "leastProbability";
// Attribute of an op that computes both a loss and its gradient: the gradient's element type (number of ONNX), to which
// it is rounded once; absent: the type of the probabilities.
inline constexpr const char *kGradientType = "gradientType";
// Attribute of losses and their gradients. 1: a label that is no class has no loss and no gradient; absent: it ends the
// run. A mean divides by the number of all rows without the ignored label.
inline constexpr const char *kIgnoreOutOfRange = "ignoreOutOfRange";
enum class LossPart { Loss, Gradient };
double leastProbability(const Attributes &attributes, DataType probabilities, LossPart part);
// Sets it in `attributes`, for a copy of `op` on operands of another type; does nothing for other ops.
void stateLeastProbability(const Op &op, Attributes &attributes);

// Cost of a loss that reads one element of input 0 for each label (input 1).
void pickCost(const Op &op, Cost &cost);

}  // namespace popart::ops
