// See try_replace.hpp. The old results are renamed first, so that the outputs of the new op have the final ids.
#include "lower/try_replace.hpp"

namespace popart::lower {

Op *tryReplace(Graph &graph, Replacement r, const std::function<bool(const Op &)> &accepts) {
  std::vector<TensorId> ids;
  for (TensorIndex t : r.results) {
    ids.push_back(t.valid() ? graph.tensor(t).id : TensorId());
    if (t.valid()) graph.renameTensor(t, graph.freeId(ids.back() + "/replaced"));
  }
  Op *made = graph.addConnectedOp(r.def, r.inputs, ids, std::move(r.attributes), std::move(r.settings));
  if (!accepts(*made)) {
    graph.eraseOpAndOutputs(made->index());
    for (size_t i = 0; i < ids.size(); ++i)
      if (r.results[i].valid()) graph.renameTensor(r.results[i], ids[i]);
    return nullptr;
  }
  for (size_t i = 0; i < r.results.size(); ++i)
    if (r.results[i].valid()) graph.replaceTensor(r.results[i], made->outputs()[i]);
  return made;
}

}  // namespace popart::lower
