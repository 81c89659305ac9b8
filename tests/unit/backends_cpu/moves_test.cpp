// Moves, index operators, orders, dropout and column softmax of the CPU backend against the reference backend: element
// types of every width, shapes that split into several tasks and leave remainders. Each op must really be taken by the
// CPU backend.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "../support/against_reference.hpp"

namespace popart {
namespace {

using test::floats;
using Ints = std::vector<int64_t>;

// Elements 0, 1, 2, … (modulo what the type holds).
template <class T>
TensorData counting(const Shape &shape) {
  std::vector<T> values(static_cast<size_t>(elementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i % 251);
  return TensorData::of<T>(shape, values);
}
std::vector<TensorData> everyWidth(const Shape &shape) {
  return {counting<uint8_t>(shape), counting<int16_t>(shape), counting<float>(shape), counting<int64_t>(shape)};
}

void compare(const SingleOp &op, double tolerance = 0) { test::compareWithReference(op, tolerance); }

TEST(CpuMoves, TransposeAgreesWithReference) {
  const std::vector<std::pair<Shape, Ints>> cases = {
      {{70, 130}, {1, 0}},
      {{2, 9, 5, 64}, {0, 2, 1, 3}},
      {{2, 9, 5, 64}, {0, 2, 3, 1}},
      {{3, 1, 7}, {2, 1, 0}},
      {{4, 33, 65}, {0, 2, 1}},
      {{5, 6, 7, 2}, {3, 1, 0, 2}},
      {{0, 4}, {1, 0}},
      {{8, 4, 2}, {1, 0, 2}},
      {{2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}},
      {{300, 200, 3}, {2, 0, 1}},
      {{2, 5, 18, 2, 28, 2}, {0, 3, 5, 1, 2, 4}},  // blocks of pixels as channels, and back
      {{2, 2, 2, 5, 18, 28}, {0, 3, 4, 1, 5, 2}},
      {{1, 4, 5, 3, 19, 3}, {0, 3, 5, 1, 2, 4}},
      {{1, 3, 3, 4, 5, 19}, {0, 3, 4, 1, 5, 2}}};
  for (const auto &[shape, perm] : cases)
    for (const TensorData &x : everyWidth(shape)) compare({"Transpose", {{"perm", perm}}, {x}, 1});
}

TEST(CpuMoves, InitFillsEverything) {
  for (const Shape &shape : {Shape{}, Shape{0, 3}, Shape{5, 7}, Shape{700, 1001}})
    for (const DataType type : {DataType::BOOL, DataType::FLOAT16, DataType::FLOAT, DataType::INT64})
      for (const int64_t kind : {0, 1})
        compare({"Init", {{"shape", shape}, {"dtype", int64_t{toOnnxDataType(type)}}, {"init_type", kind}}, {}, 1});
}

TEST(CpuMoves, SlicesAgreeWithReference) {
  struct Range {
    Shape shape;
    Ints starts, ends, steps;
  };
  const std::vector<Range> ranges = {{{9, 40}, {1, 3}, {7, 39}, {1, 1}},
                                     {{9, 40}, {8, 39}, {-20, -50}, {-1, -3}},
                                     {{200, 300}, {0, 10}, {200, 290}, {2, 1}},
                                     {{5, 6, 7}, {4, 0, 1}, {5, 6, 6}, {1, 2, 4}},
                                     {{4, 4}, {2, 0}, {2, 4}, {1, 1}},
                                     {{1, 1000, 70}, {0, 900, 0}, {1, 100, 70}, {1, -7, 1}},
                                     {{3, 9000}, {1, 10}, {3, 8000}, {1, 1}},
                                     {{2, 3, 9000}, {0, 1, 5}, {2, 2, 9000}, {1, 1, 3}},
                                     {{70000}, {5}, {60000}, {3}}};  // rows that are long
  for (const Range &r : ranges) {
    const Attributes a{{"starts", r.starts}, {"ends", r.ends}, {"steps", r.steps}};
    for (const TensorData &x : everyWidth(r.shape)) {
      compare({"Slice", a, {x}, 1});
      const TensorData part = runOp({"Slice", a, {x}, 1}, OpBackend::Reference)[0];
      compare({"SliceUpdate",
               a,
               {runOp({"Reverse", {{"dimensions", Ints{0}}}, {x}, 1}, OpBackend::Reference)[0], part},
               1});
    }
    Attributes back = a;
    back.set("fwd_shape", r.shape);
    const TensorData g = runOp({"Slice", a, {floats(r.shape, 2)}, 1}, OpBackend::Reference)[0];
    compare({"SliceGrad", back, {g}, 1});
  }
}

TEST(CpuMoves, JoinsCutsAndRepeatsAgreeWithReference) {
  for (const TensorData &x : everyWidth({6, 50, 7}))
    for (int64_t axis : {0, 1, 2}) {
      compare({"Reverse", {{"dimensions", Ints{axis}}}, {x}, 1});
      compare({"Concat", {{"axis", axis}}, {x, x, x}, 1});
      compare({"Split",
               {{"axis", axis},
                {"split", axis == 0   ? Ints{1, 5}
                          : axis == 1 ? Ints{20, 30}
                                      : Ints{0, 7}}},
               {x},
               2});
    }
  for (const TensorData &x : everyWidth({5, 1}))  // rows of one element: shorter and longer than what is copied at once
    for (int64_t columns : {1, 3, 64, 65, 700, 1024}) compare({"Expand", {{"shape", Ints{5, columns}}}, {x}, 1});
  for (const TensorData &x : everyWidth({3, 1, 70})) {
    compare({"Expand", {{"shape", Ints{2, 1, 90, 1}}}, {x}, 1});
    compare({"Tile", {{"repeats", Ints{2, 3, 5}}}, {x}, 1});
    compare({"Pad", {{"pads", Ints{1, 0, 2, 0, 3, 1}}}, {x}, 1});
    compare({"Pad", {{"pads", Ints{-1, 0, -2, 0, 0, -1}}}, {x}, 1});
  }
  compare({"Expand", {{"shape", Ints{400, 300}}}, {floats({400, 1}, 1)}, 1});
  compare({"Pad", {{"pads", Ints{3, 2, 1, 300}}, {"value", 1.5f}}, {floats({200, 300}, 3)}, 1});
}

TEST(CpuIndex, GatherAgreesWithReference) {
  const TensorData indices = TensorData::of<int32_t>({2, 4}, std::vector<int32_t>{0, 3, -1, 1, 2, 2, -4, 3}),
                   wild = TensorData::of<int32_t>({2, 4}, std::vector<int32_t>{0, 3, -1, 7, 2, 2, -9, 3});
  for (const TensorData &x : everyWidth({5, 4, 9}))
    for (int64_t axis : {0, 1, 2})
      for (int64_t zero : {0, 1})
        compare({"Gather", {{"axis", axis}, {"zero_OOR", zero}}, {x, zero ? wild : indices}, 1});
  for (int64_t axis : {0, 1, 2}) {
    const TensorData g =
        runOp({"Gather", {{"axis", axis}}, {floats({5, 4, 9}, 1), indices}, 1}, OpBackend::Reference)[0];
    compare({"GatherGrad", {{"axis", axis}, {"fwd_shape", Ints{5, 4, 9}}}, {g, indices}, 1}, 1e-6);
  }
  std::vector<int32_t> tokens(600);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 1000);
  const TensorData many = TensorData::of<int32_t>({600}, tokens);
  compare({"Gather", {}, {floats({1000, 96}, 4), many}, 1});
  compare({"GatherGrad", {{"fwd_shape", Ints{1000, 96}}}, {floats({600, 96}, 5), many}, 1}, 1e-6);
  compare({"GatherGrad", {{"fwd_shape", Ints{2, 300}}, {"zero_OOR", int64_t{1}}}, {floats({600, 300}, 5), many}, 1},
          1e-5);
  const TensorData groups = TensorData::of<int32_t>({2, 3}, std::vector<int32_t>{0, 2, 3, 1, 1, -1});
  compare({"Gather", {{"axis", int64_t{1}}, {"group_size", int64_t{2}}}, {floats({2, 4, 5}, 6), groups}, 1});
}

TEST(CpuIndex, GatherElementsAndOneHotAgreeWithReference) {
  const TensorData places =
      TensorData::of<int64_t>({3, 4}, std::vector<int64_t>{0, 1, 2, -1, 3, 3, -4, 2, 1, 1, 0, -2});
  const TensorData wild = TensorData::of<int64_t>({3, 4}, std::vector<int64_t>{0, 1, 2, -1, 9, 3, -4, 2, 1, 1, 0, -7});
  for (const TensorData &x : everyWidth({4, 5}))
    for (int64_t axis : {0, 1}) compare({"GatherElements", {{"axis", axis}}, {x, places}, 1});
  for (const TensorData &values : everyWidth({2}))
    for (int64_t axis : {0, 1, -1}) compare({"OneHot", {{"axis", axis}, {"depth", int64_t{5}}}, {wild, values}, 1});
}

TEST(CpuOrder, AgreesWithReference) {
  auto ties = test::numbers(7 * 33 * 5, 3);
  for (size_t i = 0; i < ties.size(); i += 3) ties[i] = 0.25f;
  ties[40] = NAN, ties[41] = INFINITY, ties[300] = -INFINITY;
  const TensorData x = TensorData::of<float>({7, 33, 5}, ties), n = counting<int32_t>({7, 33, 5});
  for (const TensorData &data : {x, n})
    for (int64_t axis : {0, 1, 2}) {
      for (int64_t last : {0, 1})
        for (const char *type : {"ArgMax", "ArgMin"})
          compare({type, {{"axis", axis}, {"select_last_index", last}}, {data}, 1});
      for (int64_t largest : {0, 1})
        compare({"TopK", {{"axis", axis}, {"k", int64_t{4}}, {"largest", largest}}, {data}, 2});
      compare({"Sort", {{"axis", axis}, {"descending", int64_t{1}}}, {data}, 2});
    }
  for (int64_t axis : {0, 1, 2})
    for (int64_t exclusive : {0, 1})
      for (int64_t reverse : {0, 1}) {
        const Attributes a{{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}};
        compare({"CumSum", a, {floats({7, 33, 5}, 4)}, 1});
        compare({"CumSum", a, {n}, 1});
      }
}

TEST(CpuRandom, SameBitsAsReference) {
  const TensorData seed = TensorData::of<uint32_t>({2}, std::vector<uint32_t>{7, 11});
  for (const Shape &shape : std::vector<Shape>{{3}, {5, 13}, {40001}}) {
    for (float ratio : {0.1f, 0.5f, 0.0f}) {
      compare({"Dropout", {{"ratio", ratio}, {"training_mode", int64_t{1}}}, {floats(shape, 8), seed}, 1});
      compare({"Dropout", {{"ratio", ratio}, {"training_mode", int64_t{1}}}, {floats(shape, 8), seed}, 2});
      compare({"DropoutGrad", {{"ratio", ratio}}, {floats(shape, 9), seed}, 1});
    }
    compare({"RandomUniform", {{"shape", shape}, {"low", -1.0f}, {"high", 3.0f}}, {seed}, 1});
  }
}

TEST(CpuRows, SoftmaxOverAnyAxisAgreesWithReference) {
  for (const Shape &shape : std::vector<Shape>{{3, 10, 7}, {2, 33, 130}, {100, 4, 3}})
    for (int64_t axis : {0, 1})
      for (const std::string type : {"Softmax", "LogSoftmax"}) {
        compare({type, {{"axis", axis}}, {floats(shape, 5)}, 1}, 2e-6);
        const TensorData y = runOp({type, {{"axis", axis}}, {floats(shape, 5)}, 1}, OpBackend::Reference)[0];
        compare({type + "Grad", {{"axis", axis}}, {floats(shape, 6), y}, 1}, 1e-5);
      }
}

TEST(CpuFold, AgreesWithReference) {
  const Shape shape = {3, 5, 4, 30, 2};
  const std::vector<Ints> axes = {{1, 3}, {0, 2, 4}, {4}, {0}, {0, 1, 2, 3, 4}, {}};
  for (const char *type :
       {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceMax", "ReduceMin"})
    for (const Ints &a : axes)
      for (const TensorData &x : {counting<uint8_t>(shape), counting<int16_t>(shape), counting<int64_t>(shape)})
        compare({type, {{"axes", a}}, {x}, 1});
  for (const char *type : {"ReduceProd", "ReduceLogSumExp", "ReduceMean", "ReduceL2", "ReduceLogSum"})
    for (const Ints &a : axes) compare({type, {{"axes", a}}, {floats(shape, 3)}, 1}, 1e-5);
}

TEST(CpuElementwise, CastToBoolIsNotZero) {
  const std::vector<float> values = {0.3f, -0.2f, 0.0f, -0.0f, 2.0f, NAN, INFINITY, 1e-40f};
  const TensorData x = TensorData::of<float>({8}, values);
  compare({"Cast", {{"to", int64_t{9}}}, {x}, 1});
  for (int64_t type : {10, 16})
    compare({"Cast", {{"to", int64_t{9}}}, {runOp({"Cast", {{"to", type}}, {x}, 1}, OpBackend::Reference)[0]}, 1});
}

// Heads of attention: the transposes around both products become strides, and nothing else changes.
TEST(CpuMatmul, TransposesBecomeStrides) {
  constexpr int64_t kBatch = 2, kLength = 9, kHeads = 3, kWidth = 20;
  const Shape split = {kBatch, kLength, kHeads, kWidth};
  Ir ir;
  test::GraphBuilder b(ir.getMainGraph());
  std::map<std::string, std::vector<float>> inputs;
  auto heads = [&](const std::string &id, const Ints &perm) {
    inputs[id] = test::numbers(elementCount(split), static_cast<int>(inputs.size()) + 1);
    const TensorIndex x = b.op("Reshape", {b.stream(id, DataType::FLOAT, {kBatch, kLength, kHeads * kWidth})},
                               id + "_split", {{"shape", split}});
    return b.op("Transpose", {x}, id + "_heads", {{"perm", perm}});
  };
  const TensorIndex q = heads("q", {0, 2, 1, 3}), k = heads("k", {0, 2, 3, 1}), v = heads("v", {0, 2, 1, 3});
  const TensorIndex weights =
      b.op("Relu", {b.op("Scale", {b.op("MatMul", {q, k}, "scores")}, "scaled", {{"scale", 0.25f}})}, "weights");
  const TensorIndex joined =
      b.op("Transpose", {b.op("MatMul", {weights, v}, "context")}, "joined", {{"perm", Ints{0, 2, 1, 3}}});
  const TensorIndex y = b.op("Reshape", {joined}, "y", {{"shape", Ints{kBatch, kLength, kHeads * kWidth}}});
  ir.getMainGraph().addConnectedOp(opDef("HostStore"), {y}, {}, {{"stream", std::string("y")}},
                                   Op::Settings(ir.getMainGraph()));
  test::ProgramRun fast(ir, {&cpu::backend(), &ref::backend()}, 2), meaning(ir);
  for (auto *run : {&fast, &meaning}) {
    for (const auto &[id, values] : inputs) run->feed(id, values);
    run->run();
  }
  EXPECT_NE(fast.executable().loweredText.find("FusedMatMul"), std::string::npos);
  EXPECT_EQ(fast.executable().loweredText.find("Transpose"), std::string::npos) << fast.executable().loweredText;
  const auto got = fast.anchor("y"), want = meaning.anchor("y");
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << i;
}

}  // namespace
}  // namespace popart
