// Tensor: questions about its edges.
#include <popart/tensor.hpp>

#include <algorithm>

#include <popart/graph.hpp>

namespace popart {

Op *Tensor::getProducerUnsafe() const { return producer_.valid() ? &graph_->op(producer_) : nullptr; }

Op *Tensor::getProducer() const {
  if (!producer_.valid()) throw internal_error("tensor '{}' has no producer", id);
  return &graph_->op(producer_);
}

std::vector<Op *> Tensor::consumerOps() const {
  std::vector<Op *> ops;
  for (const Use &u : uses_) {
    Op *op = &graph_->op(u.op);
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
  }
  return ops;
}

bool Tensor::isGraphInput() const {
  return std::find(graph_->inputs().begin(), graph_->inputs().end(), index_) != graph_->inputs().end();
}
bool Tensor::isGraphOutput() const {
  return std::find(graph_->outputs().begin(), graph_->outputs().end(), index_) != graph_->outputs().end();
}

}  // namespace popart
