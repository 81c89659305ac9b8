// See variables.hpp.
#include "transforms/variables.hpp"

#include <vector>

#include <popart/tensornames.hpp>

namespace popart::transforms {

bool isAccumulator(const Tensor &variable) { return variable.id.starts_with(reservedAccumPrefix()); }

TensorIndex variableOf(const Graph &graph, TensorIndex t) {
  while (graph.tensor(t).hasProducer()) {
    const Op &producer = *graph.tensor(t).getProducer();
    const OutIndex output = graph.tensor(t).producerOutput();
    TensorIndex source;
    for (const AliasDef &alias : producer.def().aliasRules())
      if (alias.modifies && alias.output == output && producer.hasInput(alias.input))
        source = producer.inputs()[static_cast<size_t>(alias.input)];
    if (!source.valid()) return {};
    t = source;
  }
  return graph.tensor(t).tensorType() == TensorType::Variable ? t : TensorIndex{};
}

std::set<TensorIndex> memoryShownBy(const Graph &graph, TensorIndex t) {
  std::set<TensorIndex> memory, seen{t};
  std::vector<TensorIndex> stack{t};
  while (!stack.empty()) {
    const Tensor &shown = graph.tensor(stack.back());
    stack.pop_back();
    if (!shown.hasProducer()) {
      memory.insert(shown.index());
      continue;
    }
    const Op &producer = *shown.getProducer();
    for (InIndex i = 0; i < producer.inputCount(); ++i) {
      const TensorIndex source = producer.inputs()[static_cast<size_t>(i)];
      if (source.valid() && producer.aliasesInput(i, shown.producerOutput()) && seen.insert(source).second)
        stack.push_back(source);
    }
  }
  return memory;
}

std::set<TensorIndex> variablesShownBy(const Graph &graph, TensorIndex t) {
  std::set<TensorIndex> variables = memoryShownBy(graph, t);
  std::erase_if(variables, [&](TensorIndex m) { return graph.tensor(m).tensorType() != TensorType::Variable; });
  return variables;
}

}  // namespace popart::transforms
