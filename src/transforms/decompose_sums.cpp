// See decompose_sums.hpp. The last addition takes over the sum's output tensor, so ids and uses seen outside stay.
#include "transforms/decompose_sums.hpp"

#include <popart/ir.hpp>

namespace popart::transforms {
namespace {

bool termsHaveTheSumsInfo(const Op &sum) {
  for (TensorIndex t : sum.inputs())
    if (!t.valid() || sum.getGraph().info(t) != sum.outInfo(0)) return false;
  return true;
}

TensorIndex emitZero(Graph &graph, const Op &sum, const TensorInfo &info) {
  Attributes attributes{
      {"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(info.dataType())}}, {"init_type", int64_t{1}}};
  const TensorId id = graph.freeId(sum.outId(0) + "_init");
  return graph.addConnectedOp(opDef("Init"), {}, {id}, attributes, inheritSettings(sum, graph, "init"))->outputs()[0];
}

}  // namespace

void decomposeSums(Graph &graph) {
  for (Op *sum : graph.ops()) {
    if (!sum->is("Sum") || !termsHaveTheSumsInfo(*sum)) continue;
    const TensorIndex result = sum->outputs()[0];
    TensorIndex total = emitZero(graph, *sum, sum->outInfo(0));
    for (size_t i = 0; i < sum->inputs().size(); ++i) {
      Op *add = graph.addOp(opDef("AddLhsInplace"), {}, inheritSettings(*sum, graph, "add"));
      graph.connectInput(add->index(), 0, total);
      graph.connectInput(add->index(), 1, sum->inputs()[i]);
      if (i + 1 == sum->inputs().size()) {
        graph.disconnectOutput(sum->index(), 0);
        graph.connectOutput(add->index(), 0, result);
      } else {
        total = graph.createOutput(add->index(), 0, graph.freeId(graph.tensor(result).id + "_partial"));
      }
      add->setup();
    }
    graph.eraseOp(sum->index());
  }
}

}  // namespace popart::transforms
