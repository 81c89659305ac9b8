// LossScaleUpdate: adapts the factor f of the loss scale to the share of large gradients. counts = (small, large):
//   f := f / 2  if large / (small + large) > threshold or not `finite`,  f := 2 f  otherwise
// With `due`, only if that is true.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

constexpr int kDue = 2, kFinite = 3;

void inferLossScaleUpdate(InferContext &c) {
  c.require(c.in(0).nelms() == 1, "the factor must be a scalar: got shape {}", c.shape(0));
  c.require(c.shape(1) == Shape{2}, "counts must be those of small and large elements: got shape {}", c.shape(1));
  const float threshold = c.attrFloat("threshold");
  c.require(threshold >= 0 && threshold <= 1, "threshold must be between 0 and 1: got {}", threshold);
  if (c.hasIn(kDue)) c.require(c.in(kDue).nelms() == 1, "due must be a scalar: got shape {}", c.shape(kDue));
  if (c.hasIn(kFinite))
    c.require(c.in(kFinite).nelms() == 1, "finite must be a scalar: got shape {}", c.shape(kFinite));
  c.out(0, c.in(0));
}

Expression count(DecomposeBuilder &b, int64_t which) {
  const std::vector<int64_t> starts{which}, ends{which + 1}, axes{0};
  return {b, emitReshape(b, b.emit("Slice", {b.in(1)}, {{"starts", starts}, {"ends", ends}, {"axes", axes}}), {})};
}

void decomposeLossScaleUpdate(DecomposeBuilder &b) {
  UpdateFormula u(b);
  const Expression factor(b, emitReshape(b, b.in(0), {}));
  const Expression small = count(b, 0), large = count(b, 1);
  const Expression isLarge = large / (small + large) > double{b.attrs().getAttribute<float>("threshold")};
  Expression change = select(isLarge, factor.number(0.5), factor.number(2));
  if (b.hasIn(kFinite)) change = select(Expression(b, emitReshape(b, b.in(kFinite), {})), change, factor.number(0.5));
  Expression updated = factor * change;
  if (b.hasIn(kDue)) updated = select(Expression(b, emitReshape(b, b.in(kDue), {})), updated, factor);
  u.result(updated);
}

}  // namespace

OpDefs lossScaleOps() {
  constexpr TypeSet kFloat32 = typeBit(DataType::FLOAT);
  OpDefs rows;
  rows.push_back(OpDef("ai.graphcore", "LossScaleUpdate", {1})
                     .input("factor", kFloat32)
                     .input("counts", kFloat32)
                     .input("due", typeBit(DataType::BOOL), "", Arity::Optional)
                     .input("finite", typeBit(DataType::BOOL), "", Arity::Optional)
                     .output("updated")
                     .attr("threshold", 1e-7f)
                     .infer(inferLossScaleUpdate)
                     .traits(Trait::VarUpdate)
                     .modifies(0)
                     .decompose(decomposeLossScaleUpdate)
                     .noGrad("updates of variables are not differentiable")
                     .notOnnx()
                     .doc("Halves the factor of the loss scale if too many gradients are large or finite is false, "
                          "else doubles it; keeps it if due is false."));
  return rows;
}

}  // namespace popart::ops
