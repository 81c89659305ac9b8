// Accumulators: a is the accumulator, x the new value, f the factor.
//   Add            a + x                 DampenedAdd        a + f x            DampenedAddSquare    a + f x²
//   DecayAdd       f a + x               DecayAddSquare     f a + x²           Infinity             max(f a, |x|)
//   MovingAverage  f a + (1 - f) x       MovingAverageSquare f a + (1 - f) x²  Mean                 (f a + x) / (f + 1)
#include <algorithm>

#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/optim/update_formula.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ops {
namespace {

constexpr std::string_view kAccumulationTypes[] = {
    "Add",           "DampenedAdd",         "DampenedAddSquare", "DecayAdd", "DecayAddSquare",
    "MovingAverage", "MovingAverageSquare", "Infinity",          "Mean"};

void inferAccumulate(InferContext &c) {
  const std::string &kind = c.attrString("accumulation_type");
  const bool known =
      std::find(std::begin(kAccumulationTypes), std::end(kAccumulationTypes), kind) != std::end(kAccumulationTypes);
  c.require(
      known,
      "unknown accumulation type: got '{}', expected Add, DampenedAdd, DampenedAddSquare, DecayAdd, DecayAddSquare, "
      "MovingAverage, MovingAverageSquare, Infinity or Mean",
      kind);
  requireScalarParameter(c, 2, "factor", kind == "Add" ? Presence::Optional : Presence::Required);
  inferUpdate(c, {1});
}

void decomposeAccumulate(DecomposeBuilder &b) {
  UpdateFormula u(b);
  const std::string &kind = b.attrs().getAttribute<std::string>("accumulation_type");
  const auto f = u.factor(2, "factor", 1.0);
  const Expression a = u.operand(0), x = u.operand(1);
  if (kind == "Add" || kind == "DampenedAdd") return u.result(a + u.times(f, x));
  if (kind == "DampenedAddSquare") return u.result(a + u.times(f, x * x));
  if (kind == "DecayAdd") return u.result(u.times(f, a) + x);
  if (kind == "DecayAddSquare") return u.result(u.times(f, a) + x * x);
  if (kind == "MovingAverage") return u.result(u.times(f, a) + u.times(u.complement(f), x));
  if (kind == "MovingAverageSquare") return u.result(u.times(f, a) + u.times(u.complement(f), x * x));
  if (kind == "Infinity") return u.result(u.times(f, a).apply("Max", x.apply("Abs")));
  u.result((u.times(f, a) + x) / (u.value(f) + 1.0));  // Mean
}

void inferSparseAccumulate(InferContext &c) {
  const int64_t axis = c.axis("axis", c.in(0).rank());
  c.op().mutableAttributes().set("axis", axis);
  requireScalarParameter(c, 3, "factor", Presence::Optional);
  c.require(c.in(2).rank() == 1, "indices must have one dimension: got shape {}", c.shape(2));
  Shape expected = c.shape(0);
  expected[axis] = c.shape(2)[0];
  c.require(c.shape(1) == expected,
            "the values must have the accumulator's shape with one row per index: got {}, expected {}", c.shape(1),
            expected);
  c.out(0, c.in(0));
}

}  // namespace

OpDefs accumulateOps() {
  OpDefs rows;
  OpDef accumulate = elementUpdateRow("Accumulate");
  accumulate.input("updater", kUpdatable);
  dueInput(scalarParameter(accumulate, "factor"));
  rows.push_back(accumulate.attr("accumulation_type", std::string("Add"))
                     .infer(inferAccumulate)
                     .decompose(decomposeAccumulate)
                     .doc("Combines a value with an accumulator; accumulation_type says how."));
  OpDef sparse = varUpdateRow("PopartSparseAccumulate");
  sparse.input("updater", kUpdatable).input("indices", kInts);
  scalarParameter(sparse, "factor");
  rows.push_back(
      sparse.input("W", kUpdatable, "", Arity::Optional)
          .attr("axis", int64_t{0})
          .infer(inferSparseAccumulate)
          .doc("a[indices[i]] += factor x[i] along axis; contributions of equal indices are added; a negative index "
               "counts from the end."));
  OpDef scale = elementUpdateRow("AccumulatorScale");
  dueInput(scalarParameter(scale, "factor"));
  rows.push_back(
      scale
          .infer([](InferContext &c) {
            requireScalarParameter(c, 1, "factor", Presence::Required);
            inferUpdate(c, {});
          })
          .decompose([](DecomposeBuilder &b) {
            UpdateFormula u(b);
            const auto f = u.factor(1, "factor");
            if (f.isNumber(0))
              return b.result(0, whereDue(b, 0, emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape())));
            const Expression a = u.operand(0), scale = u.value(f);
            u.result(f.number ? a * scale : select(scale.apply("Equal", scale.number(0)), a.number(0), a * scale));
          })
          .doc("a := factor a; a factor of 0 gives exact zeros."));
  rows.push_back(elementUpdateRow("AccumulatorZero")
                     .decompose([](DecomposeBuilder &b) {
                       b.result(0, emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape()));
                     })
                     .doc("a := 0."));
  return rows;
}

}  // namespace popart::ops
