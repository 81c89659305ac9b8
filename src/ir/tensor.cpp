// Tensor: questions about its edges.
#include <popart/tensor.hpp>

#include <algorithm>
#include <unordered_set>

#include <popart/graph.hpp>

namespace popart {

Op *Tensor::getProducerUnsafe() const { return producer_.valid() ? &graph_->op(producer_) : nullptr; }

Op *Tensor::getProducer() const {
  if (!producer_.valid()) throw internal_error("tensor '{}' has no producer", id);
  return &graph_->op(producer_);
}

std::vector<Op *> Tensor::consumerOps() const {
  std::vector<Op *> ops;
  std::unordered_set<OpIndex> seen;
  for (const Use &u : uses_)
    if (seen.insert(u.op).second) ops.push_back(&graph_->op(u.op));
  return ops;
}

std::vector<Op *> Consumers::getOps() const { return tensor_.consumerOps(); }
int Consumers::getTotal() const { return static_cast<int>(tensor_.uses().size()); }
int Consumers::n(const Op *op) const {
  if (&op->getGraph() != &tensor_.getGraph()) return 0;
  return static_cast<int>(std::ranges::count(tensor_.uses(), op->index(), &Use::op));
}

bool Tensor::isGraphInput() const {
  return std::find(graph_->inputs().begin(), graph_->inputs().end(), index_) != graph_->inputs().end();
}
bool Tensor::isGraphOutput() const {
  return std::find(graph_->outputs().begin(), graph_->outputs().end(), index_) != graph_->outputs().end();
}

}  // namespace popart
