// Operators whose output has the elements of the input in the same memory order: Reshape, Squeeze, Unsqueeze, Identity,
// Detach, Nop.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

OpDef viewRow(const char *domain, const char *type, std::vector<OpVersion> versions) {
  return OpDef(domain, type, std::move(versions))
      .input("x", kStoredTypes)
      .output("y")
      .traits(Trait::View)
      .view(reshapeBack)
      .identityIf(always);
}

// The axes of size 1 that `large` has in addition to those of `small`; fails if there are none.
std::vector<int64_t> axesOfOnes(const InferContext &c, const Shape &large, const Shape &small) {
  std::vector<int64_t> axes;
  size_t next = 0;
  for (size_t i = 0; i < large.size(); ++i) {
    if (next < small.size() && large[i] == small[next])
      ++next;
    else if (large[i] == 1)
      axes.push_back(static_cast<int64_t>(i));
    else
      break;
  }
  c.require(next + axes.size() == large.size() && next == small.size(),
            "gradient and fwd_shape differ by more than dimensions of 1: got {} and {}", c.shape(0),
            c.attrInts("fwd_shape"));
  return axes;
}

void inferReshapeGradient(InferContext &c, const std::string &forward) {
  const TensorInfo dx = forwardInfo(c);
  Attributes more;
  if (forward == "Reshape") more = {{"shape", c.shape(0)}, {"allowzero", int64_t{1}}};
  if (forward == "Squeeze") more.set("axes", axesOfOnes(c, dx.shape(), c.shape(0)));
  if (forward == "Unsqueeze") more.set("axes", axesOfOnes(c, c.shape(0), dx.shape()));
  inferGradientOf(c, forward, {dx}, more);
}

// A gradient row with only the attribute fwd_shape: reshapes the incoming gradient.
OpDef reshapeGradientRow(const std::string &forward) {
  return OpDef("ai.graphcore", forward + "Grad", {1})
      .input("grad", kNumeric)
      .output("dx")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .infer([forward](InferContext &c) { inferReshapeGradient(c, forward); })
      .traits(Trait::View | Trait::Gradient)
      .notOnnx()
      .identityIf(always)
      .decompose([](DecomposeBuilder &b) {
        b.result(0, b.emit("Reshape", {b.in(0)}, {{"shape", b.outInfo(0).shape()}, {"allowzero", int64_t{1}}}));
      })
      .doc("Gradient of a change of shape.");
}

VjpFn reshapeGradient(const char *gradient) {
  return [gradient](VjpBuilder &b) {
    b.grad(0, b.emit(gradient, {b.gradOut(0)}, {{"fwd_shape", b.inInfo(0).shape()}}));
  };
}

// 0 copies the input's dimension (unless allowzero), and one -1 is computed from the others.
void inferReshape(InferContext &c) {
  const Shape &from = c.shape(0);
  Shape to = c.attrInts("shape");
  const bool allowZero = c.attrInt("allowzero") != 0;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !allowZero) {
      c.require(i < from.size(),
                "dimension {} of the new shape is 0 (copy), but the input has no such dimension: got {} and {}", i,
                from, to);
      to[i] = from[i];
    }
    if (to[i] == -1) {
      c.require(open < 0, "the new shape has more than one -1: got {}, expected at most one", to);
      open = static_cast<int64_t>(i);
      continue;
    }
    c.require(to[i] >= 0, "the new shape has a negative dimension: got {}, expected sizes, 0 or one -1", to);
    c.require(to[i] == 0 || known <= kMostElements / to[i], "the new shape is too large: got {}, expected {} elements",
              to, c.in(0).nelms());
    known *= to[i];
  }
  if (open >= 0) {
    c.require(known > 0 && c.in(0).nelms() % known == 0,
              "the -1 of the new shape cannot be filled: got {} for input {}, expected a divisor of {} elements", to,
              from, c.in(0).nelms());
    to[open] = c.in(0).nelms() / known;
  }
  c.require(elementCount(to) == c.in(0).nelms(), "element counts differ: got {} for input {}, expected {} elements", to,
            from, c.in(0).nelms());
  c.out(0, c.type(0), to);
}

void inferSqueeze(InferContext &c) {
  const Shape &from = c.shape(0);
  Shape to;
  if (!c.hasAttr("axes")) {
    std::copy_if(from.begin(), from.end(), std::back_inserter(to), [](int64_t d) { return d != 1; });
  } else {
    const std::vector<int64_t> axes = reductionAxes(c);
    for (int64_t axis : axes)
      c.require(from[axis] == 1, "axis {} has more than one element: got {}, expected size 1", axis, from);
    to = reducedShape(from, axes, false);
  }
  c.out(0, c.type(0), to);
}

void inferUnsqueeze(InferContext &c) {
  const std::vector<int64_t> &given = c.attrInts("axes");
  const int64_t rank = c.in(0).rank() + static_cast<int64_t>(given.size());
  std::vector<bool> isNew(rank, false);
  for (int64_t axis : given) {
    c.require(axis >= -rank && axis < rank, "an axis is out of range: got {}, expected a value in [{}, {}]", axis,
              -rank, rank - 1);
    const int64_t at = axis < 0 ? axis + rank : axis;
    c.require(!isNew[at], "an axis is repeated: got {}, expected each axis once", given);
    isNew[at] = true;
  }
  Shape to;
  auto next = c.shape(0).begin();
  for (int64_t i = 0; i < rank; ++i) to.push_back(isNew[i] ? 1 : *next++);
  c.out(0, c.type(0), to);
}

}  // namespace

OpDefs viewOps() {
  return {
      viewRow("ai.onnx", "Reshape", {5, 13, 14, 19, 21, 23, 24, 25})
          .attrRequired("shape", AttributeType::Ints)
          .attr("allowzero", int64_t{0})
          .constInput(1, "shape", 5)
          .infer(inferReshape)
          .inplace("ReshapeInplace", 10)
          .onnx("ai.graphcore", "Reshape", {1})
          .vjp(reshapeGradient("ReshapeGrad"))
          .doc("A new shape for the same elements; 0 copies a dimension (unless allowzero), one -1 is inferred."),
      reshapeGradientRow("Reshape"),
      viewRow("ai.onnx", "Squeeze", {1, 11, 13, 21, 23, 24, 25})
          .attrOptional("axes", AttributeType::Ints)
          .constInput(1, "axes", 13)
          .infer(inferSqueeze)
          .inplace("SqueezeInplace", 10)
          .pieces([](const Op &op, InIndex cut, int axis, Pieces &pieces) {
            // Without axes, an axis cut to size 1 would be removed.
            const bool stays = op.hasAttr("axes") || op.inShape(0)[static_cast<size_t>(axis)] > pieces.count;
            return stays && viewPieces(op, cut, axis, pieces);
          })
          .vjp(reshapeGradient("SqueezeGrad"))
          .doc("Removes the given axes, or all of size 1."),
      reshapeGradientRow("Squeeze"),
      viewRow("ai.onnx", "Unsqueeze", {1, 11, 13, 21, 23, 24, 25})
          .attrRequired("axes", AttributeType::Ints)
          .constInput(1, "axes", 13)
          .infer(inferUnsqueeze)
          .inplace("UnsqueezeInplace", 10)
          .vjp(reshapeGradient("UnsqueezeGrad"))
          .doc("Inserts axes of size 1 at the given positions of the result."),
      reshapeGradientRow("Unsqueeze"),
      viewRow("ai.onnx", "Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25})
          .inplace("IdentityInplace", 10)
          .vjp([](VjpBuilder &b) { b.grad(0, b.emit("IdentityGrad", {b.gradOut(0)})); })
          .doc("The input."),
      viewRow("ai.graphcore", "IdentityGrad", {1})
          .traits(Trait::Gradient)
          .vjp([](VjpBuilder &b) { b.grad(0, b.emit("Identity", {b.gradOut(0)})); })
          .notOnnx()
          .doc("Gradient of Identity."),
      OpDef("popart", "StraightThrough", {1})
          .input("x", kFloats)
          .input("value", kFloats)
          .output("y")
          .infer([](InferContext &c) {
            c.require(c.in(0) == c.in(1), "x and value must have one type and shape: got {} and {}", c.in(0), c.in(1));
            c.out(0, c.in(0));
          })
          .notOnnx()
          .vjp([](VjpBuilder &b) {
            if (b.wants(0)) b.grad(0, b.gradOut(0));
          })
          .decompose([](DecomposeBuilder &b) { b.result(0, b.in(1)); })
          .doc("value; the gradient passes to x unchanged, and none to value (straight-through estimator)."),
      viewRow("ai.graphcore", "Detach", {1})
          .inplace("DetachInplace", 10)
          .traits(Trait::NeverFolded)
          .stopsGrad()
          .doc("The input; gradients stop here."),
      viewRow("ai.graphcore", "Nop", {1})
          .traits(Trait::NeverFolded)
          .stopsGrad()
          .doc("The input; the op is never optimised away."),
  };
}

}  // namespace popart::ops
