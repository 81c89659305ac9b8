// Expand, Tile and Pad: results with repeated elements or fill values, and their gradients, which sum.
#include <algorithm>
#include <cstring>

#include <popart/op.hpp>

#include "base/element_types.hpp"
#include "base/small_types.hpp"
#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"
#include "ops/shape/pad_index.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

void addExpand(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "Expand", {8, 13})
                     .precision(Precision::Follows)
                     .role(Role::Expand)
                     .input("input", kStoredTypes)
                     .output("output")
                     .attrRequired("shape", AttributeType::Ints)
                     .constInput(1, "shape", 8)
                     .infer([](InferContext &c) {
                       const Shape &shape = c.attrInts("shape");
                       for (int64_t d : shape)
                         c.require(d >= 0, "the shape has a negative dimension: got {}, expected sizes", shape);
                       c.require(npBroadcastable(c.shape(0), shape),
                                 "shapes do not broadcast: got {} and {}, expected equal dimensions or 1", c.shape(0),
                                 shape);
                       c.out(0, c.type(0), npOut(c.shape(0), shape));
                     })
                     .layouts(spreadChannels)
                     .pieces(alignedPieces)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("ExpandGrad", {b.gradOut(0)}, {{"fwd_shape", b.inInfo(0).shape()}}));
                     })
                     .identityIf(always)
                     .cost(movesData())
                     .doc("The input broadcast to a shape."));
  rows.push_back(
      OpDef("ai.graphcore", "ExpandGrad", {1})
          .input("grad", kNumeric)
          .output("dx")
          .attrRequired("fwd_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            inferGradientOf(c, "Expand", {forwardInfo(c)}, {{"shape", c.shape(0)}});
          })
          .traits(Trait::Gradient)
          .pieces(alignedPieces)
          .notOnnx()
          .decompose([](DecomposeBuilder &b) { b.result(0, emitReduceSumTo(b, b.in(0), b.outInfo(0).shape())); })
          .doc("Gradient of Expand: sums over the copies."));
}

void addTile(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "Tile", {1, 6, 13})
                     .precision(Precision::Follows)
                     .input("input", kStoredTypes)
                     .output("output")
                     .attrRequired("repeats", AttributeType::Ints)
                     .constInput(1, "repeats", 6)
                     .identityIf(always)
                     .cost(movesData())
                     .infer([](InferContext &c) {
                       const Ints &repeats = c.attrInts("repeats");
                       Shape shape = c.shape(0);
                       c.require(repeats.size() == shape.size(),
                                 "there are not as many repeats as axes: got {} for input {}", repeats, shape);
                       for (size_t i = 0; i < shape.size(); ++i) {
                         c.require(repeats[i] >= 0, "a repeat is negative: got {}, expected 0 or more", repeats);
                         c.require(shape[i] == 0 || repeats[i] <= kMostElements / shape[i],
                                   "the result is too large: got {} for input {}", repeats, c.shape(0));
                         shape[i] *= repeats[i];
                       }
                       c.out(0, c.type(0), shape);
                     })
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("TileGrad", {b.gradOut(0)},
                                        {{"repeats", b.attrs().getAttribute<Ints>("repeats")},
                                         {"fwd_shape", b.inInfo(0).shape()}}));
                     })
                     .pieces(keptAxisPieces)
                     .doc("The input repeated along each axis."));
  rows.push_back(OpDef("ai.graphcore", "TileGrad", {1})
                     .input("grad", kNumeric)
                     .output("dx")
                     .attrRequired("repeats", AttributeType::Ints)
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) { inferGradientOf(c, "Tile", {forwardInfo(c)}); })
                     .traits(Trait::Gradient)
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) {
                       const Ints repeats = b.attrs().getAttribute<Ints>("repeats");
                       const Shape &shape = b.outInfo(0).shape();
                       Shape split;
                       Ints axes;
                       for (size_t i = 0; i < shape.size(); ++i) {
                         axes.push_back(static_cast<int64_t>(split.size()));
                         split.push_back(repeats[i]);
                         split.push_back(shape[i]);
                       }
                       TensorIndex blocks = b.emit("Reshape", {b.in(0)}, {{"shape", split}, {"allowzero", int64_t{1}}});
                       b.result(0, b.emit("ReduceSum", {blocks}, {{"axes", axes}, {"keepdims", int64_t{0}}}));
                     })
                     .pieces(keptAxisPieces)
                     .doc("Gradient of Tile: sums over the repeats."));
}

void inferPad(InferContext &c) {
  const std::string &mode = c.attrString("mode");
  c.require(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap",
            "unknown mode: got '{}', expected constant, reflect, edge or wrap", mode);
  Ints pads;
  try {
    pads = fullPads(c.attrs(), c.in(0).rank());
  } catch (const error &e) {
    c.fail("{}", e.what());
  }
  Shape shape = c.shape(0);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t size = shape[i], before = pads[i], after = pads[shape.size() + i];
    c.require(std::min(before, after) >= -kMostElements && std::max(before, after) <= kMostElements,
              "axis {} is padded by too much: got pads {}, expected at most {}", i, pads, kMostElements);
    shape[i] = size + before + after;
    c.require(shape[i] >= 0, "axis {} gets a negative size: got pads {} for input {}, expected a size of 0 or more", i,
              pads, c.shape(0));
    c.require(mode == "constant" || size > 0 || shape[i] == 0,
              "axis {} has no elements to pad with: got input {}, expected at least one", i, c.shape(0));
  }
  c.out(0, c.type(0), shape);
}

void emitPadGradient(VjpBuilder &b) {
  b.grad(0, b.emit("PadGrad", {b.gradOut(0)},
                   {{"pads", fullPads(b.attrs(), b.inInfo(0).rank())},
                    {"mode", b.attrs().getAttribute<std::string>("mode")},
                    {"fwd_shape", b.inInfo(0).shape()}}));
}

// Mode constant: removes the padding (negative pads). Other modes: along each axis, adds each element to the position
// that it was copied from.
void decomposePadGradient(DecomposeBuilder &b) {
  Ints pads = b.attrs().getAttribute<Ints>("pads");
  const std::string mode = b.attrs().getAttribute<std::string>("mode");
  if (mode == "constant") {
    for (int64_t &p : pads) p = -p;
    return b.result(0, b.emit("Pad", {b.in(0)}, {{"pads", pads}}));
  }
  const Shape &shape = b.outInfo(0).shape();
  TensorIndex t = b.in(0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t before = pads[axis], after = pads[shape.size() + axis];
    if (before == 0 && after == 0) continue;
    const Ints indices = padIndices(mode, shape[axis], before, after);
    Shape partial = b.info(t).shape();
    partial[axis] = shape[axis];
    TensorIndex positions = b.constant(TensorData::of<int64_t>({static_cast<int64_t>(indices.size())}, indices));
    t = b.emit("GatherGrad", {t, positions}, {{"axis", static_cast<int64_t>(axis)}, {"fwd_shape", partial}});
  }
  b.result(0, t == b.in(0) ? b.emit("Identity", {t}) : t);
}

bool unpaddedPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const Ints pads = fullPads(op.attributes(), op.inRank(0));
  return pads[static_cast<size_t>(axis)] == 0 && keptAxisPieces(op, cut, axis, pieces);
}

void addPad(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25})
                     .precision(Precision::Follows)
                     .input("data", kStoredTypes)
                     .output("output")
                     .attrRequired("pads", AttributeType::Ints)
                     .attr("mode", std::string("constant"))
                     .attr("value", 0.0f)
                     .attrOptional("axes", AttributeType::Ints)
                     .constInput(1, "pads", 11)
                     .constInput(2, "value", 11)
                     .constInput(3, "axes", 18)
                     .infer(inferPad)
                     .vjp(emitPadGradient)
                     .identityIf([](const Op &op) {
                       const Ints &pads = op.attrInts("pads");
                       return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
                     })
                     .cost(movesData())
                     .pieces(unpaddedPieces)
                     .doc("Adds elements before and after each axis (negative pads remove some): a value, or elements "
                          "of the input reflected, at the edge, or wrapped around."));
  rows.push_back(OpDef("ai.graphcore", "PadGrad", {1})
                     .input("grad", kNumeric)
                     .output("dx")
                     .attrRequired("pads", AttributeType::Ints)
                     .attrRequired("mode", AttributeType::String)
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) { inferGradientOf(c, "Pad", {forwardInfo(c)}); })
                     .traits(Trait::Gradient)
                     .notOnnx()
                     .decompose(decomposePadGradient)
                     .pieces(unpaddedPieces)
                     .doc("Gradient of Pad."));
}

}  // namespace

std::vector<int64_t> fullPads(const Attributes &attributes, int64_t rank) {
  const Ints &pads = attributes.getAttribute<Ints>("pads");
  if (!attributes.hasAttribute("axes")) {
    check(static_cast<int64_t>(pads.size()) == 2 * rank,
          "pads has the wrong length: got {}, expected {} numbers (before each axis, then after each)", pads, 2 * rank);
    return pads;
  }
  const Ints &axes = attributes.getAttribute<Ints>("axes");
  check(pads.size() == 2 * axes.size(), "pads has the wrong length: got {}, expected {} numbers for axes {}", pads,
        2 * axes.size(), axes);
  Ints full(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalizeAxis(axes[i], rank, "axes");
    full[axis] = pads[i];
    full[rank + axis] = pads[axes.size() + i];
  }
  return full;
}

std::vector<int64_t> padIndices(const std::string &mode, int64_t size, int64_t before, int64_t after) {
  Ints indices;
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t at = i;
    if (mode == "constant") {
      at = i >= 0 && i < size ? i : -1;
    } else if (mode == "edge") {
      at = std::clamp<int64_t>(i, 0, size - 1);
    } else if (mode == "wrap") {
      at = ((i % size) + size) % size;
    } else if (size == 1) {
      at = 0;
    } else {
      const int64_t period = 2 * (size - 1);
      at = ((i % period) + period) % period;
      at = at < size ? at : period - at;
    }
    indices.push_back(at);
  }
  return indices;
}

std::array<char, 16> padFill(DataType type, float value) {
  std::array<char, 16> bytes{};
  const auto put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof element); };
  const auto number = static_cast<double>(value);
  if (const SmallFormat *format = smallFormat(type))
    put(smallCode(*format, number));
  else if (type == DataType::COMPLEX64)
    put(value);
  else if (type == DataType::COMPLEX128)
    put(number);
  else
    forElement(kRealElements, type, [&](auto zero) { put(toElement<decltype(zero)>(number)); });
  return bytes;
}

OpDefs expandOps() {
  OpDefs rows;
  addExpand(rows);
  addTile(rows);
  addPad(rows);
  return rows;
}

}  // namespace popart::ops
