// See compose.hpp.
#include "onnx/compose.hpp"

#include <numeric>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "ir/hints.hpp"

namespace popart::onnx {
namespace {

std::vector<TensorIndex> tensorsOf(const std::vector<Value> &values) {
  std::vector<TensorIndex> tensors;
  for (const Value &v : values) tensors.push_back(v.tensor());
  return tensors;
}

}  // namespace

// ---- values -------------------------------------------------------------------------------------

const TensorInfo &Value::info() const { return composer_->graph().info(tensor_); }

int64_t Value::dim(int axis) const {
  const int at = axis < 0 ? axis + rank() : axis;
  composer_->node().require(at >= 0 && at < rank(), "expected a tensor with a dimension {}: got {}", axis, info());
  return shape()[static_cast<size_t>(at)];
}

Value Value::op(std::string_view type, const std::vector<Value> &others, Attributes attributes) const {
  return ops(type, 1, others, std::move(attributes)).front();
}

std::vector<Value> Value::ops(std::string_view type, int outputs, const std::vector<Value> &others,
                              Attributes attributes) const {
  std::vector<TensorIndex> inputs = tensorsOf(others);
  inputs.insert(inputs.begin(), tensor_);
  return composer_->emit(type, inputs, outputs, std::move(attributes));
}

Value Value::reshape(const Shape &wanted) const {
  if (wanted == shape()) return *this;
  return op("Reshape", {}, {{"shape", wanted}, {"allowzero", int64_t{1}}});
}

Value Value::transpose(const std::vector<int64_t> &order) const {
  std::vector<int64_t> same(order.size());
  std::iota(same.begin(), same.end(), 0);
  return order == same ? *this : op("Transpose", {}, {{"perm", order}});
}

Value Value::cast(DataType wanted) const {
  return wanted == type() ? *this : op("Cast", {}, {{"to", int64_t{toOnnxDataType(wanted)}}});
}

Value Value::expand(const Shape &wanted) const {
  return wanted == shape() ? *this : op("Expand", {}, {{"shape", wanted}});
}

Value Value::slice(int64_t axis, int64_t start, int64_t end) const {
  if (start == 0 && end == dim(static_cast<int>(axis))) return *this;
  using Ints = std::vector<int64_t>;
  return op("Slice", {}, {{"starts", Ints{start}}, {"ends", Ints{end}}, {"axes", Ints{axis}}});
}

Value Value::reverse(int64_t axis) const { return op("Reverse", {}, {{"dimensions", std::vector<int64_t>{axis}}}); }

std::vector<Value> Value::split(int64_t axis, const std::vector<int64_t> &sizes) const {
  if (sizes.size() == 1) return {*this};
  return ops("Split", static_cast<int>(sizes.size()), {}, {{"axis", axis}, {"split", sizes}});
}

Value Value::gather(const Value &indices, int64_t axis) const { return op("Gather", {indices}, {{"axis", axis}}); }

Value Value::sum(const std::vector<int64_t> &axes, bool keepDims) const {
  return op("ReduceSum", {}, {{"axes", axes}, {"keepdims", int64_t{keepDims}}});
}

Value Value::clamp(double low, double high) const {
  return op("Clip", {}, {{"min", static_cast<float>(low)}, {"max", static_cast<float>(high)}});
}

Value Value::number(double value) const { return composer_->scalar(type(), value); }

Value operator+(const Value &a, const Value &b) { return a.op("Add", {b}); }
Value operator-(const Value &a, const Value &b) { return a.op("Sub", {b}); }
Value operator*(const Value &a, const Value &b) { return a.op("Mul", {b}); }
Value operator/(const Value &a, const Value &b) { return a.op("Div", {b}); }
Value operator+(const Value &a, double b) { return a + a.number(b); }
Value operator-(const Value &a, double b) { return a - a.number(b); }
Value operator-(double a, const Value &b) { return b.number(a) - b; }
Value operator*(const Value &a, double b) { return a * a.number(b); }
Value operator/(const Value &a, double b) { return a / a.number(b); }
Value sigmoid(const Value &x) { return x.op("Sigmoid"); }
Value tanh(const Value &x) { return x.op("Tanh"); }
Value matmul(const Value &a, const Value &b) { return a.op("MatMul", {b}); }
Value where(const Value &condition, const Value &yes, const Value &no) { return condition.op("Where", {yes, no}); }

Value concat(const std::vector<Value> &parts, int64_t axis) {
  check(!parts.empty(), "there is nothing to join: expected at least one tensor");
  if (parts.size() == 1) return parts.front();
  return parts.front().op("Concat", {parts.begin() + 1, parts.end()}, {{"axis", axis}});
}

Value placeIn(const Value &x, const Value &keys) {
  const Value at = x.op("Bucketize", {keys}).cast(DataType::INT64);
  const Value inside = at.op("Min", {at.number(static_cast<double>(keys.dim(0) - 1))});
  return where(keys.gather(inside, 0).op("Equal", {x}), inside, at.number(-1));
}

// ---- composers ----------------------------------------------------------------------------------

std::vector<Value> Composer::emit(std::string_view type, const std::vector<TensorIndex> &inputs, int outputs,
                                  Attributes attributes) {
  const std::string &first = node_.outputNames().empty() ? node_.type() : node_.outputNames().front();
  const std::string base = graph_.isMain() || &graph_ == &node_.graph()
                               ? graph_.addScope(node_.scope().prefix + first) + "/" + std::string(type)
                               : graph_.addScope(std::string(type));
  std::vector<TensorId> ids;
  for (int i = 0; i < outputs; ++i) {
    TensorId id = outputs == 1 ? base : base + ":" + std::to_string(i);
    ids.push_back(node_.importer().freshId(graph_, id));
  }
  Op::Settings settings = node_.settings();
  if (type != node_.type()) settings.hints.emplace(kComposed, "");
  node_.importer().addOp(graph_, type, inputs, ids, std::move(attributes), settings);
  std::vector<Value> values;
  for (const TensorId &id : ids) values.emplace_back(*this, graph_.find(id));
  return values;
}

std::vector<Value> Composer::nodes(const OperatorName &op, const std::vector<Value> &inputs, int outputs,
                                   Attributes attributes) {
  if (&graph_ != &node_.graph()) throw internal_error("{}: nodes are written into the graph of their node", op.type);
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i)
    names.push_back(node_.importer().freshId(
        graph_, graph_.addScope(node_.scope().prefix + node_.firstOutput() + "/" + op.type + ":" + std::to_string(i))));
  NodeContext part = node_.as(op, tensorsOf(inputs), std::move(attributes), names);
  importByRule(part);
  std::vector<Value> values;
  for (const std::string &name : names) {
    values.emplace_back(*this, node_.importer().resolve(name, node_.scope()));
    node_.scope().tensors.erase(name);
  }
  return values;
}

Value Composer::constant(const TensorData &value) {
  const std::string base = node_.scope().prefix + (node_.outputNames().empty() ? node_.type() : node_.outputNames()[0]);
  return Value(*this, graph_.addConstant(node_.importer().freshId(graph_, graph_.addScope(base + "/constant")), value));
}

Value Composer::ints(const std::vector<int64_t> &values) {
  return constant(TensorData::of<int64_t>({static_cast<int64_t>(values.size())}, values));
}

Value Composer::countUp(int64_t n) {
  if (!node_.importer().budget().take(TensorInfo(DataType::INT64, {n}).nbytes()))
    return emit("Range", {}, 1,
                {{"start", TensorData::scalar<int64_t>(0)},
                 {"limit", TensorData::scalar<int64_t>(n)},
                 {"delta", TensorData::scalar<int64_t>(1)}})
        .front();
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return ints(numbers);
}

Value Composer::scalar(DataType type, double value) {
  return constant(TensorData::fromDoubles(TensorInfo(type, {}), std::vector<double>{value}));
}

Value Composer::zeros(DataType type, const Shape &shape) {
  return emit("ConstantOfShape", {}, 1,
              {{"shape", shape}, {"value", TensorData::fromDoubles(TensorInfo(type, {1}), std::vector<double>{0})}})
      .front();
}

// ---- loops --------------------------------------------------------------------------------------

LoopWriter::LoopWriter(Composer &around, const std::string &part, int64_t trips)
    : around_(around),
      body_(around.node(),
            around.node().importer().ir().createGraph(around.node().importer().ir().createUniqueSubgraphId(
                (around.node().settings().name.empty() ? around.node().type() : around.node().settings().name) + "/" +
                part))),
      trips_(trips) {
  iteration_ = Value(body_, addInput(TensorInfo(DataType::INT64, {}), "iteration"));
  condition_ = addInput(TensorInfo(DataType::BOOL, {}), "condition");
  inputs_ = {TensorIndex{}, TensorIndex{}};
}

TensorIndex LoopWriter::addInput(const TensorInfo &info, const std::string &name) {
  Graph &graph = body_.graph();
  return graph.addInput(around_.node().importer().freshId(graph, graph.addScope(name)), info);
}

Value LoopWriter::carry(const Value &initial) {
  check(carried_ + 2 == static_cast<int64_t>(inputs_.size()),
        "a loop's states must come before the values that its iterations read");
  ++carried_;
  inputs_.push_back(initial.tensor());
  return Value(body_, addInput(initial.info(), "state"));
}

Value LoopWriter::bring(const Value &outer) {
  if (!outer.valid()) return {};
  const Tensor &tensor = around_.graph().tensor(outer.tensor());
  if (tensor.tensorType() == TensorType::Const && tensor.hasTensorData()) return body_.constant(tensor.tensorData());
  inputs_.push_back(outer.tensor());
  return Value(body_, addInput(outer.info(), "read"));
}

std::vector<Value> LoopWriter::write(const onnx_proto::GraphProto &graph, const std::vector<Value> &inputs) {
  Scope scope = bodyScope(around_.node());
  scope.graph = &body_.graph();
  std::vector<Value> values;
  std::vector<Meaning> given;
  for (const Value &v : inputs) given.emplace_back(v.tensor());
  for (const Meaning &result : around_.node().importer().writeGraph(graph, scope, given)) {
    around_.node().require(result.tensor.valid(), "the body must return tensors: got a sequence or nothing");
    values.emplace_back(body_, result.tensor);
  }
  for (const Scope::Capture &capture : scope.captures) inputs_.push_back(capture.outer);
  return values;
}

std::vector<Value> LoopWriter::run(const std::vector<Value> &next, const std::vector<Value> &scans,
                                   const Value &goesOn) {
  Graph &graph = body_.graph();
  graph.markOutput(goesOn.valid() ? goesOn.tensor() : condition_);
  for (const auto *list : {&next, &scans})
    for (const Value &v : *list) graph.markOutput(v.tensor());
  const int outputs = static_cast<int>(next.size() + scans.size());
  return around_.emit("Loop", inputs_, outputs,
                      {{"body", GraphRef{graph.id}}, {"carried", carried_}, {"trip_count", trips_}});
}

}  // namespace popart::onnx
