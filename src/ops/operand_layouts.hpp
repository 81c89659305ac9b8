// How the operands of ops may lie in memory: the rules that rows share, and the question passes ask.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// What the op asks of each operand, connected or not. Ops without a rule: element-wise ones take operands of the
// result's shape in any layout that they share; all else is Plain. Shapes are known.
OperandLayouts operandLayouts(const Op &op);

// ---- rules of rows (OpDef::layouts)

// Operands of the result's shape lie alike.
void alikeOfResultShape(const Op &op, OperandLayouts &layouts);
// All operands lie alike.
void allAlike(const Op &op, OperandLayouts &layouts);
// (N, C, spatial…): the first `kInputs` inputs and output 0 have their channels alike; all others are vectors.
template <int kInputs>
void sameChannels(const Op &, OperandLayouts &layouts) {
  for (size_t i = 0; i < kInputs && i < layouts.in.size(); ++i) layouts.in[i] = OperandLayout::Channels;
  layouts.out[0] = OperandLayout::Channels;
}
// Concatenation along channels; any choice of channels of several tensors; a piece of a spatial tensor.
void joinedChannels(const Op &op, OperandLayouts &layouts);
void channelsOfAll(const Op &op, OperandLayouts &layouts);
void pieceOfChannels(const Op &op, OperandLayouts &layouts);
// A spatial tensor, and one value per channel (or no channels at all) on the other side.
void reducedChannels(const Op &op, OperandLayouts &layouts);
void spreadChannels(const Op &op, OperandLayouts &layouts);  // or one number, in any layout
// Products and convolutions, their gradients and fused forms: weights and activations lie as the backend likes.
void productLayouts(const Op &op, OperandLayouts &layouts);
void convolutionLayouts(const Op &op, OperandLayouts &layouts);
void dataGradientLayouts(const Op &op, OperandLayouts &layouts);
void weightGradientLayouts(const Op &op, OperandLayouts &layouts);
// Trip count, conditions and collected values are plain.
void loopLayouts(const Op &op, OperandLayouts &layouts);
// The condition and the results are plain.
void branchLayouts(const Op &, OperandLayouts &layouts);

}  // namespace popart::ops
