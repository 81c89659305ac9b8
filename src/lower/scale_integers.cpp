#include "lower/scale_integers.hpp"

#include <algorithm>

#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// The input for the scale of an integer product, from its row; -1 for other ops.
int placeOfScale(const Op &op) {
  const auto &rows = op.def().inputs();
  const auto named = [&](const char *name) {
    return std::ranges::find_if(rows, [&](const auto &row) { return row.name == name; });
  };
  const auto scale = named("scale");
  return scale == rows.end() || named("y_zero") == rows.end() ? -1 : static_cast<int>(scale - rows.begin());
}
bool isIntegerProduct(const Op &op) { return placeOfScale(op) >= 0 && op.outInfo(0).dataType() == DataType::INT32; }

// The only reader of the result of `op`; else null.
Op *onlyReader(const Op &op) {
  const Graph &graph = op.getGraph();
  const TensorIndex result = op.outputs()[0];
  const std::vector<Op *> readers = graph.tensor(result).consumerOps();
  const bool isOutput = std::ranges::find(graph.outputs(), result) != graph.outputs().end();
  return !isOutput && readers.size() == 1 && !staysApart(op, *readers.front()) ? readers.front() : nullptr;
}

// Whether the op converts values, instead of reinterpreting bits.
bool isCast(const Op &op) { return op.has(Trait::Conversion) && isElementwise(op); }

// Whether a tensor that is broadcast to the product's result has one number, or one for each column.
bool isScale(const Op &product, const TensorInfo &info) {
  if (info.dataType() != DataType::FLOAT || info.rank() > product.outRank(0)) return false;
  if (info.nelms() == 1) return true;
  const int fromEnd = isSpatial(product) ? product.outRank(0) - 1 : 1;
  const int64_t columns = product.outShape(0)[static_cast<size_t>(product.outRank(0) - fromEnd)];
  return info.rank() >= fromEnd && info.nelms() == columns &&
         info.shape()[static_cast<size_t>(info.rank() - fromEnd)] == columns;
}

void takeScale(Graph &graph, Op &product, const executable::Backend &backend) {
  Op *cast = onlyReader(product);
  if (!cast || !isCast(*cast) || cast->outInfo(0).dataType() != DataType::FLOAT) return;
  Op *mul = onlyReader(*cast);
  if (!mul || !mul->is(Role::Mul) || mul->inputCount() != 2 || mul->inputs()[0] == mul->inputs()[1]) return;
  TensorIndex factor = mul->inputs()[mul->inputs()[0] == cast->outputs()[0] ? 1 : 0];
  const TensorInfo &info = graph.info(factor);
  if (mul->outShape(0) != product.outShape(0) || !isScale(product, info)) return;
  Op *list = nullptr;
  if (info.nelms() > 1 && info.rank() > 1) {
    list =
        graph.addConnectedOp(opDef("Reshape"), {factor}, {graph.freeId(graph.tensor(factor).id + "/list")},
                             {{"shape", Shape{info.nelms()}}, {"allowzero", int64_t{1}}}, inheritSettings(*mul, graph));
    factor = list->outputs()[0];
  }
  std::vector<TensorIndex> inputs = product.inputs();
  const auto place = static_cast<size_t>(placeOfScale(product));
  inputs.resize(place + 1);
  inputs[place] = factor;
  const Op *scaled =
      tryReplace(graph, {product.def(), inputs, product.attributes(), inheritSettings(*mul, graph), mul->outputs()},
                 [&](const Op &op) { return hasKernel(op, backend); });
  if (!scaled) {
    if (list) graph.eraseOpAndOutputs(list->index());
    return;
  }
  for (Op *op : {mul, cast, &product}) graph.eraseOpAndOutputs(op->index());
}

}  // namespace

void scaleIntegerProducts(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    for (OpIndex o : schedule::orderOps(*graph))
      if (graph->alive(o) && isIntegerProduct(graph->op(o))) takeScale(*graph, graph->op(o), backend);
}

}  // namespace popart::lower
