// Replaces ops by one that the backend may refuse.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart::lower {

// An op to replace the producers of `results`; its outputs get their ids. Absent results have invalid indices.
struct Replacement {
  const OpDef &def;
  std::vector<TensorIndex> inputs;
  Attributes attributes;
  Op::Settings settings;
  std::vector<TensorIndex> results;
};

// Adds the op to the graph. If `accepts` returns true, readers of the results read its outputs, and it is returned; the
// caller erases the ops that made the results. Otherwise the graph does not change, and nullptr is returned.
Op *tryReplace(Graph &graph, Replacement replacement, const std::function<bool(const Op &)> &accepts);

}  // namespace popart::lower
