// Region: a box of elements of a tensor, by which user operators describe what they modify and share. Here, operators
// modify or share a tensor as a whole: an empty list means nothing, any other list the whole tensor.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include <popart/names.hpp>

namespace popart::view {

// First index of each dimension, and the index after the last one.
class Region {
 public:
  Region(Shape lower, Shape upper) : lower_(std::move(lower)), upper_(std::move(upper)) {}
  static Region getFull(const Shape &shape) { return {Shape(shape.size(), 0), shape}; }
  // No elements; a scalar has no parts.
  static Region getEmpty(int64_t rank) {
    const Shape zeros(static_cast<size_t>(std::max<int64_t>(rank, 1)), 0);
    return {zeros, zeros};
  }
  const Shape &getLower() const { return lower_; }
  const Shape &getUpper() const { return upper_; }
  int64_t rank() const { return static_cast<int64_t>(lower_.size()); }
  bool isEmpty() const {
    for (size_t i = 0; i < lower_.size(); ++i)
      if (upper_[i] <= lower_[i]) return true;
    return false;
  }
  bool operator==(const Region &) const = default;

 private:
  Shape lower_, upper_;
};

using Regions = std::vector<Region>;                    // of one tensor
using RegMap = std::function<Regions(const Region &)>;  // a part of one operand -> the corresponding parts of another

}  // namespace popart::view
