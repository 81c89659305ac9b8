// The ops that a kernel of several ops computes, for reports.
#pragma once
#include <string>
#include <vector>

#include <popart/op.hpp>

namespace popart::lower {

// Titles (ir/layer_names.hpp) of the ops in the bodies of a lowered op, "Conv  /conv1/Conv", and of the op itself if it
// computes more than these. Empty if the op is not fused.
std::vector<std::string> fusedOps(const Op &op);

}  // namespace popart::lower
