// See float8_products.hpp.
#include "lower/float8_products.hpp"

#include "ops/nn/products.hpp"

namespace popart::lower {
namespace {

constexpr int kProductScale = 2;

// The input that is a log2 scale; -1: none.
InIndex scaleInput(const Op &op) {
  if (ops::isScaledProduct(op)) return kProductScale;
  const auto &rows = op.def().inputs();
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == "log2_scale" && op.hasInput(static_cast<InIndex>(i))) return static_cast<InIndex>(i);
  return -1;
}

bool isKnownToFit(const Tensor &scale) {
  if (scale.tensorType() != TensorType::Const || !scale.hasTensorData()) return false;
  const int64_t value = scale.tensorData().asInts().at(0);
  return value >= -32 && value < 32;
}

void addCheck(const Op &op, InIndex scale) {
  Graph &graph = op.getGraph();
  graph.addConnectedOp(opDef("CheckLog2Scale"), {op.inputs()[static_cast<size_t>(scale)]}, {},
                       {{"checked_op", op.debugName()}}, inheritSettings(op, graph));
}

void widen(Op &op) {
  Graph &graph = op.getGraph();
  OpEmitter emitter(graph, op);
  const auto inFloat = [&](int i, TensorIndex scale) {
    return emitter.emit("CastThenPow2Scale", {op.inputs()[static_cast<size_t>(i)], scale},
                        {{"to", int64_t{toOnnxDataType(DataType::FLOAT)}}});
  };
  const TensorIndex a = inFloat(0, op.inputs()[kProductScale]), b = inFloat(1, emitter.scalar(DataType::INT32, 0));
  Attributes attributes = op.attributes();
  attributes.erase("output_type");
  const TensorIndex wide = emitter.emit(op.def().type(), {a, b}, std::move(attributes));
  const TensorIndex narrow = emitter.emit("Cast", {wide}, {{"to", int64_t{toOnnxDataType(op.outInfo(0).dataType())}}});
  graph.replaceTensor(op.outputs()[0], narrow);
  graph.moveConstraints(op.index(), graph.tensor(narrow).getProducer()->index());
  graph.eraseOpAndOutputs(op.index());
}

}  // namespace

void widenFloat8(Ir &flat, bool checkScales) {
  for (Graph *graph : flat.getAllGraphs())
    for (Op *op : graph->ops()) {
      const InIndex scale = op->has(Trait::SideEffect) ? -1 : scaleInput(*op);
      if (scale < 0) continue;
      if (checkScales && !isKnownToFit(*op->inTensor(scale))) addCheck(*op, scale);
      if (ops::isScaledProduct(*op)) widen(*op);
    }
}

}  // namespace popart::lower
