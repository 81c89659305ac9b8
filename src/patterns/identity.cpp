// Ops that change nothing.
//   PreUniRepl, PostNRepl   y = Identity(x), Sum(x), Detach(x)
//                           →  x and y become one tensor
//   OpToIdentity            y = Reshape{same shape}(x), Dropout without training, Concat(x), Scale{1}(x) …
//                           →  y = Identity(x)
// Detach is removed because patterns run after differentiation. Nop stays: users add it to prevent optimisation.
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

}  // namespace

bool removeIdentity(Op &op, const Rewriter &rewriter) {
  const bool candidate = op.is("Identity") || op.is("Detach") || op.is("Sum");
  return candidate && op.isIdentity() && rewriter.mergeThrough(op);
}

bool replaceByIdentity(Op &op, const Rewriter &rewriter) {
  const bool other = op.is("Identity") || op.is("Detach") || op.is("Sum") || op.is("Nop");  // see above
  if (other || !onlyFirstOutputUsed(op, rewriter) || !op.isIdentity()) return false;
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
