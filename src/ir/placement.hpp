// Placement of a tensor: IPU and tile set of the op that makes it, else of the first op that reads it.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include <popart/ir.hpp>

namespace popart {

// nullopt: not determined.
struct TensorPlacement {
  std::optional<VGraphId> ipu;
  std::optional<TileSet> tiles;
};

// `movedInto`: graphs whose ops a transform took from the calling graph. For calls of these, and for loops, the op
// inside determines the placement.
TensorPlacement placementOf(const Tensor &tensor, const std::set<GraphId> &movedInto);

// Whether the tensors whose IPU is known are on one IPU, and those whose tile set is known on one tile set.
bool areTogether(const std::vector<const Tensor *> &tensors, const std::set<GraphId> &movedInto);

}  // namespace popart
