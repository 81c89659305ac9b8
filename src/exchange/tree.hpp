// The order of a reduction over the members of a group: a balanced binary tree over the members' numbers.
//
//   level 2          0123                     Node i of level k joins members [i 2^k, (i+1) 2^k), as far as the group
//   level 1       01      23       4          has them. A node without a right half is its left half: with five
//   level 0     0    1  2    3     4          members, node 1 of level 2 is member 4.
//
// The tree depends only on the number of members. A process joins its own members as far as the tree allows; the
// results are its terms. Joining the terms of all processes in the order of `joinTree` gives the bits of the tree over
// single members, for every division of members among processes.
#pragma once
#include <span>
#include <vector>

namespace popart::exchange {

struct Node {
  int level;
  int index;
  bool operator==(const Node &) const = default;
};

// Number of members of a group of `groupSize` that the node joins.
int membersIn(const Node &node, int groupSize);

// The maximal nodes of the tree over `groupSize` members inside members [first, first + count), in the order of
// members. One node if `count` is a power of two and `first` a multiple of it; otherwise at most 2 log2(count) nodes.
// Throws internal_error unless 0 <= first, 0 < count, first + count <= groupSize.
std::vector<Node> termsOf(int first, int count, int groupSize);

// The joins that compute the root of the tree from terms. Each joins two numbers and writes the result to the place of
// the left one, so that the root is finally in place 0.
struct JoinTree {
  struct Step {
    int left, right;  // numbers of terms: the first terms of the two halves
    int next;         // the step that uses the result; -1: none, it is the root
  };
  std::vector<Step> steps;     // each step comes after those whose results it uses
  std::vector<int> firstStep;  // by term: the step that uses it; -1: the term is the root
};

// `terms`: of all members of the group, in their order. Throws internal_error unless the terms are exactly the members
// of the group.
JoinTree joinTree(std::span<const Node> terms, int groupSize);

}  // namespace popart::exchange
