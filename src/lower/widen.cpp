// See widen.hpp. FLOAT16 and BFLOAT16 are both called halves here.
#include "lower/widen.hpp"

#include "lower/channels_last.hpp"

namespace popart::lower {
namespace {

bool isHalf(DataType type) { return type == DataType::FLOAT16 || type == DataType::BFLOAT16; }
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

class Widener {
 public:
  Widener(Graph &graph, Op &op) : graph_(graph), op_(op) {}

  void run() {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op_.inputs()) inputs.push_back(t.valid() ? wide(t) : t);
    std::vector<TensorId> ids(op_.outputCount());
    for (int o = 0; o < op_.outputCount(); ++o)
      if (op_.hasOutput(o)) ids[o] = graph_.freeId(op_.outId(o) + "/float32");
    Op *made = graph_.addConnectedOp(op_.def(), inputs, ids, op_.attributes(), inheritSettings(op_, graph_));
    const std::vector<TensorIndex> old = op_.outputs();
    for (size_t o = 0; o < old.size(); ++o) {
      if (!old[o].valid()) continue;
      const TensorIndex narrow = cast(made->outputs()[o], graph_.info(old[o]).dataType());
      graph_.replaceTensor(old[o], narrow);
    }
    graph_.moveConstraints(op_.index(), made->index());
    graph_.eraseOpAndOutputs(op_.index());
  }

 private:
  TensorIndex wide(TensorIndex t) {
    const Tensor &tensor = graph_.tensor(t);
    if (!isHalf(tensor.info.dataType())) return t;
    if (tensor.tensorType() != TensorType::Const) return cast(t, DataType::FLOAT);
    const std::vector<double> values = tensor.tensorData().asDoubles();
    const std::vector<float> floats(values.begin(), values.end());
    return graph_.addConstant(graph_.freeId(tensor.id + "/float32"),
                              TensorData::of<float>(tensor.info.shape(), floats));
  }

  TensorIndex cast(TensorIndex t, DataType type) {
    if (graph_.info(t).dataType() == type) return t;
    return graph_
        .addConnectedOp(opDef("Cast"), {t}, {graph_.freeId(graph_.tensor(t).id + "/cast")},
                        {{"to", int64_t{toOnnxDataType(type)}}}, inheritSettings(op_, graph_))
        ->outputs()[0];
  }

  Graph &graph_;
  Op &op_;
};

}  // namespace

void widenHalves(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (Op *op : graph->ops()) {
      std::string reason;
      if (!mayWiden(*op) || backend.supports(*op, reason)) continue;
      if (op->def().hasDecomposition() || isSpatial(*op) || takesWidened(*op, backend)) Widener(*graph, *op).run();
    }
}

}  // namespace popart::lower
