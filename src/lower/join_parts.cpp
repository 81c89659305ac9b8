// See join_parts.hpp. The memory plan puts the updates into one piece of memory.
#include "lower/join_parts.hpp"

#include <algorithm>

#include "ir/hints.hpp"
#include "ops/rules.hpp"

namespace popart::lower {
namespace {

bool joinsParts(const Graph &graph, const Op &op) {
  if (!op.def().writeBackRule() || op.def().inputs()[0].arity != Arity::Variadic || op.inputCount() < 2) return false;
  return std::ranges::all_of(op.inputs(), [&](TensorIndex t) {
    const Tensor &part = graph.tensor(t);
    if (!part.hasProducer() || part.isGraphOutput()) return false;
    const auto &hints = part.getProducer()->settings.hints;
    return hints.count(kBatchPart) || (hints.count(kSerialised) && part.uses().size() == 1);
  });
}

void joinEarly(Graph &graph, Op &join) {
  const TensorIndex result = join.outputs()[0];
  const TensorInfo info = graph.info(result);
  const TensorId id = graph.tensor(result).id;
  const int64_t axis = ops::axisOf(join.attributes(), info.rank());
  auto emit = [&](const char *type, const std::vector<TensorIndex> &inputs, const Attributes &attributes,
                  const Op &origin) {
    return graph
        .addConnectedOp(opDef(type), inputs, {graph.freeId(id + "/joined")}, attributes, inheritSettings(origin, graph))
        ->outputs()[0];
  };
  std::vector<TensorIndex> parts = join.inputs();
  std::vector<int64_t> starts;
  int64_t size = 0;
  for (TensorIndex part : parts) starts.push_back(size), size += graph.info(part).dim(static_cast<int>(axis));
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto maker = [&](size_t i) -> const Op & { return *graph.tensor(parts[i]).getProducer(); };
  std::ranges::stable_sort(order, {}, [&](size_t i) { return maker(i).place(); });
  TensorIndex whole =
      emit("Init", {},
           {{"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(info.dataType())}}, {"init_type", int64_t{0}}},
           maker(order[0]));
  for (size_t i : order) {
    const int64_t end = starts[i] + graph.info(parts[i]).dim(static_cast<int>(axis));
    whole = emit("SliceUpdate", {whole, parts[i]},
                 {{"axes", std::vector<int64_t>{axis}},
                  {"starts", std::vector<int64_t>{starts[i]}},
                  {"ends", std::vector<int64_t>{end}}},
                 maker(i));
  }
  graph.moveConstraints(join.index(), graph.tensor(whole).producerIndex());
  graph.replaceTensor(result, whole);
  graph.eraseOpAndOutputs(join.index());
  graph.renameTensor(whole, id);
}

}  // namespace

void joinPartsEarly(Ir &flat) {
  for (Graph *graph : flat.getAllGraphs())
    for (Op *op : graph->ops())
      if (joinsParts(*graph, *op)) joinEarly(*graph, *op);
}

}  // namespace popart::lower
