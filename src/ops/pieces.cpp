// See pieces.hpp.
#include "ops/pieces.hpp"

#include <algorithm>

#include <popart/graph.hpp>

#include "ops/rules.hpp"

namespace popart::ops {
namespace {

bool contains(const std::vector<int64_t> &axes, int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); }

// Whether the count divides the size of the axis, which all operands that are cut must have.
bool divides(const Op &op, const Pieces &pieces) {
  const auto fits = [&](const Shape &shape, int axis) {
    return axis >= 0 && axis < static_cast<int>(shape.size()) && shape[static_cast<size_t>(axis)] % pieces.count == 0;
  };
  for (size_t i = 0; i < pieces.in.size(); ++i)
    if (pieces.in[i] != Pieces::kWhole && op.hasInput(static_cast<int>(i)) &&
        !fits(op.inShape(static_cast<int>(i)), pieces.in[i]))
      return false;
  for (size_t i = 0; i < pieces.out.size(); ++i)
    if (op.hasOutput(static_cast<int>(i)) && !fits(op.outShape(static_cast<int>(i)), pieces.out[i])) return false;
  return true;
}

// For rows that state the shape of result 0.
void addSizes(const Op &op, Pieces &pieces) {
  const int rank = op.outRank(0);
  for (const char *name : {"fwd_shape", "shape"}) {
    if (!op.hasAttr(name)) continue;
    const int from = rank - static_cast<int>(op.attrInts(name).size());
    if (pieces.out[0] >= from) pieces.sizes.emplace_back(name, pieces.out[0] - from);
  }
}

bool neverFallsApart(const Op &op) {
  if (op.isUserOp() || op.def().isInplaceVariant() || op.has(Trait::Call) || op.has(Trait::HostIo)) return true;
  if (op.hasSideEffect() || (op.requiresRandomSeed() && !op.isIdentity()) || !op.hasOutput(0)) return true;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i) && op.modifiesInput(i)) return true;
  return false;
}

// The result is input 0; the other inputs do not matter.
bool identityPieces(const Op &, InIndex cut, int axis, Pieces &pieces) {
  if (cut != 0) return false;
  pieces.in[0] = axis;
  std::ranges::fill(pieces.out, axis);
  return true;
}

PiecesFn ruleOf(const Op &op) {
  return op.def().piecesRule()        ? op.def().piecesRule()
         : op.has(Trait::View)        ? viewPieces
         : op.has(Trait::Elementwise) ? alignedPieces
         : op.isIdentity()            ? identityPieces
                                      : nullptr;
}

}  // namespace

bool worksByElement(const Op &op) {
  if (op.isUserOp() || op.hasSideEffect() || op.requiresRandomSeed() || !op.hasOutput(0)) return false;
  if (ruleOf(op) != alignedPieces) return false;
  const Shape &shape = op.outShape(0);
  for (OutIndex o = 1; o < op.outputCount(); ++o)
    if (op.hasOutput(o) && op.outShape(o) != shape) return false;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i) && op.inShape(i) != shape && op.inInfo(i).nelms() != 1) return false;
  return true;
}

std::optional<Pieces> piecesOf(const Op &op, InIndex cut, int axis, int64_t count) {
  if (neverFallsApart(op)) return std::nullopt;
  const PiecesFn rule = ruleOf(op);
  if (!rule) return std::nullopt;
  Pieces pieces;
  pieces.count = count;
  pieces.in.assign(op.inputs().size(), Pieces::kWhole);
  pieces.out.assign(op.outputs().size(), Pieces::kWhole);
  if (!rule(op, cut, axis, pieces) || pieces.in[static_cast<size_t>(cut)] != axis || !divides(op, pieces))
    return std::nullopt;
  addSizes(op, pieces);
  return pieces;
}

bool alignedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const int64_t size = op.inShape(cut)[static_cast<size_t>(axis)];
  const int fromEnd = op.inRank(cut) - axis;
  const auto axisOf = [&](const Shape &shape) {
    const int at = static_cast<int>(shape.size()) - fromEnd;
    return at >= 0 && shape[static_cast<size_t>(at)] == size ? at : Pieces::kWhole;
  };
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i)) pieces.in[static_cast<size_t>(i)] = axisOf(op.inShape(i));
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) pieces.out[static_cast<size_t>(o)] = axisOf(op.outShape(o));
  return true;
}

bool viewPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Shape &from = op.inShape(0), &to = op.outShape(0);
  const auto before = [](const Shape &shape, int end) {
    return elementCount(Shape(shape.begin(), shape.begin() + end));
  };
  const int64_t start = before(from, axis);
  for (int at = 0; at < static_cast<int>(to.size()); ++at) {
    if (to[static_cast<size_t>(at)] % pieces.count != 0 || before(to, at) != start) continue;
    pieces.in[static_cast<size_t>(cut)] = axis;
    pieces.out[0] = at;
    return true;
  }
  return false;
}

bool keptAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Shape &from = op.inShape(0), &to = op.outShape(0);
  if (cut != 0 || from.size() != to.size() || from[static_cast<size_t>(axis)] != to[static_cast<size_t>(axis)])
    return false;
  pieces.in[0] = pieces.out[0] = axis;
  return true;
}

bool otherAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const int rank = op.inRank(cut);
  if (axis == axisOf(op.attributes(), rank)) return false;
  const int64_t size = op.inShape(cut)[static_cast<size_t>(axis)];
  const auto fits = [&](const Shape &shape) {
    return static_cast<int>(shape.size()) == rank && shape[static_cast<size_t>(axis)] == size;
  };
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i) && !fits(op.inShape(i))) return false;
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o) && !fits(op.outShape(o))) return false;
  std::ranges::fill(pieces.in, axis);
  std::ranges::fill(pieces.out, axis);
  return true;
}

bool leadingPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  if (op.inRank(cut) != op.outRank(0) || axis >= axisOf(op.attributes(), op.outRank(0))) return false;
  return alignedPieces(op, cut, axis, pieces);
}

namespace {

std::vector<int64_t> reducedAxes(const Op &op, int64_t rank) {
  if (!op.hasAttr("axis")) return reductionAxes(op.attributes(), rank);
  return {axisOf(op.attributes(), rank)};
}

// The position of an axis of a tensor after the reduction over others.
int axisAfterReduction(const std::vector<int64_t> &axes, int axis, bool keepsAxes) {
  return keepsAxes ? axis : axis - static_cast<int>(std::ranges::count_if(axes, [&](int64_t a) { return a < axis; }));
}

}  // namespace

bool reductionPieces(const Op &op, InIndex, int axis, Pieces &pieces) {
  const std::vector<int64_t> axes = reducedAxes(op, op.inRank(0));
  if (contains(axes, axis)) return false;
  pieces.in[0] = axis;
  std::ranges::fill(pieces.out, axisAfterReduction(axes, axis, op.outRank(0) == op.inRank(0)));
  return true;
}

bool reductionGradientPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const std::vector<int64_t> axes = reducedAxes(op, op.outRank(0));
  const bool keepsAxes = op.inRank(0) == op.outRank(0);
  int whole = axis;
  if (!keepsAxes && op.inShape(cut) != op.outShape(0))
    for (int at = 0; at < op.outRank(0); ++at)
      if (!contains(axes, at) && axisAfterReduction(axes, at, false) == axis) whole = at;
  if (contains(axes, whole)) return false;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i))
      pieces.in[static_cast<size_t>(i)] =
          op.inRank(i) == op.outRank(0) ? whole : axisAfterReduction(axes, whole, false);
  pieces.out[0] = whole;
  return true;
}

}  // namespace popart::ops
