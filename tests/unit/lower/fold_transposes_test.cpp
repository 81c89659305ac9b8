// Transposes of large constants: the importer leaves them, lowering computes those that something else than a matrix
// product reads, and what depends on them.
#include <gtest/gtest.h>

#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "lower/decompose.hpp"

namespace popart {
namespace {

constexpr int64_t kRows = 256, kColumns = 128;  // twice kFoldTransposeBytes

TensorData numbers() {
  TensorData data(TensorInfo(DataType::FLOAT, {kRows, kColumns}));
  auto *values = static_cast<float *>(data.mutableData());
  for (int64_t i = 0; i < data.info().nelms(); ++i) values[i] = static_cast<float>(i);
  return data;
}

// main: stream x (2, kColumns), constant w (kRows, kColumns), t = Transpose(w); then `reader` of x and t.
struct Program {
  explicit Program(std::string_view reader) : main(ir.getMainGraph()) {
    const TensorIndex x = main.addStream("x", TensorInfo(DataType::FLOAT, {2, kColumns}));
    const TensorIndex w = main.addConstant("w", numbers());
    const TensorIndex t = add("Transpose", {w}, "t", {{"perm", std::vector<int64_t>{1, 0}}});
    const bool product = reader == "MatMul";
    y = product ? add("MatMul", {x, t}, "y", {}) : add(reader, {t}, "y", {});
    main.markOutput(y);
  }
  TensorIndex add(std::string_view type, const std::vector<TensorIndex> &inputs, const TensorId &id,
                  Attributes attributes) {
    Op *op = main.addConnectedOp(opDef(type), inputs, {id}, std::move(attributes), Op::Settings(main, id));
    return op->outputs()[0];
  }
  int count(std::string_view type) const {
    int found = 0;
    for (const Op *op : main.ops()) found += op->is(type);
    return found;
  }
  Ir ir;
  Graph &main;
  TensorIndex y;
};

TEST(FoldTransposes, importer_leaves_large_ones) {
  Program p("MatMul");
  for (Op *op : p.main.ops())
    if (op->is("Transpose")) {
      EXPECT_FALSE(isFoldable(*op));
      EXPECT_TRUE(isFoldable(*op, FoldSize::Required));
    }
}

TEST(FoldTransposes, a_product_keeps_the_weight_as_it_is_stored) {
  Program p("MatMul");
  lower::foldLargeTransposes(p.ir, ref::evaluate);
  EXPECT_EQ(p.count("Transpose"), 1);
  EXPECT_EQ(p.main.tensor(p.main.find("w")).tensorData(), numbers());
}

TEST(FoldTransposes, other_readers_get_the_value_and_are_computed_too) {
  Program p("Neg");
  lower::foldLargeTransposes(p.ir, ref::evaluate);
  EXPECT_EQ(p.main.opCount(), 0u);
  EXPECT_FALSE(p.main.find("w").valid());
  const Tensor &y = p.main.tensor(p.main.find("y"));
  ASSERT_EQ(y.tensorType(), TensorType::Const);
  EXPECT_EQ(y.info.shape(), (Shape{kColumns, kRows}));
  const auto *values = static_cast<const float *>(y.tensorData().data());
  for (const int64_t row : {int64_t{0}, int64_t{5}, kRows - 1})
    for (const int64_t column : {int64_t{0}, int64_t{9}, kColumns - 1})
      EXPECT_EQ(values[column * kRows + row], -static_cast<float>(row * kColumns + column));
}

TEST(FoldTransposes, without_evaluator_nothing_changes) {
  Program p("Neg");
  lower::foldLargeTransposes(p.ir, {});
  EXPECT_EQ(p.count("Transpose"), 1);
  EXPECT_EQ(p.count("Neg"), 1);
}

}  // namespace
}  // namespace popart
