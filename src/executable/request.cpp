// Makes requests for kernels from the graph, and the cost of the resulting kernels.
#include <popart/graph.hpp>

#include "executable/channel_slice.hpp"
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

std::shared_ptr<const Kernel> withCost(std::unique_ptr<Kernel> kernel, const KernelRequest &request) {
  kernel->cost_ = costOf(*request.op);
  kernel->hasCost_ = true;
  auto addPadding = [](const std::vector<OperandDesc> &operands, double &bytes) {
    for (const OperandDesc &o : operands)
      if (o.connected && o.layout && channelsOfWhole(o.layout) == 0)
        bytes += static_cast<double>(o.layout->bytes(o.info) - o.info.nbytes());
  };
  addPadding(request.inputs, kernel->cost_.bytesRead);
  addPadding(request.outputs, kernel->cost_.bytesWritten);
  return kernel;
}

bool isFreeView(const Op &op) {
  return op.has(Trait::View) && !op.isUserOp() && op.inTensor(0)->layout.empty() && op.outTensor(0)->layout.empty();
}

bool takesNoStep(const Op &op) {
  return isFreeView(op) || op.is(Role::LoopRow) || op.is(Role::VariableAssign) || joinsSlices(op);
}

const Layout *layoutOf(const Tensor &tensor) { return layoutNamed(tensor.layout); }

void setLayout(Tensor &tensor, const Layout *layout) { tensor.layout = layout ? layout->name() : std::string(); }

}  // namespace popart::executable
