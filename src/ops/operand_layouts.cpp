// See operand_layouts.hpp.
#include "ops/operand_layouts.hpp"

#include <algorithm>

#include <popart/graph.hpp>

namespace popart::ops {
namespace {

void setOfResultShape(const Op &op, OperandLayouts &layouts, size_t firstInput, OperandLayout layout) {
  const Shape &shape = op.outShape(0);
  for (size_t i = firstInput; i < layouts.in.size(); ++i)
    if (const int n = static_cast<int>(i); op.hasInput(n) && op.inShape(n) == shape) layouts.in[i] = layout;
  for (size_t i = 0; i < layouts.out.size(); ++i)
    if (const int n = static_cast<int>(i); op.hasOutput(n) && op.outShape(n) == shape) layouts.out[i] = layout;
}

// With one channel or one position, the order of dimensions makes no difference.
bool isOnePerChannel(const Shape &s) {
  return s.size() < 3 || elementCount(s) == 0 || s[1] == 1 || elementCount(s) == s[0] * s[1];
}

}  // namespace

OperandLayouts operandLayouts(const Op &op) {
  OperandLayouts layouts{std::vector<OperandLayout>(op.inputs().size(), OperandLayout::Plain),
                         std::vector<OperandLayout>(op.outputs().size(), OperandLayout::Plain)};
  if (op.isUserOp()) return layouts;
  if (const LayoutFn rule = op.def().layoutRule())
    rule(op, layouts);
  else if (op.has(Trait::Elementwise) && !op.has(Trait::Random) && !op.has(Trait::SideEffect) && op.hasOutput(0))
    uniformIfResultShape(op, layouts);
  return layouts;
}

void uniformIfResultShape(const Op &op, OperandLayouts &layouts) {
  setOfResultShape(op, layouts, 0, OperandLayout::Uniform);
}

void allUniform(const Op &, OperandLayouts &layouts) {
  std::fill(layouts.in.begin(), layouts.in.end(), OperandLayout::Uniform);
  std::fill(layouts.out.begin(), layouts.out.end(), OperandLayout::Uniform);
}

void joinedChannels(const Op &op, OperandLayouts &layouts) {
  const int64_t rank = op.outRank(0), axis = op.attrInt("axis");
  if (axis == 1 || axis == 1 - rank) channelsOfAll(op, layouts);
}

void channelsOfAll(const Op &op, OperandLayouts &layouts) {
  if (op.outRank(0) < 3) return;
  std::fill(layouts.in.begin(), layouts.in.end(), OperandLayout::Channels);
  layouts.out[0] = OperandLayout::Channels;
}

void pieceOfChannels(const Op &op, OperandLayouts &layouts) {
  if (op.outRank(0) >= 3) sameChannels<1>(op, layouts);
}

void reducedChannels(const Op &op, OperandLayouts &layouts) {
  if (op.inRank(0) >= 3 && isOnePerChannel(op.outShape(0))) layouts.in[0] = OperandLayout::Channels;
}

void spreadChannels(const Op &op, OperandLayouts &layouts) {
  if (op.inInfo(0).nelms() == 1)
    layouts.out[0] = OperandLayout::Uniform;  // all elements are equal
  else if (op.outRank(0) >= 3 && isOnePerChannel(op.inShape(0)))
    layouts.out[0] = OperandLayout::Channels;
}

void productLayouts(const Op &op, OperandLayouts &layouts) {
  layouts.in[1] = OperandLayout::Chosen;
  if (!op.has(Trait::Internal)) return;
  // A weight gradient, Aᵀ·B, may have the layout of the parameters and optimizer state that its epilogue uses, if they
  // are full matrices and single elements: none is broadcast along rows or columns.
  bool isGradient = op.attrInt("trans_a") != 0 && op.attrInt("trans_b") == 0;
  for (int i = 2; i < op.inputCount(); ++i) isGradient &= op.inShape(i) == op.outShape(0) || op.inInfo(i).nelms() == 1;
  if (!isGradient) return;
  setOfResultShape(op, layouts, 2, OperandLayout::Uniform);
  std::fill(layouts.out.begin(), layouts.out.end(), OperandLayout::Uniform);
}

void convolutionLayouts(const Op &op, OperandLayouts &layouts) {
  layouts.in[0] = layouts.in[1] = OperandLayout::Chosen;
  setOfResultShape(op, layouts, 3, OperandLayout::Chosen);
  for (size_t i =
           layouts.in.size() - (op.hasAttr("prologue") ? static_cast<size_t>(op.attrInt("prologue_operands")) : 0);
       i < layouts.in.size(); ++i)
    layouts.in[i] = op.inShape(static_cast<int>(i)) == op.inShape(0) ? OperandLayout::Chosen : OperandLayout::Plain;
  std::fill(layouts.out.begin(), layouts.out.end(), OperandLayout::Chosen);
  if (op.hasAttr("means_of")) layouts.out.back() = OperandLayout::Plain;
}

void dataGradientLayouts(const Op &op, OperandLayouts &layouts) {
  layouts.in[0] = OperandLayout::Chosen;
  layouts.in[1] = OperandLayout::ChosenLast;
  setOfResultShape(op, layouts, 2, OperandLayout::Chosen);
  std::fill(layouts.out.begin(), layouts.out.end(), OperandLayout::Chosen);
}

void weightGradientLayouts(const Op &op, OperandLayouts &layouts) {
  layouts.in[0] = layouts.in[1] = OperandLayout::Chosen;
  setOfResultShape(op, layouts, 2, OperandLayout::Chosen);
  std::fill(layouts.out.begin(), layouts.out.end(), OperandLayout::Chosen);
}

void loopLayouts(const Op &op, OperandLayouts &layouts) {
  const int carries = op.inputCount() - 2;
  for (int i = 0; i < carries; ++i) {
    layouts.in[static_cast<size_t>(i) + 2] = OperandLayout::Passed;
    if (i < op.outputCount()) layouts.out[static_cast<size_t>(i)] = OperandLayout::Passed;
  }
}

void branchLayouts(const Op &, OperandLayouts &layouts) {
  std::fill(layouts.in.begin() + 1, layouts.in.end(), OperandLayout::Passed);
}

}  // namespace popart::ops
