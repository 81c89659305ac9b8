// Small exact rewrites.
//   SumToAdd                             Sum(a, b)                   →  Add(a, b)
//   NegativeOneScale                     Scale{-1}(x)                →  Neg(x)
//   TransposeToIdentityOrReshapePattern  Transpose(x), unit dims     →  Reshape(x)
//   ExpandCast                           Cast(Expand(x))             →  Expand(Cast(x))
#include "patterns/pattern.hpp"

namespace popart::patterns {

bool sumToAdd(Op &op, const Rewriter &rewriter) {
  if (!op.is("Sum") || op.inputCount() != 2 || !op.hasInput(0) || !op.hasInput(1)) return false;
  rewriter.replaceOp(op, "Add", {op.inputs()[0], op.inputs()[1]}, {});
  return true;
}

bool scaleToNeg(Op &op, const Rewriter &rewriter) {
  if (!op.is("Scale") || op.attrFloat("scale") != -1.0f) return false;
  rewriter.replaceOp(op, "Neg", {op.inputs()[0]}, {});
  return true;
}

bool transposeToReshape(Op &op, const Rewriter &rewriter) {
  if (!op.is("Transpose") || !op.hasAttr("perm")) return false;
  const std::vector<int64_t> &perm = op.attrInts("perm");
  int64_t last = -1;
  for (int64_t axis : perm) {  // memory order stays when the axes longer than 1 keep their order
    if (op.inShape(0)[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  rewriter.replaceOp(op, "Reshape", {op.inputs()[0]}, {{"shape", op.outShape(0)}, {"allowzero", int64_t{1}}});
  return true;
}

bool castBeforeExpand(Op &op, const Rewriter &rewriter) {
  if (!op.is("Cast")) return false;
  Graph &graph = rewriter.graph();
  Op *expand = op.inTensor(0)->getProducerUnsafe();
  if (!expand || !expand->is("Expand") || !rewriter.onlyFeeds(op.inputs()[0], op)) return false;
  const TensorIndex wide = op.inputs()[0];
  if (graph.info(wide).nelms() <= expand->inInfo(0).nelms()) return false;
  const TensorId id = graph.freeId(expand->inId(0) + "_cast");
  Op *cast = graph.addConnectedOp(op.def(), {expand->inputs()[0]}, {id}, op.attributes(), inheritSettings(op, graph));
  rewriter.replaceOp(op, "Expand", {cast->outputs()[0]}, {{"shape", expand->attrInts("shape")}});
  graph.eraseOp(expand->index());
  graph.eraseTensor(wide);
  return true;
}

}  // namespace popart::patterns
