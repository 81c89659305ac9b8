// Rows that check values while a program runs (src/lower/floating_point_checks.hpp inserts them):
//   FirstNonFinite       positions of the first NaN and of the first infinity of a tensor
//   FloatingPointCheck   ends the run when a result has a NaN or infinity and no operand of its operator had one
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr TypeSet kPositions = typeBit(DataType::INT64);

OpDef firstNonFiniteRow() {
  return OpDef("ai.graphcore", "FirstNonFinite", {1})
      .input("x", kFloats)
      .output("positions")
      .infer([](InferContext &c) { c.out(0, DataType::INT64, {2}); })
      .traits(Trait::Internal)
      .layouts([](const Op &, OperandLayouts &layouts) { layouts.in[0] = OperandLayout::Uniform; })
      .notOnnx()
      .noGrad("it is made after differentiation")
      .doc("Positions in C order of the first NaN and of the first infinity of x; -1 if there is none.");
}

OpDef floatingPointCheckRow() {
  return OpDef("popart", "FloatingPointCheck", {1})
      .input("result", kPositions)
      .input("operands", kPositions, "", Arity::Variadic)
      .attrRequired("checked_op", AttributeType::String)
      .attrRequired("tensor", AttributeType::String)
      .infer([](InferContext &c) {
        for (int i = 0; i < c.inputCount(); ++i)
          c.require(c.shape(i) == Shape{2}, "input {} must be the result of FirstNonFinite: got shape {}", i,
                    c.shape(i));
      })
      .traits(Trait::Internal | Trait::SideEffect)
      .notOnnx()
      .noGrad("it is made after differentiation")
      .doc(
          "Ends the run if the result of checked_op contains a NaN or an infinity that none of its operands "
          "contains.");
}

}  // namespace

OpDefs floatingPointCheckOps() {
  OpDefs rows;
  rows.push_back(firstNonFiniteRow());
  rows.push_back(floatingPointCheckRow());
  return rows;
}

}  // namespace popart::ops
