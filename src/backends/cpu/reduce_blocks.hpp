// A tensor in the form in which a reduction over some of its axes reads it, and the reductions that are in separate
// files.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <popart/names.hpp>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// x as [leading][outer][reduced][inner]: `leading` and `reduced` are reduced, `outer` and `inner` are kept.
struct ReducedBlocks {
  int64_t leading = 1, outer = 1, reduced = 1, inner = 1;
};

// Neighbouring axes of one kind merge. nullopt: the axes alternate too often.
inline std::optional<ReducedBlocks> reducedBlocks(const Shape &shape, const std::vector<int64_t> &axes) {
  std::vector<std::pair<bool, int64_t>> runs;  // (reduced, elements), outermost first
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!runs.empty() && runs.back().first == reduced)
      runs.back().second *= shape[d];
    else
      runs.emplace_back(reduced, shape[d]);
  }
  ReducedBlocks b;
  auto take = [&](bool reduced, int64_t &size) {
    if (runs.empty() || runs.back().first != reduced) return;
    size = runs.back().second;
    runs.pop_back();
  };
  take(false, b.inner);
  take(true, b.reduced);
  take(false, b.outer);
  take(true, b.leading);
  if (!runs.empty()) return std::nullopt;
  return b;
}

// ReduceProdGrad; nullptr and a reason if it does not support the request.
std::unique_ptr<executable::Kernel> productGradient(const executable::KernelRequest &request, std::string &reason);

}  // namespace popart::cpu
