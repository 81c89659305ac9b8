// The groups of elements that a reduction over any axes combines. Results are numbered in C order over the kept axes,
// the members of a group in C order over the reduced ones.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include <popart/names.hpp>

#include "ops/shape/strided_view.hpp"

namespace popart::cpu {

struct GroupAxis {
  int64_t size, stride;
};
// Offset of position `at` (in C order) of some axes.
inline int64_t offsetOf(const std::vector<GroupAxis> &axes, int64_t at) {
  int64_t offset = 0;
  for (size_t d = axes.size(); d-- > 0; at /= axes[d].size) offset += at % axes[d].size * axes[d].stride;
  return offset;
}

struct Groups {
  // Neighbouring axes with matching strides are merged; at least one reduced axis.
  std::vector<GroupAxis> kept, reduced;
  int64_t results = 1, members = 1;
};

inline Groups groupsOf(const Shape &shape, const std::vector<int64_t> &axes) {
  Groups g;
  const Shape strides = ops::stridesInOrder(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduces = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (reduces ? g.members : g.results) *= shape[d];
    auto &merged = reduces ? g.reduced : g.kept;
    if (!merged.empty() && merged.back().stride == shape[d] * strides[d])
      merged.back() = {merged.back().size * shape[d], strides[d]};
    else
      merged.push_back({shape[d], strides[d]});
  }
  if (g.reduced.empty()) g.reduced.push_back({1, 0});
  return g;
}

}  // namespace popart::cpu
