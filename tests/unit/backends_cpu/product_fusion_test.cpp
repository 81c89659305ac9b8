// Element-wise operators behind a product: every row of the element table becomes part of the product's kernel, and
// gives the bits that it gives on its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_table.hpp"

namespace popart {
namespace {

using cpu::ElementRow;
using test::numbers;
using test::ProgramRun;

constexpr int64_t kRows = 6, kInner = 37, kCols = 29;

// Every attribute of the row as 0.75, or 1 where it is an integer.
Attributes attributesOf(const OpDef &def) {
  Attributes given;
  for (const AttributeDef &a : def.attributes()) {
    if (a.type == AttributeType::Float) given.set(a.name, 0.75f);
    if (a.type == AttributeType::Int) given.set(a.name, int64_t{1});
  }
  return given;
}

enum class Product { kReadOnce, kKept };

void addResult(test::GraphBuilder &b, TensorIndex t, const std::string &stream) {
  b.graph().addConnectedOp(opDef("HostStore"), {t}, {}, {{"stream", stream}}, Op::Settings(b.graph()));
}

// y = op(x·w + b), or op(x·w + b, other); with kKept the product itself is a result too, so nothing joins it.
void build(Ir &ir, const ElementRow &row, Product product) {
  test::GraphBuilder b(ir.getMainGraph());
  const auto x = b.stream("x", DataType::FLOAT, {kRows, kInner});
  const auto p = b.op("MatMul", {x, b.variable("w", {kInner, kCols}, numbers(kInner * kCols, 2))}, "p");
  std::vector<TensorIndex> inputs{b.op("Add", {p, b.variable("b", {kCols}, numbers(kCols, 3))}, "s")};
  if (row.operands == 2) inputs.push_back(b.stream("other", DataType::FLOAT, {kRows, kCols}));
  addResult(b, b.op(row.type, inputs, "y", attributesOf(opDef(row.type))), "y");
  if (product == Product::kKept) addResult(b, p, "p");
}

std::vector<float> result(ProgramRun &run) {
  run.feed<float>("x", numbers(kRows * kInner, 4));
  run.feed<float>("other", numbers(kRows * kCols, 5));
  run.run();
  return run.anchor("y");
}

const ProgramRun::Backends kBackends = {&cpu::backend(), &ref::backend()};

bool hasElementwiseStep(const ProgramRun &run) {
  const auto &steps = run.executable().main.steps;
  return std::any_of(steps.begin(), steps.end(), [](const executable::Step &s) {
    return s.kernel && s.kernel->name().find("elementwise") != std::string::npos;
  });
}

bool isContinuous(const std::string &type) {
  return type != "Ceil" && type != "Floor" && type != "Round" && type != "NearbyInt" && type != "Sign" &&
         type != "IncrementMod" && type != "Fmod" && type != "Remainder" && type != "ReluGrad";
}

TEST(ProductFusion, every_float_row_joins_a_product_and_keeps_its_bits) {
  int joined = 0;
  for (const ElementRow &row : cpu::elementRows()) {
    if (row.form != cpu::RegisterForm::kFloat) continue;
    Ir together, apart;
    build(together, row, Product::kReadOnce);
    build(apart, row, Product::kKept);
    if (together.getMainGraph().getTensor("y")->info.dataType() != DataType::FLOAT) continue;
    ProgramRun fused(together, kBackends), separate(apart, kBackends), meaning(together);
    EXPECT_FALSE(hasElementwiseStep(fused)) << row.type << fused.executable().loweredText;
    EXPECT_TRUE(hasElementwiseStep(separate)) << row.type;
    const auto got = result(fused), want = result(separate), exact = result(meaning);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << row.type << " [" << i << "]";
      if (got[i] == exact[i] || (std::isnan(exact[i]) && std::isnan(got[i]))) continue;
      if (isContinuous(row.type)) {
        ASSERT_NEAR(got[i], exact[i], 2e-5 * std::max(1.0f, exact[i] * exact[i])) << row.type << " [" << i << "]";
      }
    }
    ++joined;
  }
  EXPECT_GT(joined, 50);
}

}  // namespace
}  // namespace popart
