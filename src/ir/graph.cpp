// Graph: stores ops and tensors, and is the only code that changes edges. Invariant after every public call: producers,
// uses, ids and the id index are consistent.
#include <popart/graph.hpp>

#include <algorithm>
#include <set>

#include <popart/ir.hpp>
#include <popart/opmanager.hpp>

#include "base/nearest.hpp"

namespace popart {

Graph::Graph(Ir &ir, GraphId graphId) : id(std::move(graphId)), ir_(&ir) {}
Graph::~Graph() = default;

std::string Graph::removeScope(const TensorId &tensorId) const {
  if (id.empty()) return tensorId;
  return tensorId.rfind(id + "/", 0) == 0 ? tensorId.substr(id.size() + 1) : tensorId;
}

// ---- tensors ------------------------------------------------------------------------------------

TensorIndex Graph::addTensor(const TensorId &tensorId, const TensorInfo &info, TensorType type) {
  const TensorIndex index{static_cast<uint32_t>(tensors_.size())};
  if (!byId_.try_emplace(tensorId, index).second)
    throw error("{}: tensor '{}' exists already. Choose another name", getGraphString(), tensorId);
  auto tensor = std::make_unique<Tensor>();
  tensor->id = tensorId;
  tensor->info = info;
  tensor->type_ = type;
  tensor->graph_ = this;
  tensor->index_ = index;
  tensors_.push_back(std::move(tensor));
  ++revision_;
  return index;
}

TensorIndex Graph::addConstant(const TensorId &tensorId, const TensorData &data) {
  const TensorIndex t = addTensor(tensorId, data.info(), TensorType::Const);
  tensor(t).setTensorData(data);
  return t;
}
TensorIndex Graph::addVariable(const TensorId &tensorId, const TensorData &data) {
  const TensorIndex t = addTensor(tensorId, data.info(), TensorType::Variable);
  tensor(t).setTensorData(data);
  return t;
}
TensorIndex Graph::addStream(const TensorId &tensorId, const TensorInfo &info) {
  return addTensor(tensorId, info, TensorType::Stream);
}
TensorIndex Graph::addInput(const TensorId &tensorId, const TensorInfo &info) {
  const TensorIndex t = addTensor(tensorId, info, TensorType::ActGrad);
  inputs_.push_back(t);
  return t;
}
void Graph::markInput(TensorIndex t) { inputs_.push_back(t), ++revision_; }
void Graph::markOutput(TensorIndex t) { outputs_.push_back(t), ++revision_; }

std::vector<TensorId> Graph::getInputIds() const {
  std::vector<TensorId> ids;
  for (TensorIndex t : inputs_) ids.push_back(tensor(t).id);
  return ids;
}
std::vector<TensorId> Graph::getOutputIds() const {
  std::vector<TensorId> ids;
  for (TensorIndex t : outputs_) ids.push_back(tensor(t).id);
  return ids;
}

TensorIndex Graph::find(const TensorId &tensorId) const {
  const auto it = byId_.find(tensorId);
  return it == byId_.end() ? TensorIndex{} : it->second;
}

Tensor *Graph::getTensor(const TensorId &tensorId) const {
  const TensorIndex t = find(tensorId);
  if (t.valid()) return &tensor(t);
  std::vector<std::string> ids;
  for (const auto &entry : byId_) ids.push_back(entry.first);
  throw error("{}: no tensor '{}'{}", getGraphString(), tensorId, nearestText(tensorId, ids, "existing names"));
}

std::vector<Tensor *> Graph::tensors() const {
  std::vector<Tensor *> result;
  for (const auto &t : tensors_)
    if (t) result.push_back(t.get());
  return result;
}
std::vector<Tensor *> Graph::tensorsOfType(TensorType type) const {
  std::vector<Tensor *> result;
  for (const auto &t : tensors_)
    if (t && t->type_ == type) result.push_back(t.get());
  return result;
}

void Graph::renameTensor(TensorIndex t, const TensorId &newId) {
  if (tensor(t).id == newId) return;
  check(!byId_.count(newId), "{}: cannot rename tensor '{}': '{}' exists already", getGraphString(), tensor(t).id,
        newId);
  byId_.erase(tensor(t).id);
  tensor(t).id = newId;
  byId_.emplace(newId, t);
  ++revision_;
}

TensorId Graph::uniqueId(const TensorId &wanted) {
  TensorId candidate = wanted;
  while (byId_.count(candidate)) candidate = wanted + "__t" + std::to_string(ir_->getAndIncrTensorCounter());
  return candidate;
}
TensorId Graph::freeId(const TensorId &wanted) {
  if (!byId_.count(wanted)) return wanted;
  int64_t &number = lastNumbers_[wanted];
  TensorId candidate;
  do candidate = wanted + "/" + std::to_string(++number);
  while (byId_.count(candidate));
  return candidate;
}

// ---- ops ----------------------------------------------------------------------------------------

namespace {

std::unique_ptr<Op> makeOp(const OpDef &def, Attributes attributes, const Op::Settings &settings,
                           std::vector<const Tensor *> inputs, const std::vector<TensorId> &outputIds) {
  if (!def.createRule()) return std::make_unique<Op>(def, std::move(attributes), settings);
  return def.createRule()(OpCreatorInfo(settings, std::move(attributes), std::move(inputs), outputIds));
}

}  // namespace

Op *Graph::addOp(std::unique_ptr<Op> op) {
  op->settings.graph = this;
  op->index_ = OpIndex{static_cast<uint32_t>(ops_.size())};
  op->inputs_.clear();
  op->outputs_.clear();
  ops_.push_back(std::move(op));
  ++opCount_;
  ++revision_;
  return ops_.back().get();
}

Op *Graph::addOp(const OpDef &def, Attributes attributes, Op::Settings settings) {
  settings.graph = this;
  return addOp(makeOp(def, std::move(attributes), settings, {}, {}));
}

Op *Graph::addConnectedOp(const OpDef &def, const std::vector<TensorIndex> &inputs,
                          const std::vector<TensorId> &outputIds, Attributes attributes, Op::Settings settings) {
  settings.graph = this;
  std::vector<const Tensor *> inputTensors;
  for (TensorIndex t : inputs) inputTensors.push_back(t.valid() ? &tensor(t) : nullptr);
  Op *op = addOp(makeOp(def, std::move(attributes), settings, std::move(inputTensors), outputIds));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].valid()) connectInput(op->index_, static_cast<InIndex>(i), inputs[i]);
  for (size_t i = 0; i < outputIds.size(); ++i)
    if (!outputIds[i].empty()) createOutput(op->index_, static_cast<OutIndex>(i), outputIds[i]);
  setupOrErase(*op);
  return op;
}

void Graph::setupOrErase(Op &op) {
  try {
    op.setup();
  } catch (...) {
    eraseOpAndOutputs(op.index_);
    throw;
  }
}

void Graph::connect(Op &op, const std::map<InIndex, TensorId> &in, const std::map<OutIndex, TensorId> &out) {
  try {
    for (const auto &[i, tensorId] : in) connectInput(op.index_, i, getTensor(tensorId)->index());
    for (const auto &[i, tensorId] : out) createOutput(op.index_, i, tensorId);
  } catch (...) {
    eraseOpAndOutputs(op.index_);
    throw;
  }
  setupOrErase(op);
}

void Graph::connectInput(OpIndex o, InIndex i, TensorIndex t) {
  Op &node = op(o);
  if (static_cast<int>(node.inputs_.size()) <= i) node.inputs_.resize(i + 1);
  if (node.inputs_[i].valid()) removeUse(node.inputs_[i], o, i);
  node.inputs_[i] = t;
  tensor(t).uses_.push_back({o, i});
  ++revision_;
}

void Graph::disconnectInput(OpIndex o, InIndex i) {
  Op &node = op(o);
  if (!node.hasInput(i)) return;
  removeUse(node.inputs_[i], o, i);
  node.inputs_[i] = {};
  while (!node.inputs_.empty() && !node.inputs_.back().valid()) node.inputs_.pop_back();
  ++revision_;
}

TensorIndex Graph::createOutput(OpIndex o, OutIndex i, const TensorId &tensorId) {
  const TensorIndex t = addTensor(tensorId, TensorInfo(), TensorType::ActGrad);
  connectOutput(o, i, t);
  return t;
}

void Graph::connectOutput(OpIndex o, OutIndex i, TensorIndex t) {
  Op &node = op(o);
  if (tensor(t).hasProducer())
    throw internal_error("{}: tensor '{}' has a producer already", getGraphString(), tensor(t).id);
  if (static_cast<int>(node.outputs_.size()) <= i) node.outputs_.resize(i + 1);
  if (node.outputs_[i].valid()) disconnectOutput(o, i);
  node.outputs_[i] = t;
  tensor(t).producer_ = o;
  tensor(t).producerOutput_ = i;
  ++revision_;
}

void Graph::disconnectOutput(OpIndex o, OutIndex i) {
  Op &node = op(o);
  if (!node.hasOutput(i)) return;
  tensor(node.outputs_[i]).producer_ = {};
  node.outputs_[i] = {};
  ++revision_;
}

void Graph::removeUse(TensorIndex t, OpIndex o, InIndex i) {
  auto &uses = tensor(t).uses_;
  uses.erase(std::find(uses.begin(), uses.end(), Use{o, i}));
}

void Graph::replaceUse(Use use, TensorIndex newTensor) { connectInput(use.op, use.input, newTensor); }

void Graph::replaceUses(TensorIndex oldTensor, TensorIndex newTensor) {
  if (oldTensor == newTensor) return;
  const std::vector<Use> uses = tensor(oldTensor).uses_;
  tensor(oldTensor).uses_.clear();
  for (const Use &u : uses) {
    op(u.op).inputs_[u.input] = newTensor;
    tensor(newTensor).uses_.push_back(u);
  }
  ++revision_;
}

void Graph::replaceOutputs(TensorIndex oldTensor, TensorIndex newTensor) {
  std::replace(outputs_.begin(), outputs_.end(), oldTensor, newTensor);
  ++revision_;
}

void Graph::eraseOp(OpIndex o) {
  Op &node = op(o);
  for (int i = 0; i < node.inputCount(); ++i)
    if (node.inputs_[i].valid()) removeUse(node.inputs_[i], o, i);
  for (TensorIndex t : node.outputs_)
    if (t.valid()) tensor(t).producer_ = {};
  removeConstraints(o);
  ops_[o.value].reset();
  --opCount_;
  ++revision_;
}

void Graph::eraseOpAndOutputs(OpIndex o) {
  const std::vector<TensorIndex> outputs = op(o).outputs_;
  eraseOp(o);
  for (TensorIndex t : outputs)
    if (t.valid()) eraseTensor(t);
}

void Graph::eraseOp(OpId opId) {
  for (const auto &o : ops_)
    if (o && o->id == opId) return eraseOp(o->index_);
  throw error("{}: there is no op with number {}", getGraphString(), opId);
}

void Graph::eraseTensor(TensorIndex t) {
  if (tensor(t).hasProducer() || !tensor(t).uses_.empty())
    throw internal_error("{}: tensor '{}' cannot be erased: it is still connected", getGraphString(), tensor(t).id);
  byId_.erase(tensor(t).id);
  tensors_[t.value].reset();
  ++revision_;
}

std::vector<Op *> Graph::ops() const {
  std::vector<Op *> result;
  result.reserve(opCount_);
  for (const auto &o : ops_)
    if (o) result.push_back(o.get());
  return result;
}

std::map<OpId, OpPointer> Graph::getOps() const {
  std::map<OpId, OpPointer> result;
  for (Op *op : ops())
    if (!result.emplace(op->id, OpPointer(op)).second)
      throw internal_error("{}: two ops have the number {}", getGraphString(), op->id);
  return result;
}

std::vector<Graph *> Graph::getCalledGraphs() const {
  std::vector<Graph *> result;
  std::set<Graph *> seen;
  for (const auto &o : ops_) {
    if (!o) continue;
    for (Graph *g : o->getCalledGraphs())
      if (seen.insert(g).second) result.push_back(g);
  }
  return result;
}

void Graph::addConstraint(OpIndex before, OpIndex after) { constraints_.emplace_back(before, after), ++revision_; }

void Graph::removeConstraints(OpIndex o) {
  std::erase_if(constraints_, [o](const auto &c) { return c.first == o || c.second == o; });
  ++revision_;
}

void Graph::moveConstraints(OpIndex from, OpIndex to) {
  for (auto &[before, after] : constraints_) {
    if (before == from) before = to;
    if (after == from) after = to;
  }
  std::erase_if(constraints_, [](const auto &pair) { return pair.first == pair.second; });
  ++revision_;
}

}  // namespace popart
