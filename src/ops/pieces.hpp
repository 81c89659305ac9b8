// How ops can be divided into pieces along an axis (popart/opdef.hpp, Pieces): the rules that rows share, and the query
// for passes.
#pragma once
#include <algorithm>
#include <optional>

#include <popart/op.hpp>

namespace popart::ops {

// How the op divides into `count` pieces if its input `cut` is divided along `axis`. Empty if it does not, or if the
// size of an axis is no multiple of the count. Element-wise ops, views and identities need no separate rule. Some ops
// never divide: random ops that draw numbers (which belong to positions), ops with effects or in place, calls and user
// ops. Shapes must be known.
std::optional<Pieces> piecesOf(const Op &op, InIndex cut, int axis, int64_t count);

// Whether every element of the results depends only on the elements of the operands at its position and on single
// numbers.
bool worksByElement(const Op &op);

// ---- rules of rows (OpDef::pieces)

// Operands are broadcast against each other, with axes counted from the last one: operands that have the axis in its
// size are cut. A result that is summed over the axis does not divide.
bool alignedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// The same elements in the same order: an axis of the result starts where the input's axis starts and is cut into the
// same number of blocks.
bool viewPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Samples along axis 0 of the first `kInputs` inputs and of all results; other inputs are parameters.
template <int kInputs>
bool samplePieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (axis != 0 || cut >= kInputs) return false;
  for (int i = 0; i < kInputs && i < op.inputCount(); ++i) pieces.in[static_cast<size_t>(i)] = 0;
  std::fill(pieces.out.begin(), pieces.out.end(), 0);
  return true;
}
// An axis of input 0 that the result has at the same position and in the same size.
bool keptAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Attribute "axis" names the one axis along which the op works; operands of the same rank are cut along any other axis.
bool otherAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Attribute "axis" names the first of the axes along which the op works; parameters broadcast.
bool leadingPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
// Reductions of input 0 over "axes" or "axis", and their gradients.
bool reductionPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);
bool reductionGradientPieces(const Op &op, InIndex cut, int axis, Pieces &pieces);

}  // namespace popart::ops
