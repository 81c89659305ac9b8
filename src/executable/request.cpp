// Requests for kernels, read off the graph.
#include <popart/graph.hpp>

#include "executable/kernel.hpp"

namespace popart::executable {
namespace {

OperandDesc describe(const Graph &graph, TensorIndex t) {
  if (!t.valid()) return {TensorInfo(), nullptr, nullptr, false};
  const Tensor &tensor = graph.tensor(t);
  const bool known = tensor.tensorType() == TensorType::Const && tensor.layout.empty();
  return {tensor.info, layoutOf(tensor), known ? &tensor.tensorData() : nullptr, true};
}

}  // namespace

KernelRequest requestOf(const Op &op) {
  KernelRequest request{&op, {}, {}};
  for (TensorIndex t : op.inputs()) request.inputs.push_back(describe(op.getGraph(), t));
  for (TensorIndex t : op.outputs()) request.outputs.push_back(describe(op.getGraph(), t));
  return request;
}

bool isFreeView(const Op &op) {
  return op.has(Trait::View) && !op.isUserOp() && op.inTensor(0)->layout.empty() && op.outTensor(0)->layout.empty();
}

bool takesNoStep(const Op &op) { return isFreeView(op) || op.is(Role::LoopRow) || op.is(Role::VariableAssign); }

const Layout *layoutOf(const Tensor &tensor) { return layoutNamed(tensor.layout); }

void setLayout(Tensor &tensor, const Layout *layout) { tensor.layout = layout ? layout->name() : std::string(); }

}  // namespace popart::executable
