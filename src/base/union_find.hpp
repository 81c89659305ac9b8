// Disjoint sets of the numbers 0 … n-1.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace popart {

class UnionFind {
 public:
  explicit UnionFind(size_t count = 0) {
    for (size_t i = 0; i < count; ++i) add();
  }

  // Adds a set of one new number, and returns the number.
  uint32_t add() {
    parent_.push_back(static_cast<uint32_t>(parent_.size()));
    return parent_.back();
  }
  size_t size() const { return parent_.size(); }

  // The representative of the set of `i`.
  uint32_t find(uint32_t i) const {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // Joins two sets; the representative of `into` represents both.
  void join(uint32_t i, uint32_t into) { parent_[find(i)] = find(into); }

 private:
  mutable std::vector<uint32_t> parent_;  // find() shortens paths
};

}  // namespace popart
