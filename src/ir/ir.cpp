// Ir: graphs by id and the counters; deep copy.
#include <popart/ir.hpp>

#include <atomic>
#include <ostream>

namespace popart {
namespace {

std::atomic<uint64_t> nextIrId{0};

void copyTensors(const Graph &from, Graph &to, std::vector<TensorIndex> &mapping) {
  mapping.resize(from.tensorSlots());
  for (Tensor *t : from.tensors()) {
    const TensorIndex n = to.addTensor(t->id, t->info, t->tensorType());
    Tensor &copy = to.tensor(n);
    if (t->hasTensorData()) copy.setTensorData(t->tensorData());
    copy.variableSettings = t->variableSettings;
    copy.isOptimizerState = t->isOptimizerState;
    copy.isRemote = t->isRemote;
    copy.byReference = t->byReference;
    copy.layout = t->layout;
    mapping[t->index().value] = n;
  }
}

void copyOps(const Graph &from, Graph &to, const std::vector<TensorIndex> &tensors) {
  std::vector<OpIndex> ops(from.opSlots());
  for (Op *op : from.ops()) {
    Op *copy = to.addOp(op->clone());
    ops[op->index().value] = copy->index();
    for (int i = 0; i < op->inputCount(); ++i)
      if (op->hasInput(i)) to.connectInput(copy->index(), i, tensors[op->inputs()[i].value]);
    for (int i = 0; i < op->outputCount(); ++i)
      if (op->hasOutput(i)) to.connectOutput(copy->index(), i, tensors[op->outputs()[i].value]);
  }
  for (const auto &[before, after] : from.constraints()) to.addConstraint(ops[before.value], ops[after.value]);
}

}  // namespace

Ir::Ir() : irId_(nextIrId++) { graphs_.emplace("", std::make_unique<Graph>(*this, "")); }
Ir::~Ir() = default;

Graph &Ir::getGraph(const GraphId &graphId) const {
  const auto it = graphs_.find(graphId);
  check(it != graphs_.end(), "Ir: no graph '{}'", graphId);
  return *it->second;
}

Graph &Ir::createGraph(const GraphId &graphId) {
  check(!graphs_.count(graphId), "Ir: graph '{}' exists already. Choose another name", graphId);
  return *graphs_.emplace(graphId, std::make_unique<Graph>(*this, graphId)).first->second;
}

void Ir::removeGraph(const GraphId &graphId) {
  check(!graphId.empty(), "Ir: the main graph cannot be removed");
  graphs_.erase(graphId);
}

std::vector<Graph *> Ir::getAllGraphs() const {
  std::vector<Graph *> result;
  for (const auto &entry : graphs_) result.push_back(entry.second.get());
  return result;
}

GraphId Ir::createUniqueSubgraphId(const std::string &base) {
  return base + "_subgraph(" + std::to_string(getAndIncrSubgraphCounter()) + ")";
}

std::vector<Op *> Ir::opsOfType(std::string_view type) const {
  std::vector<Op *> result;
  for (Graph *g : getAllGraphs())
    for (Op *op : g->ops())
      if (op->is(type)) result.push_back(op);
  return result;
}

std::vector<Op *> Ir::opsOfType(const OperatorIdentifier &opid) const {
  std::vector<Op *> result;
  for (Graph *g : getAllGraphs())
    for (Op *op : g->ops())
      if (op->opid == opid) result.push_back(op);
  return result;
}

Tensors Ir::getTensors() const {
  const std::vector<Graph *> graphs = getAllGraphs();
  return Tensors({graphs.begin(), graphs.end()});
}

void Ir::serialise(SerialiseFormat, std::ostream &out, bool useScheduler) const {
  out << serialiseJson(*this, "", useScheduler);
}

void Ir::takeGraphs(Ir &from) {
  graphs_ = std::move(from.graphs_);
  for (const auto &entry : graphs_) entry.second->ir_ = this;
  nextOpId_ = from.nextOpId_;
  nextTensor_ = from.nextTensor_;
  nextSubgraph_ = from.nextSubgraph_;
}

std::unique_ptr<Ir> Ir::clone() const {
  auto copy = std::make_unique<Ir>();
  copy->origin_ = origin_;
  for (Graph *g : getAllGraphs()) {
    Graph &to = g->isMain() ? copy->getMainGraph() : copy->createGraph(g->id);
    std::vector<TensorIndex> tensors;
    copyTensors(*g, to, tensors);
    copyOps(*g, to, tensors);
    auto mapped = [&](const std::vector<TensorIndex> &list) {
      std::vector<TensorIndex> result;
      for (TensorIndex t : list) result.push_back(tensors[t.value]);
      return result;
    };
    to.setInputs(mapped(g->inputs()));
    to.setOutputs(mapped(g->outputs()));
  }
  copy->nextOpId_ = nextOpId_;
  copy->nextTensor_ = nextTensor_;
  copy->nextSubgraph_ = nextSubgraph_;
  return copy;
}

}  // namespace popart
