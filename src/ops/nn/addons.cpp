// The operators of popxl_addons that work on one replica: rotary embedding, four-bit weights, products with sparse
// constants, scales of 8-bit floats, and operations on gradients for optimizers. All of them decompose into rows of the
// library. Operators over several replicas are in comm/tensor_parallel.cpp.
#include <cmath>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

OpDef addonsRow(const char *type) { return std::move(OpDef("popxl.addons.ops", type, {1}).notOnnx()); }

Expression slice(Expression x, int64_t axis, int64_t start, int64_t end) {
  return x.apply("Slice", {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
}

TensorIndex concat(Expression a, Expression b, int64_t axis) {
  return a.emitter().emit("Concat", {a, b}, {{"axis", axis}});
}

// ---- rotary embedding
// Pairs (x[2i], x[2i + 1]) of the last axis are rotated by an angle for each row:
//   y[2i] = a cos - b sin, y[2i + 1] = b cos + a sin; elements from rotary_dim on do not change.

int64_t rotaryDim(const Op &op) {
  const int64_t given = op.attrInt("rotary_dim");
  return given == 0 ? op.inInfo(0).shape().back() : given;
}

void inferRotary(InferContext &c) {
  const Shape &x = c.shape(0);
  c.require(x.size() == 4, "the input needs the dimensions (batch, sequence, heads, hidden): got shape {}", x);
  const int64_t rotated = rotaryDim(c.op());
  c.require(rotated >= 0 && rotated <= x[3] && rotated % 2 == 0,
            "rotary_dim must be even and at most the hidden size: got {} for {} elements", rotated, x[3]);
  for (int i : {1, 2}) {
    const Shape &table = c.shape(i);
    const bool whole = table.size() == 3 && (table[0] == 1 || table[0] == x[0]);
    c.require((whole || table.size() == 2) && table[table.size() - 2] == x[1] && table.back() == rotated / 2,
              "a table of sines or cosines must have one row for each of {} positions and {} columns, and may have a "
              "leading dimension of 1 or {}: got shape {}",
              x[1], rotated / 2, x[0], table);
  }
  c.require(c.shape(1) == c.shape(2), "the tables differ: got shapes {} and {}", c.shape(1), c.shape(2));
  c.out(0, c.in(0));
}

template <bool kBack>
void decomposeRotary(DecomposeBuilder &b) {
  const Shape &shape = b.inInfo(0).shape();
  const int64_t rotated = rotaryDim(b.op()), hidden = shape[3];
  const Expression x(b, b.in(0));
  const Expression part = rotated == hidden ? x : slice(x, 3, 0, rotated);
  const Expression pairs(b, emitReshape(b, part, {shape[0], shape[1], shape[2], rotated / 2, 2}));
  const Shape &table = b.inInfo(1).shape();
  const Shape wide{table.size() == 3 ? table[0] : 1, shape[1], 1, rotated / 2, 1};
  const Expression given = cast({b, emitReshape(b, b.in(1), wide)}, x.type()), sin = kBack ? -given : given,
                   cos = cast({b, emitReshape(b, b.in(2), wide)}, x.type());
  const Expression first = slice(pairs, 4, 0, 1), second = slice(pairs, 4, 1, 2);
  const TensorIndex both = concat(first * cos - second * sin, second * cos + first * sin, 4);
  const Expression result(b, emitReshape(b, both, {shape[0], shape[1], shape[2], rotated}));
  b.result(0, rotated == hidden ? result : Expression(b, concat(result, slice(x, 3, rotated, hidden), 3)));
}

OpDef rotaryRow(const char *type, const char *first) {
  return std::move(addonsRow(type)
                       .input(first, kFloats)
                       .input("sin", kFloats)
                       .input("cos", kFloats)
                       .output("output")
                       .attr("rotary_dim", int64_t{0})
                       .cost(perElement(3))
                       .infer(inferRotary));
}

void addRotary(OpDefs &rows) {
  rows.push_back(rotaryRow("RotaryPosEmbed", "data")
                     .decompose(decomposeRotary<false>)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("RotaryPosEmbedGrad", {b.gradOut(0), b.in(1), b.in(2)},
                                        {{"rotary_dim", b.op().attrInt("rotary_dim")}}));
                     })
                     .doc("Rotates pairs of the last axis by the angles of their position; (batch, sequence, heads, "
                          "hidden)."));
  rows.push_back(rotaryRow("RotaryPosEmbedGrad", "grad_out")
                     .traits(Trait::Gradient)
                     .decompose(decomposeRotary<true>)
                     .doc("Gradient of RotaryPosEmbed: rotates the pairs back."));
}

// ---- gradients of optimizers

void addSquares(OpDefs &rows) {
  rows.push_back(addonsRow("GradReduceSquareAdd")
                     .input("data", kFloats)
                     .input("loss_scaling", kFloats)
                     .output("output")
                     .infer([](InferContext &c) {
                       c.require(c.in(1).nelms() == 1, "the loss scaling must be one number: got shape {}", c.shape(1));
                       c.out(0, DataType::FLOAT, {});
                     })
                     .decompose([](DecomposeBuilder &b) {
                       const Expression x = cast({b, b.in(0)}, DataType::FLOAT);
                       const Expression sum = x.apply("ReduceSumSquare", {{"keepdims", int64_t{0}}});
                       const Expression scale = cast({b, emitReshape(b, b.in(1), {})}, DataType::FLOAT);
                       b.result(0, sum / (scale * scale));
                     })
                     .noGrad("it joins gradients")
                     .doc("Sum of the squares divided by the square of the loss scaling, in FLOAT."));
}

// ---- four-bit weights
// Each UINT16 holds four numbers from 0 to 15, the first in the highest bits. A weight is such a number times the scale
// plus the bias of its group.

void inferDecompress(InferContext &c) {
  const Shape &ids = c.shape(0);
  c.require(ids.size() == 3, "the packed numbers need the dimensions (rows, groups, numbers / 4): got shape {}", ids);
  for (int i : {1, 2})
    c.require(c.shape(i) == Shape{ids[0], ids[1], 1},
              "scales and biases must be one for each group: got {}, expected {}", c.shape(i),
              Shape{ids[0], ids[1], 1});
  c.out(0, c.type(1), {ids[0], ids[1] * ids[2] * 4});
}

void addDecompress(OpDefs &rows) {
  rows.push_back(
      addonsRow("GroupQuantizeDecompress")
          .input("packed", typeBit(DataType::UINT16))
          .input("scale", kFloats, "T")
          .input("bias", kFloats, "T")
          .output("output")
          .infer(inferDecompress)
          .decompose([](DecomposeBuilder &b) {
            const Shape &ids = b.inInfo(0).shape();
            const Expression packed = cast({b, emitReshape(b, b.in(0), {ids[0], ids[1], ids[2], 1})}, DataType::INT32);
            const TensorInfo four(DataType::INT32, {4});
            const std::vector<double> places{4096, 256, 16, 1};
            const Expression place(b, b.constant(TensorData::fromDoubles(four, places)));
            const Expression digits = (packed / place).apply("Fmod", packed.number(16));
            const Expression numbers = cast(digits, b.inInfo(1).dataType());
            const Expression grouped(b, emitReshape(b, numbers, {ids[0], ids[1], ids[2] * 4}));
            const Expression scale(b, b.in(1)), bias(b, b.in(2));
            b.result(0, emitReshape(b, grouped * scale + bias, b.outInfo(0).shape()));
          })
          .noGrad("packed weights are not trained")
          .doc("Weights from packed 4-bit numbers; each group has a scale and a bias."));
}

// ---- a product with a sparse constant

void inferSparseProduct(InferContext &c) {
  const Shape &x = c.shape(0);
  const Ints &shape = c.attrInts("shape");
  c.require(shape.size() == 2 && shape[0] >= 0 && shape[1] >= 0, "the right side must have two dimensions: got {}",
            shape);
  c.require((x.size() == 2 || (x.size() == 3 && x[0] == 1)) && x.back() == shape[0],
            "the left side must have the shape (m, {}) or (1, m, {}): got {}", shape[0], shape[0], x);
  c.require(c.shape(1).size() == 1 && c.shape(1) == c.shape(2),
            "values and their places must be vectors of one length: got shapes {} and {}", c.shape(1), c.shape(2));
  Shape y = x;
  y.back() = shape[1];
  c.out(0, c.type(0), y);
}

void addSparseProduct(OpDefs &rows) {
  rows.push_back(
      addonsRow("SparseMatmul")
          .input("lhs", typeBit(DataType::FLOAT) | typeBit(DataType::FLOAT16))
          .input("values", typeBit(DataType::FLOAT))
          .input("places", kInts)
          .output("output")
          .attrRequired("shape", AttributeType::Ints)
          .infer(inferSparseProduct)
          .cost([](const Op &op, Cost &c) {
            c.flops = productFlops(op.inInfo(1).nelms(),
                                   op.inInfo(0).nelms() / std::max<int64_t>(op.inInfo(0).shape().back(), 1));
          })
          .decompose([](DecomposeBuilder &b) {
            const Shape shape = b.op().attrInts("shape");
            const TensorIndex zeros = emitZeros(b, DataType::FLOAT, {shape[0] * shape[1]});
            const TensorIndex flat = b.emit("ScatterElements", {zeros, b.in(2), b.in(1)}, {{"axis", int64_t{0}}});
            const Expression rhs = cast({b, emitReshape(b, flat, shape)}, b.inInfo(0).dataType());
            b.result(0, b.emit("MatMul", {b.in(0), rhs}));
          })
          .noGrad("sparse constants are not trained")
          .doc(
              "lhs times the matrix of `shape` that has `values` at the flat positions `places` and zeros elsewhere."));
}

// ---- the scale of 8-bit floats
// Magnitudes are counted between powers of two b_k = 2^(k - 126). A window of `span` exponents that starts at `lo` is
// the range that the format represents. Below the window a value is lost completely; inside it a share q of b_k^2 is
// lost; above it the distance to the largest power of the window. The middle one of the windows with the least loss
// gives the scale.
constexpr int kPowers = 254, kWindows = 62;

double power(int k) { return std::ldexp(1.0, k - 126); }

// (kWindows, kPowers) loss of one element at each power.
std::vector<double> windowLosses(DataType format) {
  const bool wide = format == DataType::FLOAT8_152;
  const int start = wide ? 78 : 85, span = wide ? 33 : 18;
  const double inside = std::ldexp(1.0, wide ? -16 : -14);
  std::vector<double> losses(kWindows * kPowers, 0.0);
  for (int j = 0; j < kWindows; ++j) {
    const int lo = start + j, hi = lo + span;
    for (int k = 1; k < kPowers; ++k) {
      const double square = power(k) * power(k), beyond = power(hi - 1) - power(k);
      losses[static_cast<size_t>(j * kPowers + k)] = k < lo ? square : k < hi ? square * inside : beyond * beyond;
    }
  }
  return losses;
}

Expression scalarOf(Expression x, const char *reduction) { return x.apply(reduction, {{"keepdims", int64_t{0}}}); }

void decomposeFp8Scale(DecomposeBuilder &b) {
  const DataType type = b.inInfo(0).dataType(), format = static_cast<DataType>(b.op().attrInt("format"));
  const int first = type == DataType::FLOAT16 ? 102 : 0, last = type == DataType::FLOAT16 ? 141 : kPowers - 1;
  std::vector<float> levels;  // those that are positive numbers in the type of the source
  for (int k = first; k <= last; ++k) levels.push_back(static_cast<float>(power(k)));
  const TensorIndex counts = b.emit("Histogram", {b.in(0)}, {{"levels", levels}, {"absoluteOfInput", int64_t{1}}});
  const auto n = static_cast<int64_t>(levels.size());
  const Expression known = cast(slice({b, counts}, 0, 1, n + 1), DataType::DOUBLE);
  const std::vector<double> all = windowLosses(format);
  std::vector<double> losses;
  for (int j = 0; j < kWindows; ++j)
    losses.insert(losses.end(), all.begin() + j * kPowers + first, all.begin() + j * kPowers + last + 1);
  const Expression table(b, b.constant(TensorData::fromDoubles(TensorInfo(DataType::DOUBLE, {kWindows, n}), losses)));
  const Expression lost = (table * known).apply("ReduceSum", {{"axes", Ints{1}}, {"keepdims", int64_t{0}}});
  const Expression least = scalarOf(lost, "ReduceMin");
  const Expression equal = cast({b, b.emit("Equal", {lost, least})}, DataType::INT32);
  const Attributes ofVector{
      {"axis", int64_t{0}}, {"keepdims", int64_t{0}}, {"index_type", int64_t{toOnnxDataType(DataType::INT32)}}};
  const Expression index = lost.apply("ArgMin", ofVector);
  b.result(0, 31 - (index + scalarOf(equal, "ReduceSum") / 2));
}

void addFp8Scale(OpDefs &rows) {
  rows.push_back(addonsRow("Fp8Scale")
                     .input("src", typeBit(DataType::FLOAT) | typeBit(DataType::FLOAT16))
                     .output("log2_scale")
                     .attrRequired("format", AttributeType::Int)
                     .infer([](InferContext &c) {
                       const auto format = static_cast<DataType>(c.attrInt("format"));
                       c.require(format == DataType::FLOAT8_143 || format == DataType::FLOAT8_152,
                                 "`format` must be FLOAT8_143 or FLOAT8_152: got number {}", c.attrInt("format"));
                       c.out(0, DataType::INT32, {});
                     })
                     .decompose(decomposeFp8Scale)
                     .stopsGrad()
                     .doc("The power of two with the least error when the tensor is rounded to an 8-bit float."));
}

}  // namespace

OpDefs addonsOps() {
  OpDefs rows;
  addRotary(rows);
  addSquares(rows);
  addDecompress(rows);
  addSparseProduct(rows);
  addFp8Scale(rows);
  rows.push_back(addonsRow("LinearLayout")
                     .input("data", kStoredTypes)
                     .output("output")
                     .attr("block_size", int64_t{1})
                     .decompose([](DecomposeBuilder &b) { b.result(0, b.emit("Identity", {b.in(0)})); })
                     .vjp([](VjpBuilder &b) { b.grad(0, b.emit("Identity", {b.gradOut(0)})); })
                     .doc("The input; a hint about its memory layout."));
  return rows;
}

}  // namespace popart::ops
