// MatMul with NumPy rules (ONNX MatMul-13) and its two gradients.
// y[..., m, n] = sum_k a[..., m, k] b[..., k, n]; a rank-1 operand gets a unit row (left) or column (right) that is
// removed from the result; leading dimensions broadcast. da = dy bᵀ and db = aᵀ dy, summed over the dimensions that
// were broadcast. The gradient of a rank-2 right operand (a weight) is one product over all flattened rows.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/nn/products.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/pieces.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kMatMulTypes = kFloats | kInts;
constexpr TypeSet kOperandTypes = kMatMulTypes | kFloat8Types;

void inferMatMul(InferContext &c) {
  requireProductTypes(c);
  c.require(!c.hasIn(2) || productType(c) != c.type(0), "a log2 scale is for FLOAT8 operands only: got operands of {}",
            c.type(0));
  Shape a = c.shape(0), b = c.shape(1);
  c.require(!a.empty() && !b.empty(),
            "operands of rank 0 cannot be multiplied: got shapes {} and {}. Use mul for scalars", a, b);
  const bool vectorLeft = a.size() == 1, vectorRight = b.size() == 1;
  if (vectorLeft) a.insert(a.begin(), 1);
  if (vectorRight) b.push_back(1);
  c.require(a.back() == b[b.size() - 2],
            "the last dimension of the left operand must equal the second last of the right one: got shapes {} and {}",
            c.shape(0), c.shape(1));
  const Shape batchA(a.begin(), a.end() - 2), batchB(b.begin(), b.end() - 2);
  c.require(npBroadcastable(batchA, batchB), "leading dimensions do not broadcast: got shapes {} and {}", c.shape(0),
            c.shape(1));
  Shape out = npOut(batchA, batchB);
  if (!vectorLeft) out.push_back(a[a.size() - 2]);
  if (!vectorRight) out.push_back(b.back());
  DataType type = productType(c);
  if (c.hasAttr("output_type")) type = typeOfAttribute(c, "output_type");
  c.require(!c.hasAttr("output_type") || isFloatingPoint(type), "output_type must be a floating type: got {}", type);
  c.out(0, type, out);
}

// Axes are counted from the end: 1 columns, 2 rows; larger numbers are the dimensions of stacks of matrices, which
// broadcast. Products with rank-1 operands, for which this count differs, do not divide.
bool productPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const int a = op.inRank(0), b = op.inRank(1), fromEnd = op.inRank(cut) - axis;
  if (a < 2 || b < 2) return false;
  if (fromEnd > 2) return alignedPieces(op, cut, axis, pieces);
  if (fromEnd != (cut == 0 ? 2 : 1)) return false;
  pieces.in[static_cast<size_t>(cut)] = axis;
  pieces.out[0] = op.outRank(0) - fromEnd;
  return true;
}

// dy bT and aT dy: rows of dy, or columns, and matrices of a stack that is not summed.
template <int kFromEnd>
bool productGradientPieces(const Op &op, InIndex cut, int axis, Pieces &pieces) {
  const int fromEnd = op.inRank(cut) - axis;
  if (op.inRank(0) < 2 || op.inRank(1) < 2 || op.outRank(0) < 2) return false;
  if (fromEnd > 2) return alignedPieces(op, cut, axis, pieces);
  if (cut != 0 || fromEnd != kFromEnd) return false;
  pieces.in[0] = axis;
  pieces.out[0] = op.outRank(0) - fromEnd;
  return true;
}

TensorIndex transposeLast(OpEmitter &b, TensorIndex t) {
  const int rank = b.info(t).rank();
  std::vector<int64_t> perm(rank);
  for (int i = 0; i < rank; ++i) perm[i] = i;
  std::swap(perm[rank - 1], perm[rank - 2]);
  return b.emit("Transpose", {t}, {{"perm", perm}});
}

// The gradient of y with the unit dimensions for rank-1 operands.
TensorIndex expandGradient(OpEmitter &b, TensorIndex dy, bool vectorLeft, bool vectorRight) {
  Shape shape = b.info(dy).shape();
  if (vectorRight) shape.push_back(1);
  if (vectorLeft) shape.insert(shape.end() - 1, 1);
  return emitReshape(b, dy, shape);
}

void decomposeLhsGrad(DecomposeBuilder &b) {
  const Shape lhs = b.attrs().getAttribute<std::vector<int64_t>>("fwd_shape");
  const Shape rhs = b.inInfo(1).shape();
  const bool vectorLeft = lhs.size() == 1, vectorRight = rhs.size() == 1;
  TensorIndex dy = emitCast(b, expandGradient(b, b.in(0), vectorLeft, vectorRight), b.inInfo(1).dataType());
  TensorIndex w = vectorRight ? emitReshape(b, b.in(1), {rhs[0], 1}) : b.in(1);
  TensorIndex product = b.emit("MatMul", {dy, transposeLast(b, w)});
  TensorIndex summed = emitReduceSumTo(b, product, vectorLeft ? Shape{1, lhs[0]} : lhs);
  b.result(0, emitReshape(b, summed, lhs));
}

void decomposeRhsGrad(DecomposeBuilder &b) {
  const Shape rhs = b.attrs().getAttribute<std::vector<int64_t>>("fwd_shape");
  const Shape lhs = b.inInfo(1).shape();
  const bool vectorLeft = lhs.size() == 1, vectorRight = rhs.size() == 1;
  TensorIndex dy = emitCast(b, expandGradient(b, b.in(0), vectorLeft, vectorRight), b.inInfo(1).dataType());
  TensorIndex x = vectorLeft ? emitReshape(b, b.in(1), {1, lhs[0]}) : b.in(1);
  const Shape target = vectorRight ? Shape{rhs[0], 1} : rhs;
  const Shape xShape = b.info(x).shape();
  if (target.size() == 2 && xShape.size() > 2) {
    const int64_t k = target[0], n = target[1];
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < xShape.size(); ++i) rows *= xShape[i];
    x = emitReshape(b, x, {rows, k});
    dy = emitReshape(b, dy, {rows, n});
  }
  TensorIndex product = b.emit("MatMul", {transposeLast(b, x), dy});
  b.result(0, emitReshape(b, emitReduceSumTo(b, product, target), rhs));
}

// The gradient has the type of the product, which may differ from that of the operands.
void inferMatMulGradient(InferContext &c, const TensorInfo &lhs, const TensorInfo &rhs) {
  Attributes more;
  if (c.type(0) != c.type(1)) more.set("output_type", int64_t{toOnnxDataType(c.type(0))});
  ForwardOp(c, "MatMul", {lhs, rhs}, more).gives(0, 0);
  c.out(0, forwardInfo(c, c.type(1)));
}

OpDef matmulGradientRow(const char *type, const char *other, DecomposeFn decompose) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad_out", kMatMulTypes)
      .input(other, kMatMulTypes)
      .output("grad")
      .attrRequired("fwd_shape", AttributeType::Ints)
      .traits(Trait::Gradient)
      .decompose(std::move(decompose))
      .notOnnx()
      .doc("Gradient of MatMul with respect to one operand, of shape fwd_shape.");
}

}  // namespace

bool isProduct(const Op &op) {
  for (const Role role : {Role::MatMul, Role::Conv, Role::ConvDataGrad, Role::ConvWeightsGrad})
    if (op.is(role)) return true;
  static const OpDef *const gradients[] = {&opDef("MatMulLhsGrad"), &opDef("MatMulRhsGrad")};
  return &op.def() == gradients[0] || &op.def() == gradients[1];
}

OpDefs matMulOps() {
  OpDefs rows;
  rows.push_back(
      OpDef("ai.onnx", "MatMul", {1, 9, 13})
          .precision(Precision::Reduced)
          .input("A", kOperandTypes)
          .input("B", kOperandTypes)
          .input("log2_scale", typeBit(DataType::INT32), "", Arity::Optional)
          .slots(Slot::Parameter, {0, 1})
          .output("Y")
          .attrOptional("output_type", AttributeType::Int)
          .infer(inferMatMul)
          .layouts(productLayouts)
          .pieces(productPieces)
          .vjp([](VjpBuilder &b) {
            requireDifferentiableProduct(b.op());
            if (b.wants(0))
              b.grad(0, b.emit("MatMulLhsGrad", {b.gradOut(0), b.in(1)}, {{"fwd_shape", b.inInfo(0).shape()}}));
            if (b.wants(1))
              b.grad(1, b.emit("MatMulRhsGrad", {b.gradOut(0), b.in(0)}, {{"fwd_shape", b.inInfo(1).shape()}}));
          })
          .role(Role::MatMul)
          .cost([](const Op &op, Cost &c) { c.flops = productFlops(op.outInfo(0).nelms(), op.inShape(0).back()); })
          .doc("Matrix product with NumPy's rules; output_type (ONNX type number) changes the type of the result."));
  rows.push_back(matmulGradientRow("MatMulLhsGrad", "rhs", decomposeLhsGrad)
                     .infer([](InferContext &c) { inferMatMulGradient(c, forwardInfo(c, c.type(1)), c.in(1)); })
                     .pieces(productGradientPieces<2>)
                     .cost([](const Op &op, Cost &c) {
                       c.flops = productFlops(op.inInfo(0).nelms(), op.attrInts("fwd_shape").back());
                     }));
  rows.push_back(
      matmulGradientRow("MatMulRhsGrad", "lhs", decomposeRhsGrad)
          .infer([](InferContext &c) { inferMatMulGradient(c, c.in(1), forwardInfo(c, c.type(1))); })
          .pieces(productGradientPieces<1>)
          .cost([](const Op &op, Cost &c) { c.flops = productFlops(op.inInfo(0).nelms(), op.inShape(1).back()); }));
  return rows;
}

}  // namespace popart::ops
