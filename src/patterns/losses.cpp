// Softmax with negative log likelihood.
//   SoftmaxGradDirect          p = Softmax(x); dp = NllGrad(p, l, g); dx = SoftmaxGrad(dp, p)
//                              →  dx = SoftmaxGradDirect(p, l, g)
//   NlllWithSoftmaxGradDirect  loss = Nll(p, l); dx = SoftmaxGradDirect(p, l, g)
//                              →  loss, dx = NlllWithSoftmaxGradDirect(p, l, g)
// The class axis is the last one, and g must not depend on the loss.
#include <algorithm>
#include <unordered_set>

#include "patterns/pattern.hpp"

namespace popart::patterns {
namespace {

Attributes lossAttributes(const Op &op) {
  Attributes result;
  for (const char *name : {"reduction", "ignoreIndex"})
    if (const AttributeValue *v = op.attributes().find(name)) result.set(name, *v);
  return result;
}

bool holdsLogProbabilities(const Op &op) {
  return op.attributes().getAttribute<int64_t>("inputIsLogProbability", 0) != 0;
}

// Whether `t` is computed from an output of `from`.
bool dependsOn(const Graph &graph, TensorIndex t, const Op &from) {
  std::vector<TensorIndex> stack{t};
  std::unordered_set<uint32_t> seen;
  while (!stack.empty()) {
    const TensorIndex next = stack.back();
    stack.pop_back();
    if (!seen.insert(next.value).second || !graph.tensor(next).hasProducer()) continue;
    const Op &producer = *graph.tensor(next).getProducer();
    if (&producer == &from) return true;
    for (TensorIndex in : producer.inputs())
      if (in.valid()) stack.push_back(in);
  }
  return false;
}

}  // namespace

bool fuseSoftmaxGrad(Op &op, const Rewriter &rewriter) {
  if (!op.is("SoftmaxGrad")) return false;
  const Graph &graph = rewriter.graph();
  const TensorIndex dp = op.inputs()[0], p = op.inputs()[1];
  const int64_t rank = graph.info(p).rank();
  if (normalizeAxis(op.attrInt("axis"), rank, op.debugName()) != rank - 1) return false;
  const Op *nllGrad = graph.tensor(dp).getProducerUnsafe();
  if (!nllGrad || !nllGrad->is("NllGrad") || nllGrad->inputs()[0] != p || holdsLogProbabilities(*nllGrad)) return false;
  const Op *softmax = graph.tensor(p).getProducerUnsafe();
  if (!softmax || !softmax->is("Softmax") || !rewriter.onlyFeeds(dp, op)) return false;
  rewriter.replaceOp(op, "SoftmaxGradDirect", {p, nllGrad->inputs()[1], nllGrad->inputs()[2]},
                     lossAttributes(*nllGrad));
  const OpIndex dead = nllGrad->index();
  rewriter.graph().eraseOp(dead);
  rewriter.graph().eraseTensor(dp);
  return true;
}

bool fuseNllWithSoftmaxGrad(Op &op, const Rewriter &rewriter) {
  if (!op.is("SoftmaxGradDirect")) return false;
  Graph &graph = rewriter.graph();
  const TensorIndex p = op.inputs()[0], labels = op.inputs()[1], g = op.inputs()[2];
  Op *nll = nullptr;
  for (const Use &use : graph.tensor(p).uses()) {
    Op &user = graph.op(use.op);
    if (user.is("Nll") && user.inputs()[0] == p && user.inputs()[1] == labels && !holdsLogProbabilities(user) &&
        lossAttributes(user) == lossAttributes(op))
      nll = &user;
  }
  if (!nll || dependsOn(graph, g, *nll)) return false;
  const TensorIndex loss = nll->outputs()[0], gradient = op.outputs()[0];
  const Attributes attributes = lossAttributes(op);
  Op *made = graph.addOp(opDef("NlllWithSoftmaxGradDirect"), attributes, inheritSettings(*nll, graph));
  graph.moveConstraints(nll->index(), made->index());
  graph.moveConstraints(op.index(), made->index());
  graph.eraseOp(nll->index());
  graph.eraseOp(op.index());
  const TensorIndex inputs[] = {p, labels, g};
  for (int i = 0; i < 3; ++i) graph.connectInput(made->index(), i, inputs[i]);
  graph.connectOutput(made->index(), 0, loss);
  graph.connectOutput(made->index(), 1, gradient);
  made->setup();
  return true;
}

}  // namespace popart::patterns
