#include "onnx/import/dequantised.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/small_types.hpp"
#include "onnx/import/microsoft.hpp"

namespace popart::onnx {
namespace {

bool isByte(DataType type) { return type == DataType::UINT8 || type == DataType::INT8; }

bool isInBlocks(const Graph &graph, const Dequantised &d) {
  const TensorInfo &scale = graph.info(d.scale);
  return scale.rank() > 1 && scale.nelms() > 1 && scale.rank() == graph.info(d.numbers).rank();
}

// The product, its operands and bias, and the column (channel) dimension of its right operand.
struct Product {
  const Op *op = nullptr;
  const Dequantised *left = nullptr, *right = nullptr;
  TensorIndex bias;
  int64_t columns = 0, columnAxis = 0;
};

class ProductMatcher {
 public:
  ProductMatcher(NodeContext &n, const Value &x, const Value &scale, const Value &zero)
      : n_(n), graph_(n.graph()), x_(x), scale_(scale), zero_(zero) {}

  Value run() {
    if (n_.training() || !graph_.isMain() || !isByte(zero_.type()) || x_.type() != DataType::FLOAT) return {};
    if (scale_.type() != DataType::FLOAT || !isOneNumber(scale_) || !isOneNumber(zero_)) return {};
    if (!(numbers(scale_.tensor())[0] > 0) || !find() || !hasScales()) return {};
    const std::vector<double> ratios = ratiosOf();
    std::vector<int32_t> bias;
    if (product_.bias.valid() && !biasOf(ratios, bias)) return {};
    return written(ratios, bias);
  }

 private:
  std::vector<double> numbers(TensorIndex t) const { return graph_.tensor(t).tensorData().asDoubles(); }
  bool isOneNumber(const Value &v) const { return v.info().nelms() == 1 && n_.isConstant(v.tensor()); }
  const Dequantised *dequantised(TensorIndex t) const {
    const auto &all = n_.importer().dequantised();
    const auto found = all.find(t);
    const bool isFound = found != all.end() && !isInBlocks(graph_, found->second);
    return isFound && isByte(graph_.info(found->second.numbers).dataType()) ? &found->second : nullptr;
  }

  // Whether the result type has a number for `bound`, so that saturation implies it, as least or greatest value.
  bool isKept(double bound, bool isLeast) const {
    const double place = std::nearbyint(bound / numbers(scale_.tensor())[0]) + numbers(zero_.tensor())[0];
    const double least = zero_.type() == DataType::INT8 ? -128 : 0;
    return isLeast ? place <= least : place >= least + 255;
  }
  bool isKeptBound(const Op &op) const {
    const std::string &type = op.def().base().type();
    if (type == "Identity") return true;
    if (type == "Relu") return isKept(0, true);
    if (type != "Clip") return false;
    return (!op.hasAttr("min") || isKept(static_cast<double>(op.attrFloat("min")), true)) &&
           (!op.hasAttr("max") || isKept(static_cast<double>(op.attrFloat("max")), false));
  }

  // Searches from x back to the product.
  bool find() {
    const Op *op = graph_.tensor(x_.tensor()).getProducerUnsafe();
    while (op && isKeptBound(*op)) op = graph_.tensor(op->inputs()[0]).getProducerUnsafe();
    if (op && op->is(Role::Add) && op->inputCount() == 2) {
      const Op *sum = op;
      const size_t i = graph_.tensor(sum->inputs()[0]).hasProducer() ? 0 : 1;
      op = graph_.tensor(sum->inputs()[i]).getProducerUnsafe();
      product_.bias = sum->inputs()[1 - i];
      if (!op || !op->is(Role::MatMul) || sum->outShape(0) != op->outShape(0)) return false;
    }
    if (!op || !(op->is(Role::Conv) || op->is(Role::MatMul))) return false;
    product_.op = op;
    product_.left = dequantised(op->inputs()[0]), product_.right = dequantised(op->inputs()[1]);
    if (!product_.left || !product_.right) return false;
    const Shape &right = graph_.info(product_.right->numbers).shape();
    if (op->is(Role::Conv)) {
      if (op->hasInput(2)) product_.bias = op->inputs()[2];
      product_.columnAxis = 0;
    } else {
      if (op->inRank(0) < 2 || right.size() < 2) return false;
      product_.columnAxis = static_cast<int64_t>(right.size()) - 1;
    }
    product_.columns = right[static_cast<size_t>(product_.columnAxis)];
    return true;
  }

  // The left operand must have one scale, the right one either one or one for each column; the same for zero points.
  bool hasScales() const {
    const auto isKnown = [&](const Dequantised &d, int64_t axis, int64_t many) {
      if (!n_.isConstant(d.scale) || graph_.info(d.scale).dataType() != DataType::FLOAT) return false;
      const int64_t count = graph_.info(d.scale).nelms();
      return count == 1 || (count == many && d.axis == axis && graph_.info(d.scale).rank() == 1);
    };
    const bool isStack = product_.op->is(Role::MatMul) && graph_.info(product_.right->numbers).rank() != 2;
    return isKnown(*product_.left, 0, 1) &&
           isKnown(*product_.right, product_.columnAxis, isStack ? 1 : product_.columns);
  }

  std::vector<double> ratiosOf() const {
    std::vector<double> ratios = numbers(product_.right->scale);
    const double left = numbers(product_.left->scale)[0];
    for (double &r : ratios) r *= left;
    return ratios;
  }

  // The bias in steps of the sums, if it is near integers.
  bool biasOf(const std::vector<double> &ratios, std::vector<int32_t> &bias) const {
    if (!n_.isConstant(product_.bias) || graph_.info(product_.bias).dataType() != DataType::FLOAT) return false;
    const Shape &shape = graph_.info(product_.bias).shape();
    const bool isEach =
        graph_.info(product_.bias).nelms() == product_.columns && !shape.empty() && shape.back() == product_.columns;
    if (!isEach) return false;
    const std::vector<double> values = numbers(product_.bias);
    const double step = numbers(scale_.tensor())[0];
    for (size_t c = 0; c < values.size(); ++c) {
      const double ratio = ratios[ratios.size() == 1 ? 0 : c], whole = std::nearbyint(values[c] / ratio);
      const bool isNear = std::abs(whole * ratio - values[c]) <= kMostBiasShift * std::abs(step);
      if (!(isNear && std::abs(whole) <= 0x7fffffff)) return false;
      bias.push_back(static_cast<int32_t>(whole));
    }
    return true;
  }

  Value written(std::vector<double> ratios, const std::vector<int32_t> &bias) const {
    Composer &to = x_.composer();
    const auto count = static_cast<int64_t>(ratios.size());
    std::vector<float> scales;
    for (double r : ratios) scales.push_back(static_cast<float>(r / numbers(scale_.tensor())[0]));
    const Value scale = to.constant(TensorData::of<float>(count == 1 ? Shape{} : Shape{count}, scales));
    const Value sums = bias.empty() ? Value() : to.constant(TensorData::of<int32_t>({product_.columns}, bias));
    const Value left(to, product_.left->numbers), right(to, product_.right->numbers);
    const bool isConv = product_.op->is(Role::Conv);
    Attributes attributes;
    for (const char *name : {"dilations", "group", "kernel_shape", "pads", "strides"})
      if (const AttributeValue *value = isConv ? product_.op->attributes().find(name) : nullptr)
        attributes.set(name, *value);
    return left.op(isConv ? "IntegerConv" : "IntegerMatMul",
                   {right, zeroOf(*product_.left), zeroOf(*product_.right), sums, scale, zero_}, attributes);
  }
  // The zero point for the op: absent, one number, or one for each column.
  Value zeroOf(const Dequantised &d) const {
    if (!d.zero.valid()) return {};
    if (n_.isConstant(d.zero) && std::ranges::all_of(numbers(d.zero), [](double v) { return v == 0; })) return {};
    const Value zero(x_.composer(), d.zero);
    if (zero.info().nelms() == 1) return zero.reshape({});
    return product_.op->is(Role::Conv) ? zero : zero.reshape({1, zero.info().nelms()});
  }

  NodeContext &n_;
  const Graph &graph_;
  const Value x_, scale_, zero_;
  Product product_;
};

// The integers of a matrix (K, N) as rows of packed numbers (N, bytes), with the least number as 0.
Value packedRows(Composer &to, const Tensor &matrix, int64_t bits, bool isSigned) {
  const Shape &shape = matrix.info.shape();
  const int64_t depth = shape[0], columns = shape[1], perByte = 8 / bits, bytes = (depth + perByte - 1) / perByte;
  const int mask = (1 << bits) - 1, moved = isSigned ? 1 << (bits - 1) : 0;
  const auto *from = static_cast<const uint8_t *>(matrix.tensorData().data());
  TensorData packed(TensorInfo(DataType::UINT8, {columns, bytes}));
  auto *rows = static_cast<uint8_t *>(packed.mutableData());
  std::fill_n(rows, columns * bytes, uint8_t{0});
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t c = 0; c < columns; ++c, ++from)
      rows[c * bytes + k / perByte] |= static_cast<uint8_t>(((*from & mask) ^ moved) << (k % perByte * bits));
  return to.constant(packed);
}

struct PackedType {
  int64_t bits = 0;
  bool isSigned = false;
};
std::optional<PackedType> packedType(DataType type) {
  if (isByte(type)) return PackedType{8, type == DataType::INT8};
  const SmallFormat *format = smallFormat(type);
  if (!format || format->isFloat || (format->bits != 2 && format->bits != 4)) return std::nullopt;
  return PackedType{format->bits, format->isSigned};
}

}  // namespace

TensorIndex packedOperand(NodeContext &n, TensorIndex a, TensorIndex b) {
  constexpr int64_t kBlockUnit = 16;  // kernels read blocks of multiples of it
  if (n.training() || !n.graph().isMain()) return b;
  const auto &all = n.importer().dequantised();
  const auto found = all.find(b);
  if (found == all.end() || !isInBlocks(n.graph(), found->second)) return b;
  const Dequantised d = found->second;
  const TensorInfo numbers = n.info(d.numbers);
  const auto type = packedType(numbers.dataType());
  const bool isMatrix = numbers.rank() == 2 && numbers.nelms() > 0 && d.axis == 0 && n.info(a).rank() >= 2;
  const bool isFloat = n.info(a).dataType() == DataType::FLOAT && n.info(d.scale).dataType() == DataType::FLOAT;
  const bool isKnown = n.isConstant(d.numbers) && n.isConstant(d.scale) && (!d.zero.valid() || n.isConstant(d.zero));
  if (!type || !isMatrix || !isFloat || !isKnown) return b;
  const int64_t depth = numbers.shape()[0], blocks = n.info(d.scale).shape()[0], block = depth / blocks;
  if (block % kBlockUnit != 0 && blocks > 1) return b;
  Composer to(n);
  const Value scale = Value(to, d.scale).transpose({1, 0});
  Value zero;
  if (d.zero.valid())
    zero = microsoft::packedNumbers(packedRows(to, n.graph().tensor(d.zero), type->bits, type->isSigned),
                                    DataType::FLOAT, type->bits, scale.dim(1));
  const double least = type->isSigned ? static_cast<double>(int64_t{1} << (type->bits - 1)) : 0;
  return microsoft::unpackedRows(packedRows(to, n.graph().tensor(d.numbers), type->bits, type->isSigned), scale, zero,
                                 type->bits, block, depth, least)
      .transpose({1, 0})
      .tensor();
}

Value quantisedProduct(NodeContext &n, const Value &x, const Value &scale, const Value &zero) {
  return ProductMatcher(n, x, scale, zero).run();
}

void rememberDequantised(const NodeContext &n, const Value &numbers, const Value &scale, const Value &zero,
                         int64_t axis) {
  if (!n.graph().isMain() || !n.hasOut(0)) return;
  const TensorIndex result = n.importer().resolve(n.outputNames()[0], n.scope());
  n.importer().dequantised()[result] = {numbers.tensor(), scale.tensor(), zero.tensor(), axis};
}

void rememberTransposed(NodeContext &n, TensorIndex t, TensorIndex transposed) {
  auto &all = n.importer().dequantised();
  const auto found = n.graph().isMain() ? all.find(t) : all.end();
  if (found == all.end()) return;
  Dequantised d = found->second;
  d.numbers = n.emit("Transpose", {d.numbers}, {{"perm", std::vector<int64_t>{1, 0}}});
  if (isInBlocks(n.graph(), d))
    for (TensorIndex *each : {&d.scale, &d.zero})
      if (each->valid()) *each = n.emit("Transpose", {*each}, {{"perm", std::vector<int64_t>{1, 0}}});
  d.axis = 1 - d.axis;
  all[transposed] = d;
}

}  // namespace popart::onnx
