// See bounded_sizes.hpp: bounds of tensors, masks and selections. bounded_ops.cpp has the rules of ops for bounds.
#include "onnx/bounded_sizes.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "onnx/importer.hpp"

namespace popart::onnx {

std::vector<int64_t> mostOf(const Sizes &sizes) {
  std::vector<int64_t> most;
  for (const Size &size : sizes) most.push_back(size.most);
  return most;
}

Bounds boundsIn(const Sizes &sizes) {
  Bounds bounds;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!sizes[i].isKnown()) bounds.push_back({sizes[i].count, static_cast<int64_t>(i), sizes[i].per});
  return bounds;
}

// ---- ops that say sizes -------------------------------------------------------------------------

const TensorInfo &PlainOps::info(TensorIndex t) const { return graph().info(t); }

TensorIndex PlainOps::op(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes) const {
  auto &made = importer_.sizes().made(graph_)[{std::string(type), inputs}];
  const auto same = std::ranges::find(made, attributes, &BoundedSizes::Made::attributes);
  if (same != made.end()) return same->result;
  const TensorIndex result = freshOp(type, inputs, attributes);
  importer_.sizes().made(graph_)[{std::string(type), inputs}].push_back({std::move(attributes), result});
  return result;
}

TensorIndex PlainOps::freshOp(std::string_view type, const std::vector<TensorIndex> &inputs,
                              Attributes attributes) const {
  const TensorId id = importer_.freshId(graph(), base_ + "/" + std::string(type));
  importer_.addPlainOp(graph(), type, inputs, {id}, std::move(attributes), settings_);
  return graph().find(id);
}

TensorIndex PlainOps::constant(const TensorData &value) const {
  auto &made = importer_.sizes().made(graph_)[{"Constant", {}}];
  const Attributes attributes{{"value", value}};
  const auto same = std::ranges::find(made, attributes, &BoundedSizes::Made::attributes);
  if (same != made.end()) return same->result;
  const TensorIndex result = graph().addConstant(importer_.freshId(graph(), base_ + "/constant"), value);
  made.push_back({attributes, result});
  return result;
}

TensorIndex PlainOps::number(DataType type, double value) const {
  return constant(TensorData::fromDoubles(TensorInfo(type, {}), std::vector<double>{value}));
}

TensorIndex PlainOps::integer(int64_t value) const { return constant(TensorData::scalar<int64_t>(value)); }

TensorIndex PlainOps::upTo(int64_t size) const {
  return op("Range", {},
            {{"start", TensorData::scalar<int64_t>(0)},
             {"limit", TensorData::scalar<int64_t>(size)},
             {"delta", TensorData::scalar<int64_t>(1)}});
}

TensorIndex PlainOps::reshape(TensorIndex t, const Shape &shape) const {
  if (info(t).shape() == shape) return t;
  return op("Reshape", {t}, {{"shape", shape}, {"allowzero", int64_t{1}}});
}

TensorIndex PlainOps::cast(TensorIndex t, DataType type) const {
  return info(t).dataType() == type ? t : op("Cast", {t}, {{"to", int64_t{toOnnxDataType(type)}}});
}

TensorIndex PlainOps::slice(TensorIndex t, int64_t axis, int64_t start, int64_t end) const {
  using Ints = std::vector<int64_t>;
  if (start == 0 && end == info(t).shape()[static_cast<size_t>(axis)]) return t;
  return op("Slice", {t}, {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
}

TensorIndex PlainOps::concat(const std::vector<TensorIndex> &parts, int64_t axis) const {
  return parts.size() == 1 ? parts.front() : op("Concat", parts, {{"axis", axis}});
}

// ---- bounds of tensors --------------------------------------------------------------------------

const Bounds &BoundedSizes::boundsOf(const Graph &graph, TensorIndex t) const {
  static const Bounds kNone;
  const auto of = graphs_.find(&graph);
  if (of == graphs_.end()) return kNone;
  const auto found = of->second.bounds.find(t);
  return found == of->second.bounds.end() ? kNone : found->second;
}

Sizes BoundedSizes::shapeOf(const Graph &graph, TensorIndex t) const {
  Sizes sizes;
  for (const int64_t dim : graph.info(t).shape()) sizes.push_back({dim});
  for (const Bound &bound : boundsOf(graph, t)) {
    Size &size = sizes[static_cast<size_t>(bound.axis)];
    size.count = bound.count, size.per = bound.per;
  }
  return sizes;
}

void BoundedSizes::setBounds(Graph &graph, TensorIndex t, const Bounds &bounds) {
  Bounds open;
  std::ranges::copy_if(bounds, std::back_inserter(open),
                       [&](const Bound &b) { return graph.info(t).shape()[static_cast<size_t>(b.axis)] > 0; });
  if (!open.empty()) graphs_[&graph].bounds[t] = std::move(open);
}

const Sizes *BoundedSizes::sizesIn(const Graph &graph, TensorIndex t) const {
  constexpr int64_t kMostListed = 64;  // more dimensions than a tensor has
  if (!t.valid()) return nullptr;
  OfGraph &of = graphs_[&graph];
  if (const auto found = of.sizes.find(t); found != of.sizes.end()) return &found->second;
  const Tensor &tensor = graph.tensor(t);
  const bool isConstant = tensor.tensorType() == TensorType::Const && tensor.hasTensorData();
  if (!isConstant || of.bounds.contains(t) || tensor.info.rank() > 1 || tensor.info.nelms() > kMostListed ||
      (tensor.info.dataType() != DataType::INT64 && tensor.info.dataType() != DataType::INT32))
    return nullptr;
  const auto [entry, isNew] = of.knownSizes.try_emplace(t);
  if (isNew)
    for (const int64_t value : tensor.tensorData().asInts()) entry->second.push_back({value});
  return &entry->second;
}

void BoundedSizes::setSizes(const Graph &graph, TensorIndex t, Sizes sizes) {
  graphs_[&graph].sizes[t] = std::move(sizes);
}

void BoundedSizes::writeSizes(Graph &graph, const TensorId &id, const Sizes &sizes, int rank,
                              const Op::Settings &settings) {
  std::vector<int64_t> numbers;
  for (const Size &size : sizes) numbers.push_back(size.most);
  const Shape shape = rank == 0 ? Shape{} : Shape{static_cast<int64_t>(sizes.size())};
  if (std::ranges::all_of(sizes, &Size::isKnown)) {
    graph.addConstant(id, TensorData::of<int64_t>(shape, numbers));
    return;
  }
  const PlainOps to(importer_, graph, id, settings);
  std::vector<TensorIndex> parts;
  for (const Size &size : sizes)
    parts.push_back(to.reshape(size.isKnown() ? to.integer(size.most) : length(to, {size.count, 0, size.per}), {1}));
  importer_.addPlainOp(graph, "Reshape", {to.concat(parts, 0)}, {id}, {{"shape", shape}}, settings);
  setSizes(graph, graph.find(id), sizes);
}

bool BoundedSizes::concerns(const Graph &graph, const std::vector<TensorIndex> &inputs) const {
  const auto of = graphs_.find(&graph);
  return of != graphs_.end() && std::ranges::any_of(inputs, [&](TensorIndex t) {
           return t.valid() && (of->second.bounds.contains(t) || of->second.sizes.contains(t));
         });
}

// ---- masks --------------------------------------------------------------------------------------

TensorIndex BoundedSizes::length(const PlainOps &to, const Bound &bound) {
  return bound.per == 1 ? bound.count : to.op("Mul", {bound.count, to.integer(bound.per)});
}

TensorIndex BoundedSizes::isValue(const PlainOps &to, const Bound &bound, int64_t size) {
  return to.op("Less", {to.upTo(size), length(to, bound)});
}

namespace {

// A list along an axis of a tensor of this shape.
TensorIndex along(const PlainOps &to, TensorIndex list, int64_t axis, const Shape &shape) {
  Shape ones(shape.size(), 1);
  ones[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  return to.reshape(list, ones);
}

}  // namespace

TensorIndex BoundedSizes::areValues(const PlainOps &to, TensorIndex t) const {
  const Shape shape = to.info(t).shape();
  TensorIndex all = to.number(DataType::BOOL, 1);
  for (const Bound &b : boundsOf(to.graph(), t))
    all = to.op("And", {all, along(to, isValue(to, b, shape[static_cast<size_t>(b.axis)]), b.axis, shape)});
  return to.info(all).shape() == shape ? all : to.op("Expand", {all}, {{"shape", shape}});
}

TensorIndex BoundedSizes::masked(const PlainOps &to, TensorIndex t, const Bounds &bounds, TensorIndex fill) {
  const Shape shape = to.info(t).shape();
  for (const Bound &b : bounds)
    t = to.op("Where", {along(to, isValue(to, b, shape[static_cast<size_t>(b.axis)]), b.axis, shape), t, fill});
  return t;
}

TensorIndex BoundedSizes::plain(const PlainOps &to, TensorIndex t) const {
  return boundsOf(to.graph(), t).empty() ? t : to.op("Identity", {t});
}

TensorIndex BoundedSizes::rebound(const PlainOps &to, TensorIndex t, const Bounds &bounds) {
  if (bounds.empty()) return t;
  t = to.freshOp("Identity", {t});
  setBounds(to.graph(), t, bounds);
  return t;
}

Selection BoundedSizes::select(const PlainOps &to, TensorIndex flags) {
  constexpr int64_t kMostChosen = int64_t{1} << 30;
  const int64_t size = to.info(flags).nelms();
  check(size <= kMostChosen,
        "chooses by data of the run among too many elements: got {}, expected at most {}. Choose along an axis, or of "
        "a smaller tensor",
        size, kMostChosen);
  using Ints = std::vector<int64_t>;
  const TensorIndex ones = to.cast(flags, DataType::INT64), all = to.upTo(size);
  const TensorIndex before = to.op("CumSum", {ones}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}});
  const TensorIndex target = to.op("Where", {flags, before, to.integer(size)});  // the last position is removed
  const TensorIndex zeros =
      to.op("ConstantOfShape", {}, {{"shape", Shape{size + 1}}, {"value", TensorData::of<int64_t>({1}, Ints{0})}});
  const TensorIndex found = to.op("ScatterElements", {zeros, target, all}, {{"axis", int64_t{0}}});
  const TensorIndex count = to.op("ReduceSum", {ones}, {{"axes", Ints{0}}, {"keepdims", int64_t{0}}});
  const TensorIndex first = to.slice(found, 0, 0, 1), isPlace = isValue(to, {count}, size);
  return {to.op("Where", {isPlace, to.slice(found, 0, 0, size), first}), count};
}

// ---- rules that leave bounds to their ops -------------------------------------------------------

bool ruleTakesBounds(const std::string &domain, const std::string &type) {
  static const std::unordered_set<std::string> kTypes = {
      // element-wise
      "Add", "And", "BitShift", "Cast", "CastLike", "Clip", "Div", "Equal", "Gelu", "Greater", "IsInf", "IsNaN", "Less",
      "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Round", "Sub", "Sum", "Swish", "Xor",
      // along other axes, or masked
      "Dropout", "Gemm", "MatMul", "LayerNormalization", "RMSNormalization", "Hardmax", "LogSoftmax", "OneHot", "Pad",
      "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
      "ReduceSum", "ReduceSumSquare", "RoiAlign", "Softmax", "Split",
      // samples in rows
      "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "GroupNormalization", "LpPool", "MaxPool",
      // composed of operators that have rules, for all sizes
      "DequantizeLinear", "DynamicQuantizeLinear", "Einsum", "LpNormalization", "QuantizeLinear", "Resize", "Upsample",
      // sizes and selections
      "Compress", "Expand", "Flatten", "NonMaxSuppression", "NonZero", "Reshape", "Shape", "Size", "Slice", "TopK",
      "Unique",
      // moved unchanged
      "ConcatFromSequence", "Identity", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
      "SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"};
  return domain == "ai.onnx" && kTypes.contains(type);
}

}  // namespace popart::onnx
