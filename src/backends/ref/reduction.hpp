// Reduction: which elements of a tensor reduce into which result. Results are numbered in C order over the kept axes;
// the elements of one group in C order over the reduced axes.
#pragma once
#include <algorithm>

#include "backends/ref/loops.hpp"
#include "ops/rules.hpp"

namespace popart::ref {

class Reduction {
 public:
  // axes: sorted, in range (ops::reductionAxes).
  Reduction(const Shape &shape, const std::vector<int64_t> &axes) {
    const Shape strides = elementStrides(shape);
    Shape kept, keptStrides, reduced, reducedStrides;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool reduces = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
      (reduces ? reduced : kept).push_back(shape[i]);
      (reduces ? reducedStrides : keptStrides).push_back(strides[i]);
    }
    groups_ = offsets(kept, keptStrides);
    members_ = offsets(reduced, reducedStrides);
  }
  // Offset in the tensor of member j of group i.
  int64_t position(int64_t i, int64_t j) const { return groups_[i] + members_[j]; }

  // f(group number, values of the group converted to V).
  template <class T, class V, class F>
  void forEachGroup(const T *data, F f) const {
    std::vector<V> values(members_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (size_t j = 0; j < members_.size(); ++j) values[j] = static_cast<V>(data[groups_[i] + members_[j]]);
      f(static_cast<int64_t>(i), values);
    }
  }

 private:
  static std::vector<int64_t> offsets(const Shape &shape, const Shape &strides) {
    std::vector<int64_t> result(elementCount(shape));
    Walk walk(shape, {strides});
    for (int64_t &offset : result) {
      offset = walk.offset(0);
      walk.next();
    }
    return result;
  }
  std::vector<int64_t> groups_, members_;
};

}  // namespace popart::ref
