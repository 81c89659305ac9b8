// The registry of user operators. Each has a row in the catalog. Classes and shape functions that are registered later
// are looked up when a node is made, so that the order of static initialisers does not matter.
#include <popart/opmanager.hpp>

#include <algorithm>
#include <mutex>
#include <optional>

#include <popart/shapeinference.hpp>

#include "base/unknown_value.hpp"

namespace popart {
namespace {

struct UserOperator {
  std::optional<OpDefinition> definition;
  OpManager::OpFactoryFunc factory;
  ShapeInferenceFunction shapes;
};

std::mutex registryMutex;
// Entries are never removed: pointers to them stay valid.
std::map<OperatorIdentifier, UserOperator> &registry() {
  static std::map<OperatorIdentifier, UserOperator> operators;
  return operators;
}

UserOperator &entryOf(const OperatorIdentifier &opid) { return registry()[opid]; }

std::unique_ptr<Op> createUserOp(const OperatorIdentifier &opid, const OpCreatorInfo &given) {
  OpManager::OpFactoryFunc factory;
  {
    std::lock_guard lock(registryMutex);
    factory = entryOf(opid).factory;
  }
  OpCreatorInfo info = given;
  info.opid = opid;
  std::unique_ptr<Op> op = factory ? factory(info) : std::make_unique<Op>(opid, info.settings);
  check(op != nullptr, "{} '{}': its creator made no op", opid, info.settings.name);
  op->mutableAttributes() = info.attributes;
  const NumInputs wanted = opid.numInputs;
  const int inputs = static_cast<int>(info.getInputIds().size());
  check(wanted.max <= 0 || inputs == 0 || (inputs >= wanted.min && inputs <= wanted.max),
        "{}: wrong number of inputs: got {}, expected {}", op->debugName(), inputs,
        wanted.min == wanted.max ? toText(wanted.min) : toText(wanted.min) + " to " + toText(wanted.max));
  return op;
}

void inferUserOp(const OperatorIdentifier &opid, InferContext &context) {
  ShapeInferenceFunction shapes;
  {
    std::lock_guard lock(registryMutex);
    shapes = entryOf(opid).shapes;
  }
  if (!shapes)
    context.fail(
        "the operator has no rule for its output shapes. Override setup(), or register a shape inference function");
  ShapeInferenceContext shapeContext(context.op());
  shapes(shapeContext);
}

}  // namespace

const OpDef &userOpDef(const OperatorIdentifier &opid) {
  static std::mutex creation;
  std::lock_guard lock(creation);
  const std::string type = opid.str();
  if (const OpDef *def = findOpDef(type)) return *def;
  OpDef def(opid.domain, type, {opid.version});
  def.input("inputs", kAllTypes, "", Arity::Variadic).output("outputs", Arity::Variadic);
  def.notOnnx().onnx(opid.domain, opid.type, {opid.version});
  def.infer([opid](InferContext &context) { inferUserOp(opid, context); });
  def.create([opid](const OpCreatorInfo &info) { return createUserOp(opid, info); });
  return registerOpDef(std::move(def));
}

void OpManager::registerOp(const OperatorIdentifier &opid, const OpDefinition &definition, const bool isPublic,
                           OpFactoryFunc factory) {
  check(factory != nullptr, "operator {}: its creator function is missing", opid);
  const bool isOwn = !findOpDef(opid.str()) && findOnnxOp(opid.domain, opid.type, opid.version) &&
                     (opid.domain == "ai.onnx" || opid.domain == "ai.graphcore");
  check(!isOwn, "operator {}: the library has this operator itself. Register yours in a domain of your own", opid);
  userOpDef(opid);
  std::lock_guard lock(registryMutex);
  UserOperator &entry = entryOf(opid);
  check(!entry.factory, "operator {}: it is registered already. Load the library once, or choose another name", opid);
  entry.factory = std::move(factory);
  if (isPublic) entry.definition = definition;
}

const OpDefinition *OpManager::findUserDefinition(const OperatorIdentifier &opid) {
  std::lock_guard lock(registryMutex);
  const auto it = registry().find(opid);
  return it == registry().end() || !it->second.definition ? nullptr : &*it->second.definition;
}

void registerShapeInference(const OperatorIdentifier &opid, ShapeInferenceFunction function) {
  userOpDef(opid);
  std::lock_guard lock(registryMutex);
  UserOperator &entry = entryOf(opid);
  check(!entry.shapes, "operator {}: it has a shape inference function already", opid);
  entry.shapes = std::move(function);
}

// ---- OpCreatorInfo ------------------------------------------------------------------------------

std::vector<TensorId> OpCreatorInfo::getInputIds() const {
  std::vector<TensorId> ids;
  for (const Tensor *t : inputs_) ids.push_back(t ? t->id : TensorId());
  return ids;
}

bool OpCreatorInfo::hasInputTensor(int i) const {
  return i >= 0 && i < static_cast<int>(inputs_.size()) && inputs_[static_cast<size_t>(i)];
}

const Tensor &OpCreatorInfo::getInputTensor(int i) const {
  check(hasInputTensor(i), "{} '{}': input {} is missing. Connect a tensor to it", opid, settings.name, i);
  return *inputs_[static_cast<size_t>(i)];
}

const TensorInfo &OpCreatorInfo::getInputTensorInfo(int i) const { return getInputTensor(i).info; }

const TensorData &OpCreatorInfo::getInputTensorData(int i) const {
  const Tensor &tensor = getInputTensor(i);
  if (!tensor.hasTensorData())
    throw unknown_value_error(
        "{} '{}': the value of input {} ('{}') must be known when the graph is built. Make it a constant", opid,
        settings.name, i, tensor.id);
  return tensor.tensorData();
}

const TensorData &OpCreatorInfo::checkedData(int i, DataType type, const std::vector<DataType> &types) const {
  const TensorData &data = getInputTensorData(i);
  const DataType got = data.info().dataType();
  check(types.empty() || std::find(types.begin(), types.end(), got) != types.end(),
        "{} '{}': input {} has an element type this operator does not take: got {}", opid, settings.name, i, got);
  check(got == type, "{} '{}': input {} is read as another element type: got {}, expected {}", opid, settings.name, i,
        got, type);
  check(data.info().rank() <= 1, "{} '{}': input {} must have rank 0 or 1: got {}", opid, settings.name, i,
        data.info());
  return data;
}

}  // namespace popart
