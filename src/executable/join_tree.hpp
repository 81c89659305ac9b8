// The order in which the terms of the members of a group are combined: a balanced binary tree over their numbers. Node
// i of level k combines those of members [i 2^k, (i + 1) 2^k) that exist; a node without a right half is its left half:
//   5 members: ((0 + 1) + (2 + 3)) + 4
// The order depends only on the size of the group. An aligned block of 2^k members is a node, so a process that has all
// of its terms can combine them first without changing a bit of the result.
#pragma once
#include <bit>

namespace popart::executable {

// Combines members [first, first + count) of a node, `count` above 0, into `result`, a Block of the caller.
//   leaf(first, count, result): combines one or two terms;
//   join(result, right): result = result op right.
// Temporary blocks are declared as `Block right;`: at most log2(count) at a time.
template <class Block, class Leaf, class Join>
void joinInTree(unsigned first, unsigned count, const Leaf &leaf, const Join &join, Block &result) {
  if (count <= 2) return leaf(first, count, result);
  const unsigned left = std::bit_ceil(count) / 2;
  joinInTree(first, left, leaf, join, result);
  Block right;
  joinInTree(first + left, count - left, leaf, join, right);
  join(result, right);
}

}  // namespace popart::executable
