// See decompose_sums.hpp. The last addition gets the output tensor of the sum, so its id and uses do not change.
#include "transforms/decompose_sums.hpp"

#include <algorithm>

#include <popart/ir.hpp>
#include <popart/tensornames.hpp>

#include "ir/hints.hpp"

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

// Gradients are recognised by the prefix of their names, after the scopes of subgraphs.
bool sumsGradients(const Op &op) {
  return op.is(Role::Sum) && op.outId(0).find(reservedGradientPrefix()) != TensorId::npos;
}

// Place in program order (decisions/0006) of the op that makes a tensor; before all ops if none does.
int64_t placeOf(const Graph &graph, TensorIndex t) {
  const Tensor &tensor = graph.tensor(t);
  if (!tensor.hasProducer()) return 0;
  return graph.op(tensor.producerIndex()).place();
}

}  // namespace

void decomposeSum(Graph &graph, Op &sum) {
  if (!sum.is(Role::Sum) || sum.inputCount() < 3 || !termsHaveTheSumsInfo(sum)) return;
  const TensorIndex result = sum.outputs()[0];
  const std::vector<TensorIndex> terms = sum.inputs();
  TensorIndex total = terms[0];
  int64_t place = placeOf(graph, total);
  for (size_t i = 1; i < terms.size(); ++i) {
    Op::Settings settings = inheritSettings(sum, graph, "add");
    place = std::max(place, placeOf(graph, terms[i]));
    settings.sequence = place;
    settings.hints.emplace(kKeepApart, "1");
    Op *add = graph.addOp(opDef("Add"), {}, settings);
    graph.connectInput(add->index(), 0, total);
    graph.connectInput(add->index(), 1, terms[i]);
    if (i + 1 == terms.size()) {
      graph.disconnectOutput(sum.index(), 0);
      graph.connectOutput(add->index(), 0, result);
    } else {
      total = graph.createOutput(add->index(), 0, graph.freeId(graph.tensor(result).id + "_partial"));
    }
    add->setup();
  }
  graph.eraseOp(sum.index());
}

void decomposeGradientSums(Graph &graph) {
  for (Op *op : graph.ops())
    if (sumsGradients(*op)) decomposeSum(graph, *op);
}

void decomposeSums(Graph &graph) {
  for (Op *sum : graph.ops()) {
    if (!sum->is(Role::Sum) || !termsHaveTheSumsInfo(*sum)) continue;
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
