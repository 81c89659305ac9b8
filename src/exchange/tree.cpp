// See tree.hpp. A node is named by the highest level on which it appears: a node without a right half is promoted,
// without a join, until it has a sibling or is the root.
#include "exchange/tree.hpp"

#include <algorithm>
#include <cstdint>

#include <popart/error.hpp>

namespace popart::exchange {
namespace {

int rootLevel(int groupSize) {
  int level = 0;
  while (int64_t{1} << level < groupSize) ++level;
  return level;
}

}  // namespace

int membersIn(const Node &node, int groupSize) {
  const int64_t first = int64_t{node.index} << node.level;
  return static_cast<int>(std::min(int64_t{1} << node.level, groupSize - first));
}

std::vector<Node> termsOf(int first, int count, int groupSize) {
  if (first < 0 || count <= 0 || count > groupSize - first)
    throw internal_error("terms of a reduction: members {} to {} of {} do not exist", first, int64_t{first} + count - 1,
                         groupSize);
  const int top = rootLevel(groupSize);
  const int64_t end = int64_t{first} + count;
  const auto endOf = [&](int64_t begin, int level) {
    return std::min<int64_t>(begin + (int64_t{1} << level), groupSize);
  };
  std::vector<Node> terms;
  for (int64_t at = first; at < end;) {
    int level = 0;
    while (level < top && at % (int64_t{2} << level) == 0 && endOf(at, level + 1) <= end) ++level;
    terms.push_back({level, static_cast<int>(at >> level)});
    at = endOf(at, level);
  }
  return terms;
}

JoinTree joinTree(std::span<const Node> terms, int groupSize) {
  struct Complete {  // node of the tree
    int term;        // its first one
    int *next;       // the step that uses it
  };
  const auto broken = [&] {
    return internal_error("joins of a reduction: {} terms do not cover the {} members of the group one by one",
                          terms.size(), groupSize);
  };
  const int top = rootLevel(groupSize);
  JoinTree tree;
  tree.firstStep.assign(terms.size(), -1);
  tree.steps.reserve(terms.size());  // nodes point into it
  std::vector<Complete> nodes;
  int64_t covered = 0;
  for (size_t t = 0; t < terms.size(); ++t) {
    if (covered == groupSize || terms[t].level < 0 || terms[t].level > top ||
        int64_t{terms[t].index} << terms[t].level != covered)
      throw broken();
    covered = std::min<int64_t>(covered + (int64_t{1} << terms[t].level), groupSize);
    nodes.push_back({static_cast<int>(t), &tree.firstStep[t]});
    for (Node node = terms[t]; node.level < top; node = {node.level + 1, node.index / 2}) {
      if (node.index % 2 == 1) {
        const Complete right = nodes.back();
        nodes.pop_back();
        const auto step = static_cast<int>(tree.steps.size());
        tree.steps.push_back({nodes.back().term, right.term, -1});
        *nodes.back().next = *right.next = step;
        nodes.back().next = &tree.steps.back().next;
      } else if (int64_t{node.index + 1} << node.level < groupSize) {
        break;  // its right half follows later
      }
    }
  }
  if (covered != groupSize) throw broken();
  return tree;
}

}  // namespace popart::exchange
