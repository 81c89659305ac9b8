// Operators of com.microsoft that ai.onnx also has, with other inputs, and small related ones: triangles, ranges,
// inverse matrices, distances.
#include <map>

#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

using Ints = std::vector<int64_t>;

void importTrilu(NodeContext &n) {
  n.importAs({"Trilu"}, {n.in(0), n.optionalIn(1)}, {{"upper", n.attr<int64_t>("upper", 1)}});
}

// Numbers may be lists of one.
void importRange(NodeContext &n) {
  Composer to(n);
  std::vector<TensorIndex> numbers;
  for (int i = 0; i < 2; ++i) numbers.push_back(to.input(i).reshape({}).tensor());
  numbers.push_back((n.hasIn(2) ? to.input(2).reshape({}) : to.input(0).number(1)).tensor());
  n.importAs({"Range"}, numbers, {});
}

// Outputs: distinct values in order of first occurrence, the index of each element's value among them, their counts.
void importUnique(NodeContext &n) {
  const auto name = [&](int i) { return n.hasOut(i) ? n.outputNames()[static_cast<size_t>(i)] : std::string(); };
  n.require(n.info(0).rank() == 1, "the input must have one dimension: got {}", n.info(0));
  std::vector<std::string> outputs = {name(0), "", name(1), name(2)};
  while (!outputs.empty() && outputs.back().empty()) outputs.pop_back();
  NodeContext other = n.as({"Unique"}, {n.in(0)}, {{"sorted", int64_t{0}}}, outputs);
  importByRule(other);
}

// pads may be a matrix of one row.
void importPad(NodeContext &n) {
  Composer to(n);
  const Value pads = to.input(1);
  constexpr int64_t kVersion = 13;
  n.importAs({"Pad", kVersion},
             {n.in(0), pads.reshape({pads.info().nelms()}).tensor(),
              n.hasIn(2) ? to.input(2).reshape({}).tensor() : TensorIndex()},
             {{"mode", n.attr<std::string>("mode", "constant")}});
}

void importExpandDims(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const int64_t axis = n.axisOf(n.constantInt(1), x.rank() + 1);
  Shape shape = x.shape();
  shape.insert(shape.begin() + axis, 1);
  to.result(0, x.reshape(shape));
}

void importGatherNd(NodeContext &n) { n.importAs({"GatherND"}, {n.in(0), n.in(1)}, {}); }

// Operators that ai.onnx adopted later; additional attributes must have their defaults.
void importAsLater(NodeContext &n, const char *type, const std::map<std::string, int64_t> &fixed) {
  Attributes attributes = n.attributes();
  for (const auto &[name, value] : fixed) {
    n.require(n.attr(name, value) == value, "attribute {}: got {}, expected {}. Save the model without it", name,
              n.attr(name, value), value);
    attributes.erase(name);
  }
  n.importAs({type}, n.inputs(), attributes);
}

void importLinearAttention(NodeContext &n) { importAsLater(n, "LinearAttention", {{"state_window", 0}}); }

void importCausalConvWithState(NodeContext &n) {
  importAsLater(n, "CausalConvWithState", {{"channels_last", 0}, {"dilation", 1}, {"ndim", 1}, {"state_window", 0}});
}

// Gauss-Jordan elimination with row pivots on [x, identity], one column per iteration. Rows are selected by products
// with 0 and 1, through which gradients go. A matrix without an inverse gives infinities.
void importInverse(NodeContext &n) {
  Composer to(n);
  const Value given = to.input(0);
  const int64_t size = given.rank() >= 2 ? given.dim(-1) : 0;
  n.require(given.rank() >= 2 && given.dim(-2) == size, "the last two dimensions must be equal: got {}", given.info());
  const Value x = given.type() == DataType::DOUBLE ? given : given.cast(DataType::FLOAT);
  const int64_t count = size == 0 ? 0 : x.info().nelms() / (size * size);
  const Value row = to.countUp(size);
  const Value identity = row.reshape({size, 1}).op("Equal", {row}).cast(x.type());
  LoopWriter loop(to, "columns", size);
  const Value rest = loop.carry(concat({x.reshape({count, size, size}), identity.expand({count, size, size})}, 2));
  Composer &body = loop.body();
  const Value rows = body.countUp(size), step = loop.iteration();
  const Value own = rows.op("Equal", {step}).cast(x.type());  // (size)
  const auto columnOf = [&](const Value &matrix) {
    return matmul(matrix.slice(2, 0, size), own.reshape({size, 1})).reshape({count, size});
  };
  const auto rowOf = [&](const Value &matrix, const Value &choice) {
    return matmul(choice.reshape({count, 1, size}), matrix);
  };
  const Value open = rows.op("GreaterOrEqual", {step}), column = columnOf(rest);
  const Value place = where(open, column.op("Abs"), column.number(-1))
                          .op("ArgMax", {}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
  const Value best = rows.op("Equal", {place}).cast(x.type());  // (count, size)
  const Value taken = rowOf(rest, best), left = rowOf(rest, own.expand({count, size}));
  const Value swapped = rest + (best - own).reshape({count, size, 1}) * (left - taken);
  const Value pivot = matmul(taken.slice(2, 0, size), own.reshape({size, 1}));  // (count, 1, 1)
  const Value scaled = taken / pivot;
  const Value others = columnOf(swapped) * (1.0 - own);
  const Value next = swapped - others.reshape({count, size, 1}) * scaled - own.reshape({size, 1}) * (taken - scaled);
  to.result(0, loop.run({next}, {})[0].slice(2, size, 2 * size).reshape(x.shape()).cast(given.type()));
}

// |a|² + |b|² - 2 a b for all pairs of rows, at least 0; its root has the gradient 0 if rows are equal.
void importCDist(NodeContext &n) {
  Composer to(n);
  const Value a = to.input(0), b = to.input(1);
  const std::string metric = n.attr<std::string>("metric", "sqeuclidean");
  n.require(metric == "sqeuclidean" || metric == "euclidean",
            "attribute metric: got '{}', expected sqeuclidean or euclidean", metric);
  n.require(a.rank() == 2 && b.rank() == 2 && a.dim(1) == b.dim(1),
            "A and B must have rows of one length: got {} and {}", a.info(), b.info());
  const Value squares = (a * a).sum({1}, true) + (b * b).sum({1}, false) - matmul(a, b.transpose({1, 0})) * 2.0;
  const Value isPositive = squares.op("Greater", {squares.number(0)}), zero = squares.number(0);
  if (metric == "sqeuclidean") return to.result(0, where(isPositive, squares, zero));
  to.result(0, where(isPositive, where(isPositive, squares, squares.number(1)).op("Sqrt"), zero));
}

// Whether no element of any input is infinite or not a number.
void importIsAllFinite(NodeContext &n) {
  Composer to(n);
  const bool nan = n.attr<int64_t>("isinf_only", 0) == 0, infinite = n.attr<int64_t>("isnan_only", 0) == 0;
  n.require(nan || infinite, "attributes isinf_only and isnan_only exclude each other: got both");
  Value all;
  for (int i = 0; i < n.inputCount(); ++i) {
    const Value x = to.input(i);
    Value bad = nan ? x.op("IsNaN") : x.op("IsInf");
    if (nan && infinite) bad = bad.op("Or", {x.op("IsInf")});
    const Value most =
        bad.cast(DataType::INT32).reshape({x.info().nelms()}).op("ReduceMax", {}, {{"keepdims", int64_t{0}}});
    all = all.valid() ? all.op("Max", {most}) : most;
  }
  n.require(all.valid(), "has no input. Connect a tensor to it");
  to.result(0, all.op("LessOrEqual", {all.number(0)}));  // without elements, the largest is below 0
}

// Rows of the weight; the row of padding_idx gets no gradient.
void importTorchEmbedding(NodeContext &n) {
  Composer to(n);
  const Value weight = to.input(0), indices = to.input(1), rows = weight.gather(indices, 0);
  const int64_t padding = n.hasIn(2) ? n.constantInt(2) : -1;
  if (padding < 0) return to.result(0, rows);
  Shape shape = indices.shape();
  shape.push_back(1);
  const Value isPadding = indices.op("Equal", {indices.number(static_cast<double>(padding))}).reshape(shape);
  to.result(0, where(isPadding, rows.op("Detach"), rows));
}

// Windows of `size` along an axis, `step` apart, as a last dimension.
void importUnfoldTensor(NodeContext &n) {
  Composer to(n);
  const Value x = to.input(0);
  const int64_t axis = n.axisOf(n.attr<int64_t>("dim", -1), x.rank()), size = n.attr<int64_t>("size", 0),
                step = n.attr<int64_t>("step", 1), length = x.dim(static_cast<int>(axis));
  n.require(size > 0 && size <= length && step > 0, "size must be 1 to {} and step greater than 0: got {} and {}",
            length, size, step);
  const int64_t count = (length - size) / step + 1;
  const Value first = (to.countUp(count) * static_cast<double>(step)).reshape({count, 1});
  const Value windows = x.gather(first + to.countUp(size), axis);
  Ints order;
  for (int64_t d = 0; d < windows.rank(); ++d)
    if (d != axis + 1) order.push_back(d);
  order.push_back(axis + 1);
  to.result(0, windows.transpose(order));
}

}  // namespace

std::vector<ImportRule> commonRules() {
  return {
      {kDomain, "Trilu", importTrilu, {"X k", "Y", "upper"}},
      {kDomain, "Range", importRange, {"start limit delta", "Y"}},
      {kDomain, "Unique", importUnique, {"x", "y idx counts"}},
      {kDomain, "Pad", importPad, {"data pads value", "output", "mode"}},
      {kDomain, "ExpandDims", importExpandDims, {"X axis", "Y"}},
      {kDomain, "GatherND", importGatherNd, {"data indices", "output"}},
      {kDomain, "Inverse", importInverse, {"X", "Y"}},
      {kDomain, "CDist", importCDist, {"A B", "C", "metric"}},
      {kDomain,
       "IsAllFinite",
       importIsAllFinite,
       {"input", "output", "isinf_only isnan_only"},
       false,
       {1},
       NameCheck::Variadic},
      {kDomain, "TorchEmbedding", importTorchEmbedding, {"weight indices padding_idx scale_grad_by_freq", "Y"}},
      {kDomain,
       "LinearAttention",
       importLinearAttention,
       {"query key value past_state decay beta", "output present_state",
        "chunk_size kv_num_heads q_num_heads scale state_window update_rule"}},
      {kDomain,
       "CausalConvWithState",
       importCausalConvWithState,
       {"input weight bias past_state", "output present_state", "activation channels_last dilation ndim state_window"}},
      {kDomain, "UnfoldTensor", importUnfoldTensor, {"input", "output", "dim size step"}}};
}

}  // namespace popart::onnx::microsoft
