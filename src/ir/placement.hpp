// Where the value of a tensor is: IPU and tile set of the op that makes it, else of the first one that reads it.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include <popart/ir.hpp>

namespace popart {

// None where nothing decides it.
struct TensorPlacement {
  std::optional<VGraphId> ipu;
  std::optional<TileSet> tiles;
};

// `movedInto`: graphs whose ops a transform took from the graph that calls them. Of a call of one of these, and of a
// loop, the op inside decides.
TensorPlacement placementOf(const Tensor &tensor, const std::set<GraphId> &movedInto);

// Whether the tensors whose IPU is known are on one IPU, and those whose tile set is known on one tile set.
bool areTogether(const std::vector<const Tensor *> &tensors, const std::set<GraphId> &movedInto);

}  // namespace popart
