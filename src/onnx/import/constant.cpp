// Operators whose result is known when the graph is built.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <popart/error.hpp>
#include <popart/half.hpp>

#include "onnx/compose.hpp"
#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

void importConstant(NodeContext &n) {
  const Attributes &a = n.attributes();
  n.require(a.entries().size() == 1, "must have exactly one value attribute: got {}",
            static_cast<long>(a.entries().size()));
  const auto &[name, value] = a.entries().front();
  if (const auto *tensor = std::get_if<TensorData>(&value)) return n.resultValue(0, *tensor);
  if (const auto *i = std::get_if<int64_t>(&value)) return n.resultValue(0, TensorData::scalar(*i));
  if (const auto *f = std::get_if<float>(&value)) return n.resultValue(0, TensorData::scalar(*f));
  if (const auto *ints = std::get_if<std::vector<int64_t>>(&value))
    return n.resultValue(0, TensorData::of<int64_t>({static_cast<int64_t>(ints->size())}, *ints));
  if (const auto *floats = std::get_if<std::vector<float>>(&value))
    return n.resultValue(0, TensorData::of<float>({static_cast<int64_t>(floats->size())}, *floats));
  n.fail("attribute '{}' is not supported: text constants have no numbers", name);
}

TensorData filled(const TensorInfo &info, const TensorData &element) {
  TensorData data(info);
  const size_t bytes = static_cast<size_t>(element.nbytes());
  auto *out = static_cast<char *>(data.mutableData());
  for (int64_t i = 0; i < info.nelms(); ++i) std::memcpy(out + i * bytes, element.data(), bytes);
  return data;
}

void importConstantOfShape(NodeContext &n) {
  const TensorData value = n.attr<TensorData>("value", TensorData::scalar(0.0f));
  n.require(value.info().nelms() == 1, "attribute value must hold one element: got {}", value.info());
  const Sizes sizes = n.sizesIn(0);
  const std::vector<int64_t> shape = mostOf(sizes);
  const TensorInfo info(value.info().dataType(), shape);
  const TensorData scalar = value.reshaped({});
  if (n.importer().budget().take(info.nbytes()))
    n.resultValue(0, filled(info, scalar));
  else
    n.result(0, "ConstantOfShape", {}, {{"shape", shape}, {"value", scalar}});
  n.boundOutput(0, boundsIn(sizes));
}

void importShape(NodeContext &n) {
  const Sizes sizes = n.shapeOf(0);
  const auto rank = static_cast<int64_t>(sizes.size());
  auto clamp = [&](int64_t v) { return std::max<int64_t>(0, std::min(v < 0 ? v + rank : v, rank)); };
  const int64_t start = clamp(n.attr<int64_t>("start", 0));
  const int64_t end = clamp(n.attr<int64_t>("end", rank));
  n.resultSizes(0, start < end ? Sizes(sizes.begin() + start, sizes.begin() + end) : Sizes(), 1);
}

void importSize(NodeContext &n) {
  const Sizes sizes = n.shapeOf(0);
  n.require(std::ranges::count_if(sizes, [](const Size &s) { return !s.isKnown(); }) <= 1,
            "has several dimensions whose sizes depend on data of the run: got {}, expected one at most", n.info(0));
  Size all{n.info(0).nelms()};
  for (const Size &size : sizes)
    if (!size.isKnown()) all = {all.most, size.count, all.most / (size.most / size.per)};
  n.resultSizes(0, {all}, 0);
}

// The number of elements of a range, as a floating number that does not overflow.
double rangeLength(NodeContext &n, double start, double limit, double delta) {
  n.require(delta != 0, "delta must not be 0");
  return std::max(0.0, std::ceil((limit - start) / delta));
}

template <class T>
TensorData rangeOf(NodeContext &n, T start, T limit, T delta) {
  const double count =
      rangeLength(n, static_cast<double>(start), static_cast<double>(limit), static_cast<double>(delta));
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>)  // steps may be longer than half of the type's range: they wrap
      values[i] = static_cast<T>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(delta));
    else
      values[i] = static_cast<T>(start + static_cast<T>(i) * delta);
  }
  return TensorData::of<T>({static_cast<int64_t>(values.size())}, values);
}

// 16-bit ranges are computed in double and rounded.
template <class T>
TensorData halfRange(NodeContext &n) {
  const TensorData exact = rangeOf<double>(n, n.constantNumber(0), n.constantNumber(1), n.constantNumber(2));
  std::vector<T> values;
  for (double v : exact.asDoubles()) values.push_back(T(static_cast<float>(v)));
  return TensorData::of<T>(exact.info().shape(), values);
}

// A range from a known number in known steps to a size that depends on data.
void importOpenRange(NodeContext &n, const Size &limit) {
  const int64_t start = n.constantInt(0), delta = n.constantInt(2);
  n.require(delta > 0, "delta must be greater than 0 where the limit depends on data of the run: got {}", delta);
  const int64_t most = std::max<int64_t>(0, (limit.most - start + delta - 1) / delta);
  n.importer().takeFromBudget(most * getDataTypeInfo(n.info(0).dataType()).nbytes, "Range");
  std::vector<double> values(static_cast<size_t>(most));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(start + static_cast<int64_t>(i) * delta);
  const PlainOps to = n.plainOps();
  const TensorIndex rest = to.op("Sub", {BoundedSizes::length(to, {limit.count, 0, limit.per}), to.integer(start)});
  const TensorIndex places = to.op("Max", {to.op("Add", {rest, to.integer(delta - 1)}), to.integer(0)});
  n.resultValue(0, TensorData::fromDoubles(TensorInfo(n.info(0).dataType(), {most}), values));
  const bool isCount = start == 0 && delta == 1;
  n.boundOutput(0, {isCount ? Bound{limit.count, 0, limit.per} : Bound{to.op("Div", {places, to.integer(delta)})}});
}

void importRange(NodeContext &n) {
  if (const Sizes *limit = n.importer().sizes().sizesIn(n.graph(), n.in(1)))
    if (limit->size() == 1 && !limit->front().isKnown()) return importOpenRange(n, limit->front());
  for (int i : {0, 1, 2})
    n.require(n.constant(i).info().nelms() == 1 && n.info(i).dataType() == n.info(0).dataType(),
              "input {} must be one number of the type of input 0, {}: got {}", i, n.info(0), n.info(i));
  const double bytes = rangeLength(n, n.constantNumber(0), n.constantNumber(1), n.constantNumber(2)) *
                       getDataTypeInfo(n.info(0).dataType()).nbytes;
  if (bytes > static_cast<double>(n.importer().budget().leftBytes()))
    return n.result(0, "Range", {}, {{"start", n.constant(0)}, {"limit", n.constant(1)}, {"delta", n.constant(2)}});
  n.importer().budget().take(static_cast<int64_t>(bytes));
  const auto first = [&](int i) { return n.constant(i).asInts().front(); };
  switch (n.info(0).dataType()) {
    case DataType::INT64:
      return n.resultValue(0, rangeOf<int64_t>(n, first(0), first(1), first(2)));
    case DataType::INT32:
      return n.resultValue(0, rangeOf<int32_t>(n, static_cast<int32_t>(first(0)), static_cast<int32_t>(first(1)),
                                               static_cast<int32_t>(first(2))));
    case DataType::INT16:
      return n.resultValue(0, rangeOf<int16_t>(n, static_cast<int16_t>(first(0)), static_cast<int16_t>(first(1)),
                                               static_cast<int16_t>(first(2))));
    case DataType::DOUBLE:
      return n.resultValue(0, rangeOf<double>(n, n.constantNumber(0), n.constantNumber(1), n.constantNumber(2)));
    case DataType::FLOAT:
      return n.resultValue(
          0, rangeOf<float>(n, static_cast<float>(n.constantNumber(0)), static_cast<float>(n.constantNumber(1)),
                            static_cast<float>(n.constantNumber(2))));
    case DataType::FLOAT16:
      return n.resultValue(0, halfRange<Half>(n));
    case DataType::BFLOAT16:
      return n.resultValue(0, halfRange<BFloat16>(n));
    default:
      n.fail("element type is not supported: got {}", n.info(0));
  }
}

// columns - rows of each element of a matrix, compared with k: BOOL of the matrix's shape. Folded, or computed in the
// run.
Value diagonal(Composer &in, std::string_view comparison, int64_t rows, int64_t columns, int64_t k) {
  const Value shifted = (in.countUp(rows) + static_cast<double>(k)).reshape({rows, 1});
  return in.countUp(columns).reshape({1, columns}).op(comparison, {shifted});
}

// Limits k to values that make a difference, so that sums with it do not overflow.
int64_t withinMatrix(int64_t k, int64_t rows, int64_t columns) { return std::clamp(k, -rows - 1, columns + 1); }

void importEyeLike(NodeContext &n) {
  const TensorInfo in = n.info(0);
  n.require(in.rank() == 2, "input must be a matrix: got {}", in);
  const int64_t rows = in.shape()[0], columns = in.shape()[1];
  const int64_t k = withinMatrix(n.attr<int64_t>("k", 0), rows, columns);
  const int64_t to = n.attr<int64_t>("dtype", toOnnxDataType(in.dataType()));
  Composer composer(n);
  n.result(0, "Cast", {diagonal(composer, "Equal", rows, columns, k).tensor()}, {{"to", to}});
}

// Trilu-14: keeps the upper or lower triangle, zeros elsewhere.
void importTrilu(NodeContext &n) {
  const TensorInfo in = n.info(0);
  n.require(in.rank() >= 2, "input must have at least two dimensions: got {}", in);
  const bool upper = n.attr<int64_t>("upper", 1) != 0;
  const int64_t rows = in.shape()[in.rank() - 2], columns = in.shape()[in.rank() - 1];
  const int64_t k = withinMatrix(n.hasIn(1) ? n.constantInt(1) : 0, rows, columns);
  Composer composer(n);
  const Value keep = diagonal(composer, upper ? "GreaterOrEqual" : "LessOrEqual", rows, columns, k);
  n.result(0, "Where", {keep.tensor(), n.in(0), n.literalLike(n.in(0), 0.0)});
}

}  // namespace

std::vector<ImportRule> constantRules() {
  return {{"ai.onnx", "Constant", importConstant}, {"ai.onnx", "ConstantOfShape", importConstantOfShape},
          {"ai.onnx", "Shape", importShape},       {"ai.onnx", "Size", importSize},
          {"ai.onnx", "Range", importRange},       {"ai.onnx", "EyeLike", importEyeLike},
          {"ai.onnx", "Trilu", importTrilu}};
}

}  // namespace popart::onnx
