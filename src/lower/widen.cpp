// See widen.hpp. FLOAT16 and BFLOAT16 are both called halves here.
#include "lower/widen.hpp"

#include "lower/attention_match.hpp"
#include "lower/channels_last.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::lower {
namespace {

TensorInfo widened(const TensorInfo &info) {
  return isHalf(info.dataType()) ? TensorInfo(DataType::FLOAT, info.shape()) : info;
}

bool readsHalves(const Op &op) {
  for (int i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i) && isHalf(op.inInfo(i).dataType())) return true;
  return false;
}

bool mayWiden(const Op &op) {
  const bool keeps = op.has(Trait::Call | Trait::HostIo | Trait::View | Trait::SideEffect | Trait::Conversion);
  return !keeps && !op.isUserOp() && readsHalves(op);
}

executable::OperandDesc widenedOperand(const Graph &graph, TensorIndex t) {
  if (!t.valid()) return {TensorInfo(), {}, nullptr, false};
  const Tensor &tensor = graph.tensor(t);
  const bool known = tensor.tensorType() == TensorType::Const && !isHalf(tensor.info.dataType());
  return {widened(tensor.info), {}, known ? &tensor.tensorData() : nullptr, true};
}

bool takesWidened(const Op &op, const executable::Backend &backend) {
  executable::KernelRequest request{&op, {}, {}};
  for (TensorIndex t : op.inputs()) request.inputs.push_back(widenedOperand(op.getGraph(), t));
  for (TensorIndex t : op.outputs()) request.outputs.push_back(widenedOperand(op.getGraph(), t));
  std::string reason;
  return backend.createKernel(request, reason) != nullptr;
}

TensorIndex cast(const Op &op, TensorIndex t, DataType type) {
  Graph &graph = op.getGraph();
  if (graph.info(t).dataType() == type) return t;
  Op::Settings settings = inheritSettings(op, graph);
  // Values that a gradient reads from the forward pass are kept in 16 bits and widened late: no cast of that pass is
  // reused.
  const Op *producer = graph.tensor(t).getProducerUnsafe();
  if (type == DataType::FLOAT && op.has(Trait::Gradient) && producer && !producer->has(Trait::Gradient))
    settings.recomputeType = RecomputeType::Recomputed;
  return graph
      .addConnectedOp(opDef("Cast"), {t}, {graph.freeId(graph.tensor(t).id + "/cast")},
                      {{"to", int64_t{toOnnxDataType(type)}}}, std::move(settings))
      ->outputs()[0];
}

TensorIndex wide(const Op &op, TensorIndex t) {
  Graph &graph = op.getGraph();
  const Tensor &tensor = graph.tensor(t);
  if (!isHalf(tensor.info.dataType())) return t;
  if (tensor.tensorType() != TensorType::Const) return cast(op, t, DataType::FLOAT);
  const std::vector<double> values = tensor.tensorData().asDoubles();
  const std::vector<float> floats(values.begin(), values.end());
  return graph.addConstant(graph.freeId(tensor.id + "/float32"), TensorData::of<float>(tensor.info.shape(), floats));
}

}  // namespace

void computeInFloat(Op &op, Attributes attributes, const Narrow &narrow) {
  Graph &graph = op.getGraph();
  std::vector<TensorIndex> inputs;
  for (TensorIndex t : op.inputs()) inputs.push_back(t.valid() ? wide(op, t) : t);
  std::vector<TensorId> ids(op.outputCount());
  for (int o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) ids[o] = graph.freeId(op.outId(o) + "/float32");
  ops::stateLeastProbability(op, attributes);
  const Op *made = graph.addConnectedOp(op.def(), inputs, ids, std::move(attributes), inheritSettings(op, graph));
  const std::vector<TensorIndex> old = op.outputs();
  for (size_t o = 0; o < old.size(); ++o) {
    if (!old[o].valid()) continue;
    const TensorIndex fresh = made->outputs()[o];
    const DataType type = graph.info(old[o]).dataType();
    graph.replaceTensor(old[o], graph.info(fresh).dataType() == type ? fresh : narrow(fresh, type));
  }
  graph.moveConstraints(op.index(), made->index());
  graph.eraseOpAndOutputs(op.index());
}

void widenHalves(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (Op *op : graph->ops()) {
      // fuseAttention matches FLOAT; multiplyHalves narrows the ops that it did not match.
      if (!mayWiden(*op) || (!mayBeAttention(*op) && hasKernel(*op, backend))) continue;
      if (op->def().hasDecomposition() || isSpatial(*op) || takesWidened(*op, backend))
        computeInFloat(*op, op->attributes(), [&](TensorIndex t, DataType type) { return cast(*op, t, type); });
    }
}

}  // namespace popart::lower
