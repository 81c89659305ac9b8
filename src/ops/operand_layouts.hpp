// Which layouts the operands of ops may have in memory: the rules that rows share, and the query for passes.
#pragma once
#include <popart/op.hpp>

namespace popart::ops {

// The layout that the op requires for each operand, connected or not. Without a rule, an element-wise op takes operands
// of the result's shape in any one layout, and all other operands are Plain. Shapes must be known.
OperandLayouts operandLayouts(const Op &op);

// ---- rules of rows (OpDef::layouts)

// Operands of the result's shape have the same layout.
void uniformIfResultShape(const Op &op, OperandLayouts &layouts);
// All operands have the same layout.
void allUniform(const Op &op, OperandLayouts &layouts);
// (N, C, spatial…): the first `kInputs` inputs and output 0 have the same layout of channels; all others are vectors.
template <int kInputs>
void sameChannels(const Op &, OperandLayouts &layouts) {
  for (size_t i = 0; i < kInputs && i < layouts.in.size(); ++i) layouts.in[i] = OperandLayout::Channels;
  layouts.out[0] = OperandLayout::Channels;
}
// For concatenation along channels, for any selection of channels of several tensors, and for a piece of a spatial
// tensor.
void joinedChannels(const Op &op, OperandLayouts &layouts);
void channelsOfAll(const Op &op, OperandLayouts &layouts);
void pieceOfChannels(const Op &op, OperandLayouts &layouts);
// A spatial tensor as input, and one value per channel (or no channels at all) as result; or the reverse.
void reducedChannels(const Op &op, OperandLayouts &layouts);
void spreadChannels(const Op &op, OperandLayouts &layouts);  // or one number, in any layout
// Products and convolutions, their gradients and fused forms: the backend chooses the layouts of weights and
// activations.
void productLayouts(const Op &op, OperandLayouts &layouts);
void convolutionLayouts(const Op &op, OperandLayouts &layouts);
void dataGradientLayouts(const Op &op, OperandLayouts &layouts);
void weightGradientLayouts(const Op &op, OperandLayouts &layouts);
// Trip count, conditions and collected values are plain.
void loopLayouts(const Op &op, OperandLayouts &layouts);
// The condition and the results are plain.
void branchLayouts(const Op &, OperandLayouts &layouts);

}  // namespace popart::ops
