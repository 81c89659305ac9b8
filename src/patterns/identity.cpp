// Ops that change nothing.
//   PreUniRepl, PostNRepl   y = Identity(x), Sum(x), Detach(x)
//                           →  x and y become one tensor
//   OpToIdentity            y = Reshape{same shape}(x), Dropout without training, Concat(x), Scale{1}(x) …
//                           →  y = Identity(x)
// Detach is removed because patterns run after differentiation. Nop stays: users put it where nothing may be optimised.
#include <algorithm>
#include <array>

#include "patterns/pattern.hpp"

namespace popart::patterns {
namespace {

bool onlyFirstOutputUsed(const Op &op, const Rewriter &rewriter) {
  for (int o = 1; o < op.outputCount(); ++o)
    if (op.hasOutput(o) && (!op.outTensor(o)->uses().empty() || rewriter.isKept(op.outputs()[o]))) return false;
  return op.hasOutput(0) && op.hasInput(0);
}

int connectedInputs(const Op &op) {
  return static_cast<int>(
      std::count_if(op.inputs().begin(), op.inputs().end(), [](TensorIndex t) { return t.valid(); }));
}

bool sameInfo(const Op &op) {
  return op.inInfo(0).shape() == op.outInfo(0).shape() && op.inInfo(0).dataType() == op.outInfo(0).dataType();
}

bool isSortedPermutation(const Op &op) {
  if (!op.hasAttr("perm")) return op.inRank(0) < 2;
  const std::vector<int64_t> &perm = op.attrInts("perm");
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

bool allPositiveSteps(const Op &op) {
  if (!op.hasAttr("steps")) return true;
  const std::vector<int64_t> &steps = op.attrInts("steps");
  return std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s > 0; });
}

bool changesNothing(const Op &op) {
  if (!sameInfo(op)) return false;
  for (const char *type : {"Reshape", "Squeeze", "Unsqueeze", "Expand", "Tile", "Cast", "Flatten", "ReshapeGrad"})
    if (op.is(type)) return true;
  for (const char *type : {"Concat", "Mean", "Max", "Min"})
    if (op.is(type)) return connectedInputs(op) == 1;
  if (op.is("Dropout")) return op.attrInt("training_mode") == 0;
  if (op.is("Transpose")) return isSortedPermutation(op);
  if (op.is("Slice")) return allPositiveSteps(op);
  if (op.is("Pad")) {
    const auto &pads = op.attrInts("pads");
    return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
  }
  if (op.is("Scale")) return op.attrFloat("scale") == 1.0f;
  if (op.is("Split")) return op.outputCount() == 1;
  return op.isUserOp() && op.canBeReplacedByIdentity();
}

}  // namespace

bool removeIdentity(Op &op, const Rewriter &rewriter) {
  const bool candidate = op.is("Identity") || op.is("Detach") || (op.is("Sum") && connectedInputs(op) == 1);
  if (!candidate || op.isUserOp() || !op.hasInput(0) || !op.hasOutput(0) || !sameInfo(op)) return false;
  return rewriter.mergeThrough(op);
}

bool replaceByIdentity(Op &op, const Rewriter &rewriter) {
  if (op.is("Identity") || !onlyFirstOutputUsed(op, rewriter) || !changesNothing(op)) return false;
  Graph &graph = rewriter.graph();
  for (int o = op.outputCount() - 1; o > 0; --o) {
    if (!op.hasOutput(o)) continue;
    const TensorIndex unused = op.outputs()[o];
    graph.disconnectOutput(op.index(), o);
    graph.eraseTensor(unused);
  }
  rewriter.replaceOp(op, "Identity", {op.inputs()[0]}, {});
  return true;
}

}  // namespace popart::patterns
