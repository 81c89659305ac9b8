// How ops fall into pieces along an axis (popart/opdef.hpp, Pieces): the rules that rows share, and the question passes
// ask.
#pragma once
#include <algorithm>
#include <optional>

#include <popart/op.hpp>

namespace popart::ops {

// How the op falls into `count` pieces when its input `cut` does along `axis`; none where it does not, or where an axis
// is no multiple of the count. Element-wise ops, views and identities need no rule of their own. Random ops that draw
// (their numbers belong to places), ops with effects or in place, calls and user ops never do. Shapes are known.
std::optional<Pieces> piecesOf(const Op &op, InIndex cut, int axis, int64_t count);

// Whether every element of the results follows from the elements of the operands at its place and from single numbers.
bool worksByElement(const Op &op);

// ---- rules of rows (OpDef::pieces)

// Operands broadcast against each other, axes counted from the last one: those that have the axis in its size are cut.
// A result that is summed over the axis does not fall apart.
bool alignedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// The same elements in the same order: an axis of the result starts where the input's does and is cut in as many
// blocks.
bool viewPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Samples along axis 0 of the first `kInputs` inputs and of all results; other inputs are parameters.
template <int kInputs>
bool samplePieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (axis != 0 || cut >= kInputs) return false;
  for (int i = 0; i < kInputs && i < op.inputCount(); ++i) pieces.in[static_cast<size_t>(i)] = 0;
  std::fill(pieces.out.begin(), pieces.out.end(), 0);
  return true;
}
// An axis of input 0 that the result has at the same place and in the same size.
bool keptAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Attribute "axis" names the one axis that the op works along; operands of the same rank are cut along any other one.
bool otherAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Attribute "axis" names the first of the axes that the op works along; parameters broadcast.
bool leadingPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Reductions of input 0 over "axes" or "axis", and their gradients.
bool reductionPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
bool reductionGradientPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);

}  // namespace popart::ops
