// See variables.hpp.
#include "transforms/variables.hpp"

#include <popart/tensornames.hpp>

namespace popart::transforms {

bool isAccumulator(const Tensor &variable) { return variable.id.starts_with(reservedAccumPrefix()); }

TensorIndex variableOf(const Graph &graph, TensorIndex t, Follow follow) {
  while (graph.tensor(t).hasProducer()) {
    const Op &producer = *graph.tensor(t).getProducer();
    const OutIndex output = graph.tensor(t).producerOutput();
    TensorIndex source;
    for (const AliasDef &alias : producer.def().aliasRules())
      if ((alias.modifies || follow == Follow::Views) && alias.output == output && producer.hasInput(alias.input))
        source = producer.inputs()[static_cast<size_t>(alias.input)];
    if (!source.valid()) return {};
    t = source;
  }
  return graph.tensor(t).tensorType() == TensorType::Variable ? t : TensorIndex{};
}

}  // namespace popart::transforms
