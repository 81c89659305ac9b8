// One part of an op whose samples run in parts.
#pragma once
#include <map>

#include <popart/ir.hpp>

namespace popart::transforms {

// A copy of `op` in `graph` for one part, see copyOp; attributes with sizes get those of the part.
Op *copyPart(const Op &op, const Pieces &pieces, Graph &graph, const std::vector<TensorIndex> &inputs,
             const Op::Settings &settings, const std::string &suffix);

// Attributes of a window of `size` elements along an axis.
Attributes windowAlong(int64_t axis, int64_t size);

// Runs the group's ops in a loop over the parts. Returns its results that are needed whole: tensor of the group → the
// same values in `graph`.
struct BatchGroup;
struct BatchGroups;
std::map<TensorIndex, TensorIndex> emitPartLoop(Graph &graph, const BatchGroup &group, const BatchGroups &plan);

}  // namespace popart::transforms
