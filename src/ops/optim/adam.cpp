// The Adam family. m, v are moments, t is the step count, w the weight.
//   AdamUpdater: t += 1; mh = m / (1 - beta1^t), vh = v / (1 - beta2^t) (modes NoBias: mh = m and vh = v; AdaMax: only
//     mh); x = mh / (sqrt(vh) + eps), for AdaMax mh / (v + eps); plus wd w if weight decay is given. Output 1 is the
// new     step count.
//   AdamVarUpdate: w := w - lr ratio x, ratio = min(sqrt(r1), max_weight_norm) / sqrt(r2), where r1 and r2 are the sums
//     of squares of w and x; ratio = 1 when r1, r2 or max_weight_norm is 0, or when r1 and r2 are absent.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

enum Input { kWeight, kMoment1, kMoment2, kStep, kDecay, kBeta1, kBeta2, kEps };

void inferAdamUpdater(InferContext &c) {
  requireDue(c);
  const std::string &mode = c.attrString("mode");
  const bool noBias = mode == "AdamNoBias" || mode == "LambNoBias";
  c.require(noBias || mode == "Adam" || mode == "AdaMax" || mode == "Lamb",
            "unknown mode: got '{}', expected Adam, AdamNoBias, AdaMax, Lamb or LambNoBias", mode);
  requireScalarParameter(c, kDecay, "weight_decay", Presence::Optional);
  requireScalarParameter(c, kBeta1, "beta1", noBias ? Presence::Optional : Presence::Required);
  requireScalarParameter(c, kBeta2, "beta2", noBias || mode == "AdaMax" ? Presence::Optional : Presence::Required);
  requireScalarParameter(c, kEps, "epsilon", Presence::Required);
  c.require(noBias || c.hasIn(kStep), "mode {} corrects the bias and needs the time step. Connect it or use {}NoBias",
            mode, mode);
  if (c.hasIn(kStep))
    c.require(c.in(kStep).nelms() == 1, "the time step must be a scalar: got shape {}", c.shape(kStep));
  const bool decays = c.hasIn(kDecay) || (c.hasAttr("weight_decay") && c.attrFloat("weight_decay") != 0.0f);
  c.require(!decays || c.hasIn(kWeight), "weight decay needs the weight. Connect input 0");
  c.require(c.shape(kMoment2) == c.shape(kMoment1), "the moments differ in shape: got {} and {}", c.shape(kMoment1),
            c.shape(kMoment2));
  if (c.hasIn(kWeight))
    c.require(c.shape(kWeight) == c.shape(kMoment1), "weight and moments differ in shape: got {} and {}",
              c.shape(kWeight), c.shape(kMoment1));
  c.out(0, decays ? c.type(kWeight) : c.type(kMoment1), c.shape(kMoment1));
  if (c.outputCount() > 1) c.out(1, c.in(kStep));
}

// 1 - beta^t as -(e^(t log beta) - 1), which keeps its precision for beta close to 1.
Expression biasCorrection(Expression beta, Expression t) { return -(t * beta.apply("Log")).apply("Expm1"); }

void decomposeAdamUpdater(DecomposeBuilder &b) {
  UpdateFormula u(b);
  const std::string &mode = b.attrs().getAttribute<std::string>("mode");
  const bool isMax = mode == "AdaMax", corrects = isMax || mode == "Adam" || mode == "Lamb";
  Expression m = u.operand(kMoment1), v = u.operand(kMoment2);
  if (b.hasIn(kStep)) {
    const Expression t = u.value(u.factor(kStep, "")) + 1.0;
    if (b.hasOut(1)) u.result(t, 1);
    if (corrects) m = m / biasCorrection(u.value(u.factor(kBeta1, "beta1")), t);
    if (corrects && !isMax) v = v / biasCorrection(u.value(u.factor(kBeta2, "beta2")), t);
  }
  Expression x = m / ((isMax ? v : sqrt(v)) + u.value(u.factor(kEps, "epsilon")));
  const auto decay = u.factor(kDecay, "weight_decay");
  if (!decay.isNumber(0) && b.hasIn(kWeight)) x = x + u.times(decay, u.operand(kWeight));
  u.result(x);
}

// min(sqrt(r1), limit) / sqrt(r2), or 1 when a norm or the limit is 0.
Expression trustRatio(UpdateFormula &u, const UpdateFormula::Factor &limit, bool isLimited) {
  const Expression r1 = u.value(u.factor(2, "")), r2 = u.value(u.factor(3, ""));
  const Expression one = r1.number(1), zero = r1.number(0);
  Expression norm = sqrt(r1);
  if (isLimited) norm = norm.apply("Min", u.value(limit));
  Expression ratio = norm / sqrt(r2);
  for (const Expression &e : {r1, r2}) ratio = select(e.apply("Equal", zero), one, ratio);
  return isLimited ? select(u.value(limit).apply("Equal", zero), one, ratio) : ratio;
}

void decomposeAdamVarUpdate(DecomposeBuilder &b) {
  UpdateFormula u(b);
  auto rate = u.factor(4, "lr");
  if (b.hasIn(2)) {
    const bool isLimited = b.hasIn(5) || b.attrs().hasAttribute("max_weight_norm");
    rate = {std::nullopt, u.value(rate) * trustRatio(u, u.factor(5, "max_weight_norm"), isLimited)};
  }
  u.result(u.operand(0) - u.times(rate, u.operand(1)));
}

void addAdamUpdater(OpDefs &rows) {
  OpDef row("ai.graphcore", "AdamUpdater", {1});
  row.input("weight", kFloats, "", Arity::Optional)
      .input("accl1", kFloats)
      .input("accl2", kFloats)
      .input("time_step", kFloats, "", Arity::Optional)
      .output("updater")
      .output("next_step", Arity::Optional)
      .attr("mode", std::string("Adam"))
      .infer(inferAdamUpdater)
      .traits(Trait::Elementwise)
      .modifies(kStep, 1)
      .cost(perElement(7))
      .decompose(decomposeAdamUpdater)
      .noGrad("optimizer arithmetic is not differentiable")
      .notOnnx()
      .doc("The step of the Adam family from its moments; increments the time step.");
  for (const char *name : {"weight_decay", "beta1", "beta2", "epsilon"}) scalarParameter(row, name);
  dueInput(row);
  rows.push_back(std::move(row));
}

void inferAdamVarUpdate(InferContext &c) {
  requireScalarParameter(c, 4, "lr", Presence::Required);
  requireScalarParameter(c, 5, "max_weight_norm", Presence::Optional);
  c.require(c.hasIn(2) == c.hasIn(3), "the sums of squares of weight and update must come together: got one of them");
  for (int i : {2, 3})
    if (c.hasIn(i)) c.require(c.in(i).nelms() == 1, "sums of squares must be scalars: got shape {}", c.shape(i));
  inferUpdate(c, {1});
}

}  // namespace

OpDefs adamOps() {
  OpDefs rows;
  addAdamUpdater(rows);
  OpDef row = elementUpdateRow("AdamVarUpdate");
  row.input("updater", kFloats).input("r1sq", kFloats, "", Arity::Optional).input("r2sq", kFloats, "", Arity::Optional);
  dueInput(scalarParameter(scalarParameter(row, "lr"), "max_weight_norm"));
  rows.push_back(row.infer(inferAdamVarUpdate)
                     .decompose(decomposeAdamVarUpdate)
                     .doc("w := w - lr ratio x with the trust ratio of Lamb."));
  return rows;
}

}  // namespace popart::ops
