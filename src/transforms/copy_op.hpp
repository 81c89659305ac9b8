// A further node for the same computation, wherever an op is needed twice.
#pragma once
#include <string_view>
#include <vector>

#include <popart/graph.hpp>

namespace popart::transforms {

// A copy of `op`, which may be of another graph and of a user's class, with these settings in `graph`. `inputs`: one
// per input of `op`, tensors of `graph`, invalid where `op` has none. The results have the types and shapes of those of
// `op` and their ids with `suffix`, or the next free ones.
Op *copyOp(const Op &op, Graph &graph, const std::vector<TensorIndex> &inputs, const Op::Settings &settings,
           std::string_view suffix = "");

}  // namespace popart::transforms
