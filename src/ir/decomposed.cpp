#include "ir/decomposed.hpp"

namespace popart {

std::vector<TensorIndex> decomposed(Graph &graph, const Op &op) {
  DecomposeBuilder builder(graph, op);
  op.def().decomposeRule()(builder);
  for (int o = 0; o < op.outputCount(); ++o) {
    if (!op.hasOutput(o)) continue;
    const TensorIndex fresh = builder.results()[o];
    if (!fresh.valid()) throw internal_error("{}: its decomposition gives no tensor for output {}", op.debugName(), o);
    const TensorInfo &made = graph.info(fresh), &wanted = op.outInfo(o);  // meta shapes belong to sharding
    if (made.dataType() != wanted.dataType() || made.shape() != wanted.shape())
      throw internal_error("{}: its decomposition gives {} for output {}, expected {}", op.debugName(), made, o,
                           wanted);
  }
  return builder.results();
}

std::vector<TensorIndex> replaceByDecomposition(Graph &graph, Op &op) {
  const std::vector<TensorIndex> results = decomposed(graph, op);
  for (int o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) graph.replaceTensor(op.outputs()[o], results[o]);
  graph.moveConstraints(op.index(),
                        graph.tensor(results[0]).hasProducer() ? graph.tensor(results[0]).producerIndex() : op.index());
  graph.eraseOpAndOutputs(op.index());
  return results;
}

}  // namespace popart
