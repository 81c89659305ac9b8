// Transpose, and the block rearrangements DepthToSpace and SpaceToDepth, which are Reshape, Transpose, Reshape.
#include <algorithm>
#include <numeric>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::ops {
namespace {

std::vector<int64_t> permutation(const Attributes &attributes, int64_t rank) {
  std::vector<int64_t> perm = attributes.getAttribute<std::vector<int64_t>>("perm", {});
  if (perm.empty()) {
    perm.resize(rank);
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  return perm;
}

void inferTranspose(InferContext &c) {
  const int64_t rank = c.in(0).rank();
  const std::vector<int64_t> perm = permutation(c.attrs(), rank);
  std::vector<int64_t> sorted = perm, expected(rank);
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  c.require(sorted == expected, "perm is not a permutation of the axes: got {}, expected each of 0 to {} once", perm,
            rank - 1);
  Shape to;
  for (int64_t axis : perm) to.push_back(c.shape(0)[axis]);
  c.out(0, c.type(0), to);
}

bool movedAxisPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const std::vector<int64_t> perm = permutation(op.attributes(), op.inRank(0));
  pieces.in[static_cast<size_t>(cut)] = axis;
  pieces.out[0] = static_cast<int>(std::ranges::find(perm, axis) - perm.begin());
  return true;
}

OpDef transposeRow(const char *domain, const char *type, std::vector<OpVersion> versions) {
  return OpDef(domain, type, std::move(versions))
      .input("data", kStoredTypes)
      .output("transposed")
      .attrOptional("perm", AttributeType::Ints)
      .infer(inferTranspose)
      .pieces(movedAxisPieces)
      .precision(Precision::Follows)
      .cost(movesData());
}

// One block rearrangement: reshape to `blocks`, transpose by `perm`, reshape to `result`.
struct BlockMove {
  Shape blocks;
  std::vector<int64_t> perm;
  Shape result;
  BlockMove inverted(const Shape &original) const {
    Shape moved;
    for (int64_t axis : perm) moved.push_back(blocks[axis]);
    return {moved, inversePermutation(perm), original};
  }
};

TensorIndex emitMove(OpEmitter &e, TensorIndex t, const BlockMove &move) {
  TensorIndex blocks = e.emit("Reshape", {t}, {{"shape", move.blocks}, {"allowzero", int64_t{1}}});
  TensorIndex moved = e.emit("Transpose", {blocks}, {{"perm", move.perm}});
  return e.emit("Reshape", {moved}, {{"shape", move.result}, {"allowzero", int64_t{1}}});
}

// (N, C, H, W) -> (N, C / b^2, H b, W b). DCR: channel = (block row, block column, depth); CRD: (depth, block row,
// block column).
BlockMove depthToSpace(const Shape &s, const Attributes &attributes) {
  const int64_t b = attributes.getAttribute<int64_t>("blocksize"), depth = s[1] / (b * b);
  const Shape result{s[0], depth, s[2] * b, s[3] * b};
  if (attributes.getAttribute<std::string>("mode") == "CRD")
    return {{s[0], depth, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, result};
  return {{s[0], b, b, depth, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, result};
}

// (N, C, H, W) -> (N, C b^2, H / b, W / b): the inverse of DepthToSpace in the same mode.
BlockMove spaceToDepth(const Shape &s, const Attributes &attributes) {
  const int64_t b = attributes.getAttribute<int64_t>("blocksize");
  const bool depthFirst = attributes.getAttribute<std::string>("mode") == "CRD";
  const std::vector<int64_t> perm =
      depthFirst ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4};
  return {{s[0], s[1], s[2] / b, b, s[3] / b, b}, perm, {s[0], s[1] * b * b, s[2] / b, s[3] / b}};
}

using MoveOf = BlockMove (*)(const Shape &, const Attributes &);

OpDef blockRow(const char *type, std::vector<OpVersion> versions, MoveOf moveOf, InferFn checks) {
  return OpDef("ai.onnx", type, std::move(versions))
      .input("input", kStoredTypes)
      .output("output")
      .attrRequired("blocksize", AttributeType::Int)
      .precision(Precision::Follows)
      .pieces(samplePieces<1>)
      .infer([checks, moveOf](InferContext &c) {
        c.require(c.in(0).rank() == 4, "the input is not of rank 4: got {}, expected (N, C, H, W)", c.shape(0));
        constexpr int64_t kLargest = int64_t{1} << 20;  // its square times a dimension stays below 2^63
        const int64_t b = c.attrInt("blocksize");
        c.require(b > 0 && b <= kLargest, "blocksize is out of range: got {}, expected 1 to {}", b, kLargest);
        for (int64_t d : c.shape(0))
          c.require(d <= (int64_t{1} << 62) / (b * b), "a dimension is too large: got {} for blocks of {}", c.shape(0),
                    b);
        checks(c);
        c.out(0, c.type(0), moveOf(c.shape(0), c.attrs()).result);
      })
      .decompose(
          [moveOf](DecomposeBuilder &b) { b.result(0, emitMove(b, b.in(0), moveOf(b.inInfo(0).shape(), b.attrs()))); })
      .vjp([moveOf](VjpBuilder &b) {
        const Shape &shape = b.inInfo(0).shape();
        b.grad(0, emitMove(b, b.gradOut(0), moveOf(shape, b.attrs()).inverted(shape)));
      });
}

void checkMode(InferContext &c) {
  const std::string &mode = c.attrString("mode");
  c.require(mode == "DCR" || mode == "CRD", "unknown mode: got '{}', expected DCR or CRD", mode);
}
void checkDepth(InferContext &c) {
  const int64_t b = c.attrInt("blocksize");
  checkMode(c);
  c.require(c.shape(0)[1] % (b * b) == 0, "channels do not split into blocks: got {}, expected a multiple of {}",
            c.shape(0)[1], b * b);
}
void checkSpace(InferContext &c) {
  const int64_t b = c.attrInt("blocksize");
  checkMode(c);
  c.require(c.shape(0)[2] % b == 0 && c.shape(0)[3] % b == 0,
            "height and width do not split into blocks: got {}, expected multiples of {}", c.shape(0), b);
}

}  // namespace

OpDefs transposeOps() {
  OpDef transpose = transposeRow("ai.onnx", "Transpose", {1, 13, 21, 23, 24, 25})
                        .role(Role::Transpose)
                        .inplace("TransposeInplace", 10)
                        .view([](OpEmitter &e, const std::vector<TensorIndex> &inputs, TensorIndex written) {
                          const auto perm = permutation(e.attrs(), e.info(inputs[0]).rank());
                          return std::vector{e.emit("Transpose", {written}, {{"perm", inversePermutation(perm)}})};
                        })
                        .identityIf([](const Op &op) {
                          const auto perm = permutation(op.attributes(), op.inRank(0));
                          return std::is_sorted(perm.begin(), perm.end());
                        })
                        .vjp([](VjpBuilder &b) {
                          const auto perm = permutation(b.attrs(), b.inInfo(0).rank());
                          b.grad(0, b.emit("TransposeGrad", {b.gradOut(0)}, {{"perm", inversePermutation(perm)}}));
                        })
                        .doc("Axis i of the result is axis perm[i] of the input; without perm the axes are reversed.");
  OpDef grad = transposeRow("ai.graphcore", "TransposeGrad", {1})
                   .traits(Trait::Gradient)
                   .notOnnx()
                   .decompose([](DecomposeBuilder &b) { b.result(0, b.emit("Transpose", {b.in(0)}, b.attrs())); })
                   .doc("Gradient of Transpose: the inverse permutation.");
  return {transpose, grad,
          blockRow("DepthToSpace", {1, 11, 13, 28}, depthToSpace, checkDepth)
              .attr("mode", std::string("DCR"))
              .onnx("ai.graphcore", "DepthToSpace", {1})
              .doc("Moves channels into blocks of space."),
          blockRow("SpaceToDepth", {1, 13, 28}, spaceToDepth, checkSpace)
              .attr("mode", std::string("DCR"))
              .doc("Moves blocks of space into channels.")};
}

}  // namespace popart::ops
