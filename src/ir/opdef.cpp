// OpDef rows: the fluent builder, completion of attributes, and the contexts that shape, gradient and decomposition
// rules use.
#include <popart/opdef.hpp>

#include <algorithm>

#include <popart/graph.hpp>
#include <popart/ir.hpp>

namespace popart {

OpDef::OpDef(std::string domain, std::string type, std::vector<OpVersion> versions)
    : domain_(std::move(domain)), type_(std::move(type)), versions_(std::move(versions)) {
  if (versions_.empty()) versions_ = {1};
  onnxNames_.push_back({domain_, type_, versions_});
}

OpDef &OpDef::input(std::string name, TypeSet types, std::string typeVar, Arity arity) {
  inputs_.push_back({std::move(name), types, std::move(typeVar), arity});
  return *this;
}
OpDef &OpDef::slots(Slot slot, std::initializer_list<int> inputs) {
  for (int input : inputs) inputs_.at(static_cast<size_t>(input)).slot = slot;
  return *this;
}
OpDef &OpDef::precision(Precision p) {
  precision_ = p;
  return *this;
}
Slot OpDef::slot(int input) const {
  const size_t last = inputs_.size();
  if (last == 0 || input < 0) return Slot::Operand;
  return inputs_[std::min(static_cast<size_t>(input), last - 1)].slot;
}
OpDef &OpDef::output(std::string name, Arity arity) {
  outputs_.push_back({std::move(name), arity});
  return *this;
}
OpDef &OpDef::attr(std::string name, AttributeValue defaultValue) {
  const auto type = static_cast<AttributeType>(defaultValue.index());
  attributes_.push_back({std::move(name), type, false, {std::move(defaultValue)}});
  return *this;
}
OpDef &OpDef::attrRequired(std::string name, AttributeType type) {
  attributes_.push_back({std::move(name), type, true, {}});
  return *this;
}
OpDef &OpDef::attrOptional(std::string name, AttributeType type) {
  attributes_.push_back({std::move(name), type, false, {}});
  return *this;
}
OpDef &OpDef::infer(InferFn fn) { return infer_ = std::move(fn), *this; }
OpDef &OpDef::vjp(VjpFn fn) { return vjp_ = std::move(fn), *this; }
OpDef &OpDef::noGrad(std::string reason) { return noGradReason_ = std::move(reason), *this; }
OpDef &OpDef::stopsGrad() { return stopsGrad_ = true, *this; }
OpDef &OpDef::decompose(DecomposeFn fn) { return decompose_ = std::move(fn), *this; }
OpDef &OpDef::layouts(LayoutFn fn) { return layouts_ = fn, *this; }
OpDef &OpDef::pieces(PiecesFn fn) { return pieces_ = fn, *this; }
OpDef &OpDef::create(CreateFn fn) { return create_ = std::move(fn), *this; }
OpDef &OpDef::traits(Trait t) { return traits_ |= static_cast<uint32_t>(t), *this; }
OpDef &OpDef::inplace(std::string type, float priority, int input) {
  return inplaces_.push_back({std::move(type), priority, input}), *this;
}
OpDef &OpDef::modifies(int input, int output) { return aliases_.push_back({input, output, true}), *this; }
OpDef &OpDef::view(WriteBackFn writeBack) { return writeBack_ = std::move(writeBack), *this; }
OpDef &OpDef::identityIf(OpPredicate condition) { return identity_ = std::move(condition), *this; }
OpDef &OpDef::cost(CostFn fn) { return cost_ = std::move(fn), *this; }
OpDef &OpDef::role(Role r) { return role_ = r, *this; }
OpDef &OpDef::doc(std::string text) { return doc_ = std::move(text), *this; }
OpDef &OpDef::onnx(std::string domain, std::string type, std::vector<OpVersion> versions) {
  return onnxNames_.push_back({std::move(domain), std::move(type), std::move(versions)}), *this;
}
OpDef &OpDef::notOnnx() { return onnxNames_.clear(), *this; }
OpDef &OpDef::constInput(int index, std::string attribute, OpVersion since) {
  return constInputs_.push_back({index, std::move(attribute), since}), *this;
}

OperatorIdentifier OpDef::id() const {
  const bool variadic = !inputs_.empty() && inputs_.back().arity == Arity::Variadic;
  const int required = static_cast<int>(
      std::count_if(inputs_.begin(), inputs_.end(), [](auto &i) { return i.arity == Arity::Required; }));
  return OperatorIdentifier(domain_, type_, versions_.back(),
                            NumInputs(required, variadic ? 1 << 20 : static_cast<int>(inputs_.size())),
                            static_cast<int>(outputs_.size()));
}

const AttributeDef *OpDef::findAttribute(std::string_view name) const {
  for (const auto &a : attributes_)
    if (a.name == name) return &a;
  return nullptr;
}

OpDef OpDef::inplaceVariant(const OpDef &base, const InplaceDef &variant) {
  OpDef def = base;
  def.type_ = variant.type;
  def.domain_ = "ai.graphcore";
  def.versions_ = {1};
  def.inplaces_.clear();
  def.onnxNames_.clear();
  def.base_ = &base;
  def.role_ = Role::None;
  def.identity_ = nullptr;  // its result is the memory of the input, not a new value
  const bool variadic = base.inputs_.front().arity == Arity::Variadic;
  def.aliases_ = {{variadic ? AliasDef::kEveryInput : variant.input, 0, !base.writeBack_}};
  return def;
}

Attributes OpDef::completeAttributes(Attributes given, const std::string &opName) const {
  for (const auto &[name, value] : given.entries()) {
    const AttributeDef *def = findAttribute(name);
    if (!def) {
      std::vector<std::string> known;
      for (const auto &a : attributes_) known.push_back(a.name);
      throw error("{} '{}': unknown attribute '{}': expected one of {}", type_, opName, name, known);
    }
    if (value.index() != static_cast<size_t>(def->type)) {
      static const char *const kNames[] = {"int", "float", "string", "ints", "floats", "strings", "tensor", "graph"};
      throw error("{} '{}': attribute '{}' has the wrong type: got {}, expected {}", type_, opName, name,
                  kNames[value.index()], kNames[static_cast<size_t>(def->type)]);
    }
  }
  for (const auto &a : attributes_) {
    if (given.hasAttribute(a.name)) continue;
    check(!a.required, "{} '{}': attribute '{}' is missing. Give a value for it", type_, opName, a.name);
    if (!a.defaultValue.empty()) given.set(a.name, a.defaultValue.front());
  }
  return given;
}

// ---- InferContext --------------------------------------------------------------------------------------------------

int InferContext::inputCount() const { return op_.inputCount(); }
int InferContext::outputCount() const { return op_.outputCount(); }
bool InferContext::hasIn(int i) const { return op_.hasInput(i); }
const TensorInfo &InferContext::in(int i) const { return op_.inInfo(i); }
void InferContext::out(int i, TensorInfo info) const {
  if (op_.hasOutput(i)) op_.outInfo(i) = std::move(info);
}
const Attributes &InferContext::attrs() const { return op_.attributes(); }
const Graph &InferContext::graph(std::string_view attribute) const {
  return op_.getIr().getGraph(attrs().getAttribute<GraphRef>(attribute).id);
}
int64_t InferContext::axis(std::string_view attribute, int64_t rank) const {
  const int64_t value = attrInt(attribute);
  require(value >= -rank && value < rank,
          "attribute '{}' is out of range: got {}, expected a value in [{}, {}] for rank {}", attribute, value, -rank,
          rank - 1, rank);
  return value < 0 ? value + rank : value;
}
void InferContext::throwFailure(const std::string &what) const { throw error("{}: {}", op_.debugName(), what); }

// ---- OpEmitter ----------------------------------------------------------------------------------

const Attributes &OpEmitter::attrs() const { return origin_.attributes(); }
const TensorInfo &OpEmitter::info(TensorIndex t) const { return graph_.info(t); }

TensorIndex OpEmitter::emit(std::string_view type, std::initializer_list<TensorIndex> inputs, Attributes attributes) {
  return emitMany(type, std::vector<TensorIndex>(inputs), 1, std::move(attributes)).front();
}
TensorIndex OpEmitter::emit(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes) {
  return emitMany(type, inputs, 1, std::move(attributes)).front();
}
std::vector<TensorIndex> OpEmitter::emitMany(std::string_view type, const std::vector<TensorIndex> &inputs, int outputs,
                                             Attributes attributes) {
  std::vector<TensorId> ids;
  for (int i = 0; i < outputs; ++i)
    ids.push_back(graph_.freeId(
        graph_.addScope(std::string(type) + ":" + std::to_string(i) + "/" + std::to_string(graph_.tensorSlots()))));
  Op *op = graph_.addConnectedOp(opDef(type), inputs, ids, std::move(attributes),
                                 inheritSettings(origin_, graph_, scope_ + std::string(type)));
  return op->outputs();
}
TensorIndex OpEmitter::constant(const TensorData &value) {
  return graph_.addConstant(graph_.freeId(graph_.addScope("constant/" + std::to_string(graph_.tensorSlots()))), value);
}
TensorIndex OpEmitter::scalar(DataType type, double value) {
  return constant(TensorData::fromDoubles(TensorInfo(type, {}), {&value, 1}));
}

// ---- VjpBuilder, DecomposeBuilder ---------------------------------------------------------------

TensorIndex VjpBuilder::in(int i) { return origin_.hasInput(i) ? activation_(origin_.inputs()[i]) : TensorIndex{}; }
TensorIndex VjpBuilder::out(int i) { return activation_(origin_.outputs().at(i)); }
const TensorInfo &VjpBuilder::inInfo(int i) const { return origin_.inInfo(i); }
const TensorInfo &VjpBuilder::outInfo(int i) const { return origin_.outInfo(i); }
bool VjpBuilder::hasIn(int i) const { return origin_.hasInput(i); }

DecomposeBuilder::DecomposeBuilder(Graph &graph, const Op &op) : OpEmitter(graph, op), results_(op.outputCount()) {}
TensorIndex DecomposeBuilder::in(int i) const { return origin_.hasInput(i) ? origin_.inputs()[i] : TensorIndex{}; }
const TensorInfo &DecomposeBuilder::inInfo(int i) const { return origin_.inInfo(i); }
const TensorInfo &DecomposeBuilder::outInfo(int i) const { return origin_.outInfo(i); }
bool DecomposeBuilder::hasOut(int i) const { return origin_.hasOutput(i); }

}  // namespace popart
