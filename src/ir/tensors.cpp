// Tensors and TopoCons: look-ups in graphs by id and by op.
#include <popart/tensors.hpp>

#include <algorithm>
#include <set>

#include <popart/graph.hpp>

#include "base/nearest.hpp"

namespace popart {

Tensor *Tensors::find(const TensorId &id) const {
  for (const Graph *graph : graphs_)
    if (const TensorIndex t = graph->find(id); t.valid()) return &graph->tensor(t);
  return nullptr;
}

Tensor *Tensors::get(const TensorId &id) const {
  Tensor *tensor = find(id);
  if (!tensor) throw error("no tensor '{}'{}", id, nearestText(id, getAllTensorIds(), "existing names"));
  return tensor;
}

bool Tensors::contains(const TensorId &id) const { return find(id) != nullptr; }

std::vector<Tensor *> Tensors::getAll() const {
  std::vector<Tensor *> result;
  for (const Graph *graph : graphs_)
    for (Tensor *t : graph->tensors()) result.push_back(t);
  return result;
}

std::vector<Tensor *> Tensors::getOfType(TensorType type) const {
  std::vector<Tensor *> result = getAll();
  std::erase_if(result, [type](const Tensor *t) { return t->tensorType() != type; });
  return result;
}

std::vector<TensorId> Tensors::getAllTensorIds() const {
  std::vector<TensorId> ids;
  for (const Tensor *t : getAll()) ids.push_back(t->id);
  return ids;
}

std::vector<TensorId> Tensors::getIds(TensorType type) const {
  std::vector<TensorId> ids;
  for (const Tensor *t : getOfType(type)) ids.push_back(t->id);
  return ids;
}

// ---- constraints

namespace {

void requireOf(const Graph &graph, const Op *op) {
  check(&op->getGraph() == &graph, "topoCons of {}: {} is an op of {}: expected one of this graph",
        graph.getGraphString(), op->debugName(), op->getGraph().getGraphString());
}

// The ops that `other` finds in the constraints, in creation order.
template <class Other>
std::vector<Op *> inOrder(const Graph &graph, Other &&other) {
  std::set<OpIndex> found;
  for (const auto &pair : graph.constraints())
    if (const OpIndex o = other(pair); o.valid()) found.insert(o);
  std::vector<Op *> result;
  for (OpIndex o : found) result.push_back(&graph.op(o));
  return result;
}

}  // namespace

void TopoCons::insert(Op *before, Op *after, bool) const {
  requireOf(graph_, before);
  requireOf(graph_, after);
  check(before != after, "topoCons of {}: {} cannot run before itself", graph_.getGraphString(), before->debugName());
  if (!contains(before, after)) graph_.addConstraint(before->index(), after->index());
}

bool TopoCons::contains(const Op *before, const Op *after) const {
  requireOf(graph_, before);
  requireOf(graph_, after);
  return std::ranges::count(graph_.constraints(), std::pair(before->index(), after->index())) > 0;
}

std::vector<Op *> TopoCons::getBefores(const Op *after) const {
  requireOf(graph_, after);
  return inOrder(graph_, [after](const auto &pair) { return pair.second == after->index() ? pair.first : OpIndex(); });
}

std::vector<Op *> TopoCons::getAfters(const Op *before) const {
  requireOf(graph_, before);
  return inOrder(graph_,
                 [before](const auto &pair) { return pair.first == before->index() ? pair.second : OpIndex(); });
}

void TopoCons::remove(const Op *op) const {
  requireOf(graph_, op);
  graph_.removeConstraints(op->index());
}

}  // namespace popart
