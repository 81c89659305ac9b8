// Replacing ops by one that the backend may refuse.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart::lower {

// An op that would make the tensors `results`, whose ids it takes over.
struct Replacement {
  const OpDef &def;
  std::vector<TensorIndex> inputs;
  Attributes attributes;
  Op::Settings settings;
  std::vector<TensorIndex> results;
};

// Puts the op into the graph. When `accepts` it, readers of the results read its outputs, and it is returned; the ops
// that made the results are left to the caller to erase. Otherwise the graph is as before, and nullptr is returned.
Op *tryReplace(Graph &graph, Replacement replacement, const std::function<bool(const Op &)> &accepts);

}  // namespace popart::lower
