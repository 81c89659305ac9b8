// See decompose_sums.hpp. The last addition takes over the id of the sum, so names seen outside stay.
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
  Attributes attributes{{"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(info.dataType())}}, {"init_type", int64_t{1}}};
  const TensorId id = graph.freeId(sum.outId(0) + "_init");
  return graph.addConnectedOp(opDef("Init"), {}, {id}, attributes, inheritSettings(sum, graph, "init"))->outputs()[0];
}

}  // namespace

void decomposeSums(Graph &graph) {
  for (Op *sum : graph.ops()) {
    if (!sum->is("Sum") || !termsHaveTheSumsInfo(*sum)) continue;
    const TensorIndex old = sum->outputs()[0];
    const TensorId id = sum->outId(0);
    TensorIndex total = emitZero(graph, *sum, sum->outInfo(0));
    for (TensorIndex term : sum->inputs()) {
      const Op *add = graph.addConnectedOp(opDef("AddLhsInplace"), {total, term}, {graph.freeId(id + "_partial")}, {},
                                           inheritSettings(*sum, graph, "add"));
      total = add->outputs()[0];
    }
    graph.replaceUses(old, total);
    graph.replaceOutputs(old, total);
    graph.eraseOp(sum->index());
    graph.eraseTensor(old);
    graph.renameTensor(total, id);
  }
}

}  // namespace popart::transforms
