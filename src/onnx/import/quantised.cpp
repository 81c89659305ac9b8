// Quantised operators of ai.onnx: products and convolutions are computed on integers, with zero points.
#include <algorithm>
#include <cmath>

#include <popart/error.hpp>

#include "base/small_types.hpp"
#include "onnx/import/dequantised.hpp"
#include "onnx/import/quantised.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

struct Range {
  double least, most;
};

Range rangeOf(const NodeContext &n, DataType type) {
  switch (type) {
    case DataType::UINT8:
      return {0, 255};
    case DataType::INT8:
      return {-128, 127};
    case DataType::UINT16:
      return {0, 65535};
    case DataType::INT16:
      return {-32768, 32767};
    default:
      break;
  }
  const SmallFormat *format = smallFormat(type);
  n.require(format && !format->isFloat,
            "values are quantised to UINT8, INT8, UINT16, INT16 or types of fewer bits here: got {}", type);
  const double span = std::ldexp(1.0, format->bits);
  return format->isSigned ? Range{-span / 2, span / 2 - 1} : Range{0, span - 1};
}

bool isSmallFloat(DataType type) { return isSmall(type) && isFloatingPoint(type); }

// Zero points of floats are usually zeros, which are not added: they would change the sign of zero.
bool isKnownZero(const Value &zero) {
  const Tensor &tensor = zero.composer().graph().tensor(zero.tensor());
  if (tensor.tensorType() != TensorType::Const || !tensor.hasTensorData()) return false;
  const std::vector<double> values = tensor.tensorData().asDoubles();
  return std::ranges::all_of(values, [](double v) { return v == 0; });
}

// Whether gradients go through the rounding of `x`: in training, if it is no constant.
bool isTrainedThrough(const Value &x) {
  const NodeContext &n = x.composer().node();
  return n.training() && !n.isConstant(x.tensor());
}

// `numbers`, integers or small floats with the same values as the floats `exact`: DequantizeLinear of them reads
// `exact`, so that the gradient passes.
Value withFloats(const Value &numbers, const Value &exact) {
  const Composer &to = numbers.composer();
  to.node().importer().quantisedFloats()[{&to.graph(), numbers.tensor()}] = exact.tensor();
  return numbers;
}

// As a float with at most eight bits; `saturate` as in Cast.
Value rounded(const Value &x, const Value &zero, DataType type, int64_t saturate) {
  const bool moves = zero.valid() && !isKnownZero(zero);
  const Value y = moves ? x.cast(DataType::FLOAT) + zero.cast(DataType::FLOAT) : x;
  const Value numbers = y.op("Cast", {}, {{"to", int64_t{toOnnxDataType(type)}}, {"saturate", saturate}});
  if (!isTrainedThrough(x)) return numbers;
  double most = 0;
  for (const float value : smallValues(type))
    if (std::isfinite(value)) most = std::max(most, static_cast<double>(value));
  const Value inside = y.cast(DataType::FLOAT).clamp(-most, most);
  return withFloats(numbers, inside.op("StraightThrough", {numbers.cast(DataType::FLOAT)}));
}

}  // namespace

Value saturated(const Value &x, const Value &zero, DataType type) {
  const Range range = rangeOf(x.composer().node(), type);
  const Value exact = x.cast(DataType::FLOAT);
  Value y = exact.op("NearbyInt");
  const bool isTrained = isTrainedThrough(x);
  if (isTrained) y = exact.op("StraightThrough", {y});
  if (zero.valid()) y = y + zero.cast(DataType::FLOAT);
  y = y.clamp(range.least, range.most);
  return isTrained ? withFloats(y.cast(type), y) : y.cast(type);
}

namespace {

// The floats with the values of `x`, if only operators that move elements are between it and QuantizeLinear; otherwise
// absent.
Value floatsOf(const Value &x, int depth = 0) {
  constexpr int kMostMoves = 32;
  constexpr std::string_view kMoves[] = {"Identity", "Reshape", "Transpose", "Slice",   "Split",   "Gather",
                                         "Concat",   "Expand",  "Tile",      "Reverse", "MaxPool", "Squeeze"};
  Composer &to = x.composer();
  const auto &known = to.node().importer().quantisedFloats();
  if (const auto found = known.find({&to.graph(), x.tensor()}); found != known.end()) return Value(to, found->second);
  const Tensor &tensor = to.graph().tensor(x.tensor());
  const Op *op = tensor.getProducerUnsafe();
  if (!op || depth >= kMostMoves || std::ranges::find(kMoves, op->def().base().type()) == std::end(kMoves)) return {};
  std::vector<TensorIndex> inputs;
  bool any = false;
  for (const TensorIndex in : op->inputs()) {
    inputs.push_back(in);
    if (!in.valid() || to.graph().info(in).dataType() != x.type()) continue;
    const Value floats = floatsOf(Value(to, in), depth + 1);
    any |= floats.valid();
    inputs.back() = floats.valid() ? floats.tensor() : Value(to, in).cast(DataType::FLOAT).tensor();
  }
  if (!any) return {};
  const auto outputs = static_cast<int>(op->outputs().size());
  const auto place = std::ranges::find(op->outputs(), x.tensor()) - op->outputs().begin();
  return to.emit(op->def().base().type(), inputs, outputs, op->attributes())[static_cast<size_t>(place)];
}

// How a scale or zero point applies to x: one number, one per index of an axis, or one per block along the axis.
class Granularity {
 public:
  Granularity(NodeContext &n, const Value &x, const Value &scale) : n_(n), x_(x) {
    const int64_t rank = x.rank();
    block_ = n.attr<int64_t>("block_size", 0);
    n.require(block_ >= 0, "attribute block_size must not be negative: got {}", block_);
    if (scale.rank() == 0 || (scale.info().nelms() == 1 && block_ == 0)) return;
    axis_ = n.attr<int64_t>("axis", 1);
    n.require(axis_ >= -rank && axis_ < rank, "attribute axis: got {} for {}", axis_, x.info());
    if (axis_ < 0) axis_ += rank;
    const int64_t size = x.shape()[axis_];
    block_ = std::min(block_, std::max<int64_t>(size, 1));  // a block may be longer than the axis
    Shape expected = {size};
    if (block_ > 0) {
      expected = x.shape();
      expected[axis_] = (size + block_ - 1) / block_;
    }
    n.require(scale.shape() == expected,
              "scale must have a number for each index or block of axis {}: got {}, expected "
              "shape {}",
              axis_, scale.info(), expected);
  }

  int64_t block() const { return block_; }  // 0: none
  int64_t axis() const { return axis_; }    // -1: one number

  // x for the operations, and their result in the shape of x: whole blocks get a separate axis.
  Value apart(const Value &x) const {
    if (!hasWholeBlocks()) return x;
    Shape shape = x.shape();
    shape[axis_] = shape[axis_] / block_;
    shape.insert(shape.begin() + axis_ + 1, block_);
    return x.reshape(shape);
  }
  Value together(const Value &y) const { return hasWholeBlocks() ? y.reshape(x_.shape()) : y; }

  // A scale or zero point in a shape that broadcasts to the result of apart().
  Value spread(const Value &v) const {
    if (!v.valid() || axis_ < 0) return v.valid() && v.rank() > 0 ? v.reshape({}) : v;
    if (block_ == 0) {
      Shape shape(static_cast<size_t>(x_.rank()), 1);
      shape[axis_] = x_.shape()[axis_];
      return v.reshape(shape);
    }
    Shape apart = v.shape(), joined = v.shape();
    apart.insert(apart.begin() + axis_ + 1, 1);
    const Value each = v.reshape(apart);
    if (hasWholeBlocks()) return each;
    apart[axis_ + 1] = block_, joined[axis_] *= block_;
    return each.expand(apart).reshape(joined).slice(axis_, 0, x_.shape()[axis_]);
  }

 private:
  bool hasWholeBlocks() const { return axis_ >= 0 && block_ > 0 && x_.shape()[axis_] % block_ == 0; }

  NodeContext &n_;
  const Value x_;
  int64_t axis_ = -1, block_ = 0;
};

void requireZeroPoint(const NodeContext &n, const Value &zero, const Value &scale) {
  const bool haveOneShape =
      !zero.valid() || zero.shape() == scale.shape() || (zero.info().nelms() == 1 && scale.info().nelms() == 1);
  n.require(haveOneShape, "scale and zero point must have one shape: got {} and {}", scale.info(),
            zero.valid() ? zero.info() : scale.info());
}

void importQuantizeLinear(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), scale = to.input(1), zero = to.optionalInput(2);
  requireZeroPoint(n, zero, scale);
  const auto wanted = n.attr<int64_t>("output_dtype", 0), precision = n.attr<int64_t>("precision", 0);
  DataType type = zero.valid() ? zero.type() : DataType::UINT8;
  if (wanted != 0) {
    const DataType asked = fromOnnxDataType(static_cast<int>(wanted));
    n.require(!zero.valid() || asked == type, "attribute output_dtype contradicts the zero point: got {} and {}", asked,
              type);
    type = asked;
  }
  const DataType own = isSmall(scale.type()) ? DataType::FLOAT : scale.type();
  const DataType inner = precision == 0 ? own : fromOnnxDataType(static_cast<int>(precision));
  const Granularity granularity(n, x, scale);
  if (precision == 0 && (type == DataType::UINT8 || type == DataType::INT8)) {
    const Value product = quantisedProduct(n, x, scale, zero.valid() ? zero : to.scalar(type, 0));
    if (product.valid()) return to.result(0, product);
  }
  const Value y = granularity.apart(x).cast(inner) / granularity.spread(scale.cast(inner)),
              shift = granularity.spread(zero);
  to.result(0, granularity.together(isSmallFloat(type) ? rounded(y, shift, type, n.attr<int64_t>("saturate", 1))
                                                       : saturated(y, shift, type)));
}

}  // namespace

QuantisedValue quantisedByRange(const Value &x) {
  const auto extreme = [&](const char *reduce, const char *join) {
    return x.op(reduce, {}, {{"keepdims", int64_t{0}}}).op(join, {x.number(0)});
  };
  const Value least = extreme("ReduceMin", "Min"), width = extreme("ReduceMax", "Max") - least;
  Value scale = where(width.op("Equal", {width.number(0)}), width.number(1), width / 255.0);
  // The gradient does not pass a number that depends on the values.
  if (x.composer().node().training()) scale = scale.op("Detach");
  const Value zero = saturated(least * -1.0 / scale, Value(), DataType::UINT8);
  return {saturated(x / scale, zero, DataType::UINT8), scale, zero};
}

Value dequantised(const Value &x, const Value &zero) {
  if (x.type() == DataType::FLOAT)
    return zero.valid() && !isKnownZero(zero) ? x - zero.cast(DataType::FLOAT) : x;  // the result of floatsOf
  const bool isShort = isSmallFloat(x.type()) || x.type() == DataType::UINT8 || x.type() == DataType::INT8 ||
                       x.type() == DataType::UINT16 || x.type() == DataType::INT16;
  const DataType exact = isShort ? DataType::FLOAT : DataType::INT32;
  const Value moved = x.cast(exact);
  return (zero.valid() && !isKnownZero(zero) ? moved - zero.cast(exact) : moved).cast(DataType::FLOAT);
}

namespace {

void importDequantizeLinear(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0), scale = to.input(1), zero = to.optionalInput(2);
  requireZeroPoint(n, zero, scale);
  n.require(!zero.valid() || zero.type() == x.type(), "x and its zero point must have one type: got {} and {}",
            x.info(), zero.valid() ? zero.info() : x.info());
  n.require(isInteger(x.type()) || isSmall(x.type()), "x must hold quantised values: got {}", x.info());
  const auto wanted = n.attr<int64_t>("output_dtype", 0);
  n.require(wanted != 0 || !isSmall(scale.type()), "a result cannot have the scale's type: got {}. Give output_dtype",
            scale.info());
  const Granularity granularity(n, x, scale);
  const Value floats = n.training() ? floatsOf(x) : Value();
  const Value numbers = floats.valid() ? floats : x;
  const Value y = granularity.together(dequantised(granularity.apart(numbers), granularity.spread(zero)) *
                                       granularity.spread(scale.cast(DataType::FLOAT)));
  const DataType type = wanted == 0 ? scale.type() : fromOnnxDataType(static_cast<int>(wanted));
  to.result(0, y.cast(type));
  const bool hasWholeBlocks =
      granularity.block() == 0 || (x.rank() > 1 && x.shape()[granularity.axis()] % granularity.block() == 0);
  if (type == DataType::FLOAT && hasWholeBlocks) rememberDequantised(n, x, scale, zero, granularity.axis());
}

void importDynamicQuantizeLinear(NodeContext &n) {
  Composer to(n);
  const QuantisedValue y = quantisedByRange(to.input(0));
  to.result(0, y.numbers);
  if (n.hasOut(1)) to.result(1, y.scale);
  if (n.hasOut(2)) to.result(2, y.zero);
}

// Numbers for rows are a list.
Value perRow(const Value &v, const Value &x) {
  return v.valid() && v.rank() == 1 && v.dim(0) > 1 && x.rank() > 1 ? v.reshape({v.dim(0), 1}) : v;
}

void requireFactor(const NodeContext &n, const Value &x, const Value &zero) {
  n.require(x.type() == DataType::UINT8 || x.type() == DataType::INT8, "products take UINT8 or INT8: got {}", x.info());
  n.require(!zero.valid() || zero.type() == x.type(), "an operand and its zero point must have one type: got {} and {}",
            x.info(), zero.valid() ? zero.info() : x.info());
}

// A zero point for IntegerMatMul: absent, one number, or one for each line of `x` (a matrix or a stack of them) along
// dimension `summed`, over which it sums.
Value zeroOfLines(const NodeContext &n, const Value &x, const Value &zero, int summed) {
  if (!zero.valid() || isKnownZero(zero)) return Value();
  if (zero.info().nelms() == 1) return zero.rank() == 0 ? zero : zero.reshape({});
  Shape each = x.shape();
  each[static_cast<size_t>(x.rank() + summed)] = 1;
  n.require(npBroadcastable(zero.shape(), each) && npOut(zero.shape(), each) == each,
            "zero points must be one number or one for each row of a and each column of b: got {} for {}", zero.info(),
            x.info());
  return zero.shape() == each ? zero : zero.expand(each);
}

}  // namespace

Value integerProduct(const NodeContext &n, const Value &a, const Value &b, const Value &zeroA, const Value &zeroB,
                     const Ending &ending) {
  n.require(a.rank() >= 1 && b.rank() >= 1, "operands must have dimensions: got {} and {}", a.info(), b.info());
  n.require(a.dim(-1) == b.shape()[std::max(0, b.rank() - 2)], "operands do not fit: got {} and {}", a.info(),
            b.info());
  requireFactor(n, a, zeroA);
  requireFactor(n, b, zeroB);
  const Value left = a.rank() == 1 ? a.reshape({1, a.dim(0)}) : a;
  const Value right = b.rank() == 1 ? b.reshape({b.dim(0), 1}) : b;
  const Value product =
      left.op("IntegerMatMul", {right, zeroOfLines(n, left, perRow(zeroA, a), -1), zeroOfLines(n, right, zeroB, -2),
                                ending.bias, ending.scale, ending.zero});
  Shape shape = product.shape();
  if (b.rank() == 1) shape.pop_back();
  if (a.rank() == 1) shape.erase(shape.end() - (b.rank() == 1 ? 1 : 2));
  return product.reshape(shape);
}

Value scaledProduct(const Value &a, const Value &b, const Value &scaleA, const Value &scaleB, const Value &zeroA,
                    const Value &zeroB) {
  const NodeContext &n = a.composer().node();
  n.require(b.rank() >= 2, "the right operand must have two dimensions: got {}", b.info());
  const int64_t columns = b.dim(-1), scales = scaleB.info().nelms();
  n.require(scaleA.info().nelms() == 1 && (scales == 1 || scales == columns),
            "scales must be one number of a, and one or one for each of {} columns of b: got {} and {}", columns,
            scaleA.info(), scaleB.info());
  const Value ratio = scaleA.reshape({}) * scaleB.reshape(scales == 1 ? Shape{} : Shape{columns});
  return integerProduct(n, a, b, zeroA, zeroB, {Value(), ratio, Value()});
}

namespace {

Value integerConvolution(const NodeContext &n, const Value &x, const Value &w, const Value &zeroX, const Value &zeroW,
                         const Ending &ending = {}) {
  requireFactor(n, x, zeroX);
  requireFactor(n, w, zeroW);
  const auto zeroOf = [](const Value &zero) {
    if (!zero.valid() || isKnownZero(zero)) return Value();
    return zero.info().nelms() == 1 ? zero.reshape({}) : zero;
  };
  Attributes attributes = {{"group", n.attr<int64_t>("group", 1)}};
  for (const char *name : {"auto_pad", "dilations", "kernel_shape", "pads", "strides"})
    if (const AttributeValue *value = n.nodeAttributes().values.find(name)) attributes.set(name, *value);
  return x.op("IntegerConv", {w, zeroOf(zeroX), zeroOf(zeroW), ending.bias, ending.scale, ending.zero}, attributes);
}

void importMatMulInteger(NodeContext &n) {
  Composer to(n);
  to.result(0, integerProduct(n, to.input(0), to.input(1), to.optionalInput(2), to.optionalInput(3)));
}

void importConvInteger(NodeContext &n) {
  Composer to(n);
  to.result(0, integerConvolution(n, to.input(0), to.input(1), to.optionalInput(2), to.optionalInput(3)));
}

// The factor for sums of products.
Value ratioOf(const Value &a, const Value &b, const Value &y) {
  return a.cast(DataType::FLOAT) * b.cast(DataType::FLOAT) / y.cast(DataType::FLOAT);
}

// Whether a product can end in `ratio` and `zero`: both are one number, or the ratio is one for each column.
bool endsIn(const Value &ratio, const Value &zero, int64_t columns) {
  const bool isByte = zero.type() == DataType::UINT8 || zero.type() == DataType::INT8;
  const int64_t numbers = ratio.info().nelms();
  return isByte && zero.info().nelms() == 1 && (numbers == 1 || (numbers == columns && ratio.dim(-1) == columns));
}

void importQLinearMatMul(NodeContext &n) {
  Composer to(n);
  const Value a = to.input(0), b = to.input(3), zero = to.input(7);
  const Value ratio = ratioOf(perRow(to.input(1), a), to.input(4), to.input(6));
  if (!isSmallFloat(a.type())) {
    if (endsIn(ratio, zero, b.rank() == 1 ? 1 : b.dim(-1))) {
      const Value scale = ratio.rank() < 2 ? ratio : ratio.reshape({ratio.info().nelms()});
      return to.result(0, integerProduct(n, a, b, to.input(2), to.input(5), {Value(), scale, zero}));
    }
    const Value sum = integerProduct(n, a, b, to.input(2), to.input(5));
    return to.result(0, saturated(sum.cast(DataType::FLOAT) * ratio, zero, zero.type()));
  }
  const Value product = matmul(dequantised(a, to.input(2)), dequantised(b, to.input(5)));
  n.require(isSmallFloat(zero.type()), "the result of FLOAT8 must be FLOAT8: got {}", zero.info());
  to.result(0, rounded(product * ratio, zero, zero.type(), 1));
}

void importQLinearConv(NodeContext &n) {
  Composer to(n);
  const Value ratio = ratioOf(to.input(1), to.input(4), to.input(6));
  to.result(0, integerConvolution(n, to.input(0), to.input(3), to.input(2), to.input(5),
                                  {to.optionalInput(8), ratio, to.input(7)}));
}

}  // namespace

std::vector<ImportRule> quantisedRules() {
  return {{"ai.onnx", "QuantizeLinear", importQuantizeLinear},
          {"ai.onnx", "DequantizeLinear", importDequantizeLinear},
          {"ai.onnx", "DynamicQuantizeLinear", importDynamicQuantizeLinear},
          {"ai.onnx", "MatMulInteger", importMatMulInteger},
          {"ai.onnx", "ConvInteger", importConvInteger},
          {"ai.onnx", "QLinearMatMul", importQLinearMatMul},
          {"ai.onnx", "QLinearConv", importQLinearConv}};
}

}  // namespace popart::onnx
