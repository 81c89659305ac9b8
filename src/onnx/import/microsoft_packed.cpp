// Weights of 2, 4 and 8 bits of com.microsoft: products with them and look-ups of their rows. They stay packed in
// memory; each run unpacks the numbers that a product or a look-up needs (ops/nn/packed_weights.cpp).
#include <algorithm>
#include <functional>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {

Value unpackedRows(const Value &packed, const Value &scale, const Value &zero, int64_t bits, int64_t block,
                   int64_t columns, double middle) {
  return packed.op(
      "DequantizePacked", {scale, zero},
      {{"bits", bits}, {"block_size", block}, {"columns", columns}, {"zero_point", static_cast<float>(middle)}});
}

Value packedNumbers(const Value &packed, DataType type, int64_t bits, int64_t columns) {
  const Value one = packed.composer().scalar(type, 1).expand({packed.dim(0), 1});
  return unpackedRows(packed, one, Value(), bits, columns, columns, 0);
}

namespace {

int64_t bitsOf(const NodeContext &n) {
  const auto bits = n.attr<int64_t>("bits", 4);
  n.require(bits == 2 || bits == 4 || bits == 8, "attribute bits: got {}, expected 2, 4 or 8", bits);
  return bits;
}

int64_t blockOf(const NodeContext &n, int64_t fallback) {
  const auto block = n.attr<int64_t>("block_size", fallback);
  constexpr int64_t kMost = int64_t{1} << 30;
  n.require(block >= 16 && block <= kMost && (block & (block - 1)) == 0,
            "attribute block_size: got {}, expected a power of two from 16 to {}", block, kMost);
  return block;
}

// Zero points (rows, blocks) of the scale's type: as they are, or packed like the weights.
Value zeroPoints(const Value &zero, const Value &scale, int64_t bits) {
  if (!zero.valid()) return zero;
  const int64_t rows = scale.dim(0), blocks = scale.dim(1), bytes = (blocks * bits + 7) / 8;
  const NodeContext &n = scale.composer().node();
  const bool isPacked = zero.type() == DataType::UINT8;
  n.require(zero.info().nelms() == rows * (isPacked ? bytes : blocks), "zero_points: got {}, expected shape {}",
            zero.info(), Shape{rows, isPacked ? bytes : blocks});
  return isPacked ? packedNumbers(zero.reshape({rows, bytes}), scale.type(), bits, blocks)
                  : zero.reshape({rows, blocks}).cast(scale.type());
}

// A matrix above this size is unpacked in parts: the floats of one part fit into the caches of a processor, and only
// one part at a time is in memory.
constexpr int64_t kPartBytes = int64_t{1} << 20;
constexpr int64_t kLeastPartRows = 16;

// Whether the product will read the packed numbers directly (multiplyPacked), without floats in memory.
bool isReadPacked(const NodeContext &n, const Value &a, const Value &scale) {
  constexpr int kWeights = 1, kScales = 2, kZeros = 3;
  for (int i : {kWeights, kScales, kZeros})
    if (n.hasIn(i) && !n.isConstant(n.in(i))) return false;
  return a.rank() >= 2 && a.type() == DataType::FLOAT && scale.type() == DataType::FLOAT;
}

// The number of rows of the matrix, a divisor of `rows`, to unpack at once; `rows` if it is not divided.
int64_t rowsAtOnce(int64_t rows, int64_t columns, int64_t bytesPerNumber) {
  const int64_t most = std::max(kLeastPartRows, kPartBytes / (columns * bytesPerNumber));
  if (rows < 2 * most) return rows;
  for (int64_t part = most; part >= kLeastPartRows; --part)
    if (rows % part == 0) return part;
  return rows;
}

// a times the transposed matrix of `rows` rows that `unpack` makes of operands (rows, …), `part` rows in each iteration
// of a loop.
Value productInParts(Composer &to, const Value &a, const std::vector<Value> &operands, int64_t rows, int64_t part,
                     const std::function<Value(const std::vector<Value> &)> &unpack) {
  const int64_t count = rows / part;
  LoopWriter loop(to, "parts", count);
  const Value inLoop = loop.bring(a);
  std::vector<Value> ofPart;
  for (const Value &v : operands)
    ofPart.push_back(v.valid()
                         ? loop.bring(v.reshape({count, part, v.info().nelms() / rows})).gather(loop.iteration(), 0)
                         : Value());
  const Value y = matmul(inLoop, unpack(ofPart).cast(a.type()).transpose({1, 0}));
  const Value stacked = loop.run({}, {y}).front();  // (count, …, part)
  std::vector<int64_t> order(static_cast<size_t>(stacked.rank()));
  std::iota(order.begin(), order.end(), 1);
  order.back() = stacked.rank() - 1, order[order.size() - 2] = 0;
  Shape shape = a.shape();
  shape.back() = rows;
  return stacked.transpose(order).reshape(shape);
}

// a times the transposed matrix of N rows of K numbers, in blocks. accuracy_level would allow less than this computes.
void importMatMulNBits(NodeContext &n) {
  constexpr int kWeights = 1, kScales = 2, kZeros = 3, kGroups = 4, kBias = 5;
  Composer to(n);
  const Value a = to.input(0), weights = to.input(kWeights);
  const int64_t rows = n.attr<int64_t>("N", 0), columns = n.attr<int64_t>("K", 0), bits = bitsOf(n);
  const int64_t block = blockOf(n, 0);
  n.require(rows > 0 && columns > 0, "attributes N and K must be greater than 0: got {} and {}", rows, columns);
  n.require(n.attr<int64_t>("weight_prepacked", 0) == 0,
            "attribute weight_prepacked: the weights are in the layout of a graphics card. Save the model without it");
  n.require(a.rank() >= 1 && a.dim(-1) == columns, "the last dimension of A must be K = {}: got {}", columns, a.info());
  const int64_t blocks = (columns + block - 1) / block, bytes = blocks * (block * bits / 8);
  const Shape whole = {rows, blocks, block * bits / 8};
  n.require(weights.type() == DataType::UINT8 && weights.info().nelms() == elementCount(whole),
            "B must hold UINT8 of shape {}: got {}", whole, weights.info());
  const Value given = to.input(kScales);
  n.require(given.info().nelms() == rows * blocks, "scales: got {}, expected shape {}", given.info(),
            Shape{rows, blocks});
  const Value scale = given.reshape({rows, blocks});
  const auto packed = [&] { return weights.reshape({rows, bytes}); };
  const Value zero = zeroPoints(to.optionalInput(kZeros), scale, bits);
  const double middle = static_cast<double>(int64_t{1} << (bits - 1));
  const bool isWhole =
      n.training() || isReadPacked(n, a, given) || !n.importer().sizes().boundsOf(n.graph(), n.in(0)).empty();
  const int64_t part = isWhole ? rows : rowsAtOnce(rows, columns, getDataTypeInfo(scale.type()).nbytes);
  Value matrix, y;
  if (n.hasIn(kGroups)) {  // the block of each column
    const Value group = to.input(kGroups);
    n.require(group.rank() == 1 && group.dim(0) >= columns, "g_idx must have one number for each of {} columns: got {}",
              columns, group.info());
    const Value places = group.slice(0, 0, columns);
    const Value moved = packedNumbers(packed(), scale.type(), bits, blocks * block).slice(1, 0, columns);
    matrix = (zero.valid() ? moved - zero.gather(places, 1) : moved - middle) * scale.gather(places, 1);
  } else if (part < rows) {
    y = productInParts(to, a, {weights, scale, zero}, rows, part, [&](const std::vector<Value> &of) {
      return unpackedRows(of[0], of[1], of[2], bits, block, columns, middle);
    });
  } else {
    matrix = unpackedRows(packed(), scale, zero, bits, block, columns, middle);
  }
  if (!y.valid()) y = matmul(a, matrix.cast(a.type()).transpose({1, 0}));
  const Value bias = to.optionalInput(kBias);
  to.result(0, bias.valid() ? y + bias : y);
}

// ---- rows by number

// One number for each block along an axis, repeated for all `size` elements of the axis.
Value spread(const Value &perBlock, int64_t axis, int64_t block, int64_t size) {
  Shape apart = perBlock.shape(), joined = apart;
  apart.insert(apart.begin() + axis + 1, 1);
  const Value each = perBlock.reshape(apart);
  apart[axis + 1] = block, joined[axis] *= block;
  return each.expand(apart).reshape(joined).slice(axis, 0, size);
}

class BlockGather {
 public:
  explicit BlockGather(NodeContext &n)
      : n_(n), to_(n), data_(to_.input(0)), scales_(to_.input(2)), zeros_(to_.optionalInput(3)) {
    const int64_t rank = data_.rank();
    gatherAxis_ = n.axisOf(n.attr<int64_t>("gather_axis", 0), rank);
    blockAxis_ = n.axisOf(n.attr<int64_t>("quantize_axis", 1), rank);
    isPacked_ = data_.type() == DataType::UINT8;
    bits_ = isPacked_ ? bitsOf(n) : 4;
    const bool isFloat = isFloatingPoint(data_.type());
    block_ = isFloat && n.attr<int64_t>("block_size", 128) == 0
                 ? std::max<int64_t>(data_.dim(static_cast<int>(blockAxis_)), 1)
                 : blockOf(n, 128);
    n.require(!isFloat || !zeros_.valid(), "zero_points belong to integers: got data {}", data_.info());
    n.require(gatherAxis_ != blockAxis_, "gather_axis and quantize_axis must differ: got {} for both", gatherAxis_);
    n.require(!isPacked_ || gatherAxis_ == 0, "gather_axis must be 0 for packed data: got {}", gatherAxis_);
  }

  void import() {
    const Value size = number(data_.dim(static_cast<int>(gatherAxis_)));
    Value index = to_.input(1).cast(DataType::INT64);
    index = where(index.op("Less", {index.number(0)}), index + size, index);
    const Value inside = index.op("GreaterOrEqual", {index.number(0)}).op("And", {index.op("Less", {size})});
    index_ = where(inside, index, index.number(0));
    const Value y = rows();
    Shape around(static_cast<size_t>(y.rank()), 1);
    std::copy(index.shape().begin(), index.shape().end(), around.begin() + gatherAxis_);
    to_.result(0, where(inside.reshape(around), y, y.number(0)));  // an index out of range gives zeros
  }

 private:
  Value number(int64_t value) { return to_.constant(TensorData::scalar<int64_t>(value)); }
  Value at(const Value &x) const { return x.gather(index_, gatherAxis_); }

  Value rows() {
    const int64_t perByte = isPacked_ ? 8 / bits_ : 1, last = data_.rank() - 1;
    const Value found = at(data_);
    // Axes after the index move by the number of the index's dimensions.
    const int64_t axis = blockAxis_ > gatherAxis_ ? blockAxis_ - 1 + index_.rank() : blockAxis_;
    Shape shape = found.shape();
    shape.back() *= perByte;
    const int64_t size = shape[axis], blocks = (size + block_ - 1) / block_;
    n_.require(scales_.rank() == data_.rank() && (scales_.dim(static_cast<int>(blockAxis_)) == blocks ||
                                                  scales_.dim(static_cast<int>(blockAxis_)) == 1),
               "scales must have a number for each of {} blocks: got {}", blocks, scales_.info());
    const Value scale = gathered(scales_);
    const auto flat = [](const Value &x) {
      return x.reshape({x.info().nelms() / std::max<int64_t>(x.dim(-1), 1), x.dim(-1)});
    };
    if (!isPacked_) return plain(found.cast(DataType::FLOAT).cast(scale.type()), scale, axis, size);
    const double middle = static_cast<double>(int64_t{1} << (bits_ - 1));
    if (blockAxis_ == last) {
      const Value wide = flat(scale);
      const Value zero = zeros_.valid() ? zerosOf(flat(at(zeros_)), wide) : Value();
      return unpackedRows(flat(found), wide, zero, bits_, block_, size, middle).reshape(shape);
    }
    const Value numbers = packedNumbers(flat(found), scale.type(), bits_, shape.back()).reshape(shape);
    if (!zeros_.valid()) return (numbers - middle) * spread(scale, axis, block_, size);
    const Value zero = at(zeros_);
    const Value each = packedNumbers(flat(zero), scale.type(), bits_, zero.dim(-1) * perByte);
    Shape zeroShape = zero.shape();
    zeroShape.back() = shape.back();
    return (numbers - spread(each.slice(1, 0, shape.back()).reshape(zeroShape), axis, block_, size)) *
           spread(scale, axis, block_, size);
  }

  // A scale with one number along the gathered axis applies to all rows.
  Value gathered(const Value &x) const {
    return x.dim(static_cast<int>(gatherAxis_)) == 1 && data_.dim(static_cast<int>(gatherAxis_)) != 1
               ? x.gather(index_ * 0.0, gatherAxis_)
               : at(x);
  }
  Value zerosOf(const Value &packed, const Value &scale) const {
    return packedNumbers(packed, scale.type(), bits_, scale.dim(1));
  }
  // Numbers of one element each.
  Value plain(const Value &numbers, const Value &scale, int64_t axis, int64_t size) const {
    const bool isOne = scale.dim(static_cast<int>(axis)) == 1;
    const auto each = [&](const Value &v) { return isOne ? v : spread(v, axis, block_, size); };
    if (!zeros_.valid()) return numbers * each(scale);
    return (numbers - each(at(zeros_).cast(DataType::FLOAT).cast(scale.type()))) * each(scale);
  }

  NodeContext &n_;
  Composer to_;
  const Value data_, scales_, zeros_;
  Value index_;
  int64_t gatherAxis_ = 0, blockAxis_ = 0, bits_ = 4, block_ = 0;
  bool isPacked_ = false;
};

void importGatherBlockQuantized(NodeContext &n) { BlockGather(n).import(); }

// ---- codes of four bits, whose values a table has

// The values of codes 0 to 15: FP4 and NF4 of bitsandbytes (QLoRA, arXiv 2305.14314, appendix E).
constexpr float kFp4[16] = {0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                            -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

// Codes of all rows in one list, the first of each byte in its high bits, with a factor for each block.
void importMatMulBnb4(NodeContext &n) {
  Composer to(n);
  const Value a = to.input(0), codes = to.input(1), factors = to.input(2);
  const int64_t rows = n.attr<int64_t>("N", 0), columns = n.attr<int64_t>("K", 0), block = blockOf(n, 0);
  const auto kind = n.attr<int64_t>("quant_type", 0);
  n.require(kind == 0 || kind == 1, "attribute quant_type: got {}, expected 0 (FP4) or 1 (NF4)", kind);
  n.require(rows > 0 && columns > 0, "attributes N and K must be greater than 0: got {} and {}", rows, columns);
  const int64_t count = elementCount({rows, columns});
  n.require(codes.info().nelms() == (count + 1) / 2 && factors.info().nelms() == (count + block - 1) / block,
            "N, K, B and absmax do not fit: got {}, {}, {} and {}", rows, columns, codes.info(), factors.info());
  const int64_t bytes = codes.info().nelms();
  const Value both = packedNumbers(codes.reshape({bytes, 1}), DataType::FLOAT, 4, 2);  // low bits first
  const Value index = both.reverse(1).cast(DataType::INT32).reshape({2 * bytes}).slice(0, 0, count);
  const Value table = to.constant(TensorData::of<float>({16}, kind == 0 ? kFp4 : kNf4));
  const Value scale = spread(factors.reshape({factors.info().nelms()}).cast(DataType::FLOAT), 0, block, count);
  const Value matrix = (table.gather(index, 0) * scale).reshape({rows, columns}).cast(a.type());
  to.result(0, matmul(a, n.attr<int64_t>("transB", 1) != 0 ? matrix.transpose({1, 0}) : matrix));
}

}  // namespace

std::vector<ImportRule> packedRules() {
  return {
      {kDomain,
       "MatMulNBits",
       importMatMulNBits,
       {"A B scales zero_points g_idx bias", "Y", "K N accuracy_level bits block_size weight_prepacked"}},
      {kDomain,
       "GatherBlockQuantized",
       importGatherBlockQuantized,
       {"data indices scales zero_points", "output", "bits block_size gather_axis quantize_axis"}},
      {kDomain, "MatMulBnb4", importMatMulBnb4, {"A B absmax", "Y", "K N block_size quant_type training_mode transB"}}};
}

}  // namespace popart::onnx::microsoft
