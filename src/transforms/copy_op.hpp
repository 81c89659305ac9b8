// Copies of ops, for passes that need the same computation twice.
#pragma once
#include <string_view>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// A copy of `op` in `graph` with these settings. `op` may be in another graph, and of a user's class. `inputs`: one per
// input of `op`, tensors of `graph`, invalid where `op` has none. The results have the types and shapes of those of
// `op` and their ids with `suffix`, or the next free ones.
Op *copyOp(const Op &op, Graph &graph, const std::vector<TensorIndex> &inputs, const Op::Settings &settings,
           std::string_view suffix = "");

}  // namespace popart::transforms
