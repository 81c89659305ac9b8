// LossScaleUpdate: the factor of the loss scale follows the share of large gradients. counts = (small, large):
//   f := f / 2  if large / (small + large) > threshold,  f := 2 f  otherwise
// With a counter n only where n = 0, and n := (n + 1) mod period.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

constexpr int kCounter = 2;

void inferLossScaleUpdate(InferContext &c) {
  c.require(c.in(0).nelms() == 1, "the factor must be a scalar: got shape {}", c.shape(0));
  c.require(c.shape(1) == Shape{2}, "counts must be those of small and large elements: got shape {}", c.shape(1));
  const float threshold = c.attrFloat("threshold");
  c.require(threshold >= 0 && threshold <= 1, "threshold must lie between 0 and 1: got {}", threshold);
  c.require(c.attrInt("period") >= 1, "period must be 1 or more: got {}", c.attrInt("period"));
  c.require(c.attrInt("period") == 1 || c.hasIn(kCounter), "a period above 1 needs the counter. Connect input {}",
            kCounter);
  if (c.hasIn(kCounter)) {
    c.require(c.in(kCounter).nelms() == 1, "the counter must be a scalar: got shape {}", c.shape(kCounter));
    c.out(1, c.in(kCounter));
  }
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
  Expression updated = factor * select(isLarge, factor.number(0.5), factor.number(2));
  if (b.hasIn(kCounter)) {
    const Expression counter(b, emitReshape(b, b.in(kCounter), {}));
    updated = select(counter.apply("Equal", counter.number(0)), updated, factor);
    const Expression next = counter + 1.0;
    const auto period = static_cast<double>(b.attrs().getAttribute<int64_t>("period"));
    u.result(select(next >= period, counter.number(0), next), 1);
  }
  u.result(updated);
}

}  // namespace

OpDefs lossScaleOps() {
  constexpr TypeSet kFloat32 = typeBit(DataType::FLOAT);
  OpDefs rows;
  rows.push_back(
      OpDef("ai.graphcore", "LossScaleUpdate", {1})
          .input("factor", kFloat32)
          .input("counts", kFloat32)
          .input("counter", typeBit(DataType::INT32), "", Arity::Optional)
          .output("updated")
          .output("next_counter", Arity::Optional)
          .attr("threshold", 1e-7f)
          .attr("period", int64_t{1})
          .infer(inferLossScaleUpdate)
          .traits(Trait::VarUpdate)
          .modifies(0)
          .modifies(kCounter, 1)
          .decompose(decomposeLossScaleUpdate)
          .noGrad("updates of variables are not differentiable")
          .notOnnx()
          .doc("Halves the factor of the loss scale when too large a share of gradients is large, doubles it "
               "otherwise."));
  return rows;
}

}  // namespace popart::ops
