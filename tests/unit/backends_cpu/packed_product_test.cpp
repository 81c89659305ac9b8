// Products with packed weights: tiles of every instruction set that this processor has, against exact sums; programs
// that read constants packed give the bits of those that make floats of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>

#include "../support/instruction_sets.hpp"
#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/packed_product.hpp"
#include "backends/cpu/layouts/word_panels.hpp"

namespace popart {
namespace {

using cpu::PackedKernels;
using cpu::PackedPanels;
using test::ProgramRun;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Zeros { kMiddle, kBytes, kFloats };

// Numbers, scales and zero points of `columns` columns, small enough for exact sums.
struct Weights {
  int bits;
  int64_t columns, depth, block;
  std::vector<uint8_t> packed, zeros;
  std::vector<float> scales;

  Weights(int numberBits, int64_t columnCount, int64_t depthOfAll, int64_t blockSize)
      : bits(numberBits), columns(columnCount), depth(depthOfAll), block(blockSize) {
    std::mt19937 random(7);
    for (int64_t i = 0; i < columns * bytes(); ++i) packed.push_back(static_cast<uint8_t>(random()));
    for (int64_t i = 0; i < columns * blocks(); ++i) {
      zeros.push_back(static_cast<uint8_t>(random() % (1u << bits)));
      scales.push_back(random() % 2 ? 0.25f : 2.0f);
    }
  }
  int64_t bytes() const { return ceilDiv(depth * bits, 8); }
  int64_t blocks() const { return ceilDiv(depth, block); }
  float middle() const { return static_cast<float>(1 << (bits - 1)); }
  float weight(int64_t column, int64_t k, Zeros kind) const {
    const auto at = static_cast<size_t>(column * blocks() + k / block);
    const int number =
        packed[static_cast<size_t>(column * bytes() + k * bits / 8)] >> (k * bits % 8) & ((1 << bits) - 1);
    return (static_cast<float>(number) - (kind == Zeros::kMiddle ? middle() : static_cast<float>(zeros[at]))) *
           scales[at];
  }
};

// `of` (columns, blocks) as the kernels read it.
template <class To, class From>
std::vector<To> inPanels(const std::vector<From> &of, int64_t columns, int64_t blocks, int64_t width) {
  std::vector<To> result(static_cast<size_t>(ceilDiv(columns, width) * width * blocks));
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t b = 0; b < blocks; ++b)
      result[static_cast<size_t>((c / width * blocks + b) * width + c % width)] =
          static_cast<To>(of[static_cast<size_t>(c * blocks + b)]);
  return result;
}

void expectProduct(const PackedKernels &kernels, const Weights &w, Zeros kind) {
  const int64_t width = kernels.panelColumns, panels = ceilDiv(w.columns, width);
  const cpu::WordPanels layout(static_cast<int32_t>(width));
  const TensorInfo info(DataType::UINT8, {w.columns, w.bytes()});
  std::vector<uint32_t> words(static_cast<size_t>(layout.bytes(info) / 4));
  layout.pack(info, w.packed.data(), words.data());
  const auto scales = inPanels<float>(w.scales, w.columns, w.blocks(), width),
             zeros = inPanels<float>(w.zeros, w.columns, w.blocks(), width);
  const auto byteZeros = inPanels<uint8_t>(w.zeros, w.columns, w.blocks(), width);
  PackedPanels b{.bits = w.bits,
                 .depth = w.depth,
                 .block = w.block,
                 .words = ceilDiv(w.bytes(), 4),
                 .blocks = w.blocks(),
                 .numbers = words.data(),
                 .scales = scales.data(),
                 .middle = w.middle()};
  if (kind == Zeros::kFloats) b.zeros = zeros.data();
  if (kind == Zeros::kBytes) b.byteZeros = byteZeros.data();
  const auto where = [&](int64_t rows) {
    return std::to_string(w.bits) + " bits, " + std::to_string(rows) + " x " + std::to_string(w.columns) + " x " +
           std::to_string(w.depth) + ", blocks of " + std::to_string(w.block);
  };
  for (int64_t first : {int64_t{0}, w.depth / 32 * 16}) {
    const int64_t count = w.depth - first;
    std::vector<float> floats(static_cast<size_t>(count * width + 1), 77.0f);
    kernels.unpack(b, panels - 1, first, count, floats.data());
    EXPECT_EQ(floats.back(), 77.0f);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t c = (panels - 1) * width; c < w.columns; ++c)
        ASSERT_EQ(floats[static_cast<size_t>(k * width + c % width)], w.weight(c, first + k, kind)) << where(0);
  }
  for (int64_t rows = 1; rows <= kernels.rows; ++rows) {
    std::vector<float> a(static_cast<size_t>(rows * w.depth));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 5 % 17) - 8);
    const int64_t stride = panels * width;
    std::vector<float> out(static_cast<size_t>(rows * stride), 77.0f);
    for (int64_t p = 0, next = 0; p < panels; p = next) {
      next = std::min(panels, p + kernels.panels);
      kernels.multiply({.a = a.data(),
                        .aStride = w.depth,
                        .rows = rows,
                        .b = &b,
                        .panel = p,
                        .panels = next - p,
                        .out = out.data() + p * width,
                        .outStride = stride});
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < w.columns; ++c) {
        double expected = 0;
        for (int64_t k = 0; k < w.depth; ++k)
          expected += static_cast<double>(a[static_cast<size_t>(r * w.depth + k)]) * w.weight(c, k, kind);
        ASSERT_EQ(out[static_cast<size_t>(r * stride + c)], expected) << where(rows) << " at " << r << ", " << c;
      }
  }
}

TEST(PackedProduct, tiles_are_exact_on_every_instruction_set) {
  test::forAllInstructionSets([] {
    const PackedKernels kernels = cpu::dispatchPackedKernels();
    ASSERT_LE(kernels.rows, cpu::kMostPackedRows);
    ASSERT_LE(kernels.panels * kernels.panelColumns, cpu::kMostPackedColumns);
    for (int bits : {2, 4, 8})
      for (Zeros zeros : {Zeros::kMiddle, Zeros::kBytes, Zeros::kFloats})
        for (int64_t columns : {int64_t{1}, kernels.panelColumns, 3 * kernels.panelColumns - 5})
          for (auto [depth, block] : {std::pair{71, 32}, {37, 64}, {48, 16}, {3, 16}})
            expectProduct(kernels, Weights(bits, columns, depth, block), zeros);
  });
}

// y = x · transposed floats of packed numbers + bias. Weights that are no constants are unpacked in each run.
struct Program {
  Weights weights;
  int64_t rows;
  Zeros zeros;

  std::vector<float> run(bool isConstant, int threads, std::vector<std::string> &kernels) const {
    Ir ir;
    test::GraphBuilder b(ir.getMainGraph());
    const Weights &w = weights;
    const TensorInfo packedInfo(DataType::UINT8, {w.columns, w.bytes()});
    const Attributes loads{{"stream", std::string("p")}};
    TensorIndex packed;
    if (isConstant)
      packed = b.graph().addConstant("packed", TensorData(packedInfo, w.packed.data()));
    else
      packed = b.op("HostLoad", {b.stream("p", DataType::UINT8, packedInfo.shape())}, "packed", loads);
    const TensorIndex x =
        b.op("HostLoad", {b.stream("x", DataType::FLOAT, {rows, w.depth})}, "x_in", {{"stream", std::string("x")}});
    const Shape blocks{w.columns, w.blocks()};
    std::vector<TensorIndex> inputs{packed, b.constant("scale", blocks, test::numbers(w.columns * w.blocks(), 3))};
    if (zeros == Zeros::kFloats) inputs.push_back(b.constant("zero", blocks, test::numbers(w.columns * w.blocks(), 4)));
    if (zeros == Zeros::kBytes) {  // packed as the numbers are
      const int64_t bytes = ceilDiv(w.blocks() * w.bits, 8);
      std::vector<uint8_t> points(static_cast<size_t>(w.columns * bytes));
      for (size_t i = 0; i < points.size(); ++i) points[i] = static_cast<uint8_t>(i * 37 + 11);
      inputs.push_back(b.op(
          "DequantizePacked",
          {b.graph().addConstant("points", TensorData(TensorInfo(DataType::UINT8, {w.columns, bytes}), points.data())),
           b.constant("one", {w.columns, 1}, std::vector<float>(static_cast<size_t>(w.columns), 1.0f))},
          "zero",
          {{"bits", int64_t{w.bits}},
           {"block_size", std::max<int64_t>(1, w.blocks())},
           {"columns", w.blocks()},
           {"zero_point", 0.0f}}));
    }
    const TensorIndex floats =
        b.op("DequantizePacked", inputs, "floats",
             {{"bits", int64_t{w.bits}}, {"block_size", w.block}, {"columns", w.depth}, {"zero_point", w.middle()}});
    const TensorIndex turned = b.op("Transpose", {floats}, "turned", {{"perm", std::vector<int64_t>{1, 0}}});
    const TensorIndex product = b.op("MatMul", {x, turned}, "product");
    const TensorIndex y = b.op(
        "Relu", {b.op("Add", {product, b.constant("bias", {w.columns}, test::numbers(w.columns, 5))}, "sum")}, "y");
    b.graph().addConnectedOp(opDef("HostStore"), {y}, {}, {{"stream", std::string("y")}}, Op::Settings(b.graph()));
    ProgramRun run(ir, {&cpu::backend(), &ref::backend()}, threads);
    for (const auto &step : run.executable().main.steps)
      if (step.kernel) kernels.push_back(step.kernel->name());
    run.feed("x", test::numbers(rows * w.depth, 6));
    if (!isConstant) run.feed("p", w.packed);
    run.run();
    return run.anchor("y");
  }
};

bool readsPacked(const std::vector<std::string> &kernels) {
  return std::ranges::any_of(kernels, [](const std::string &name) { return name.starts_with("packed matmul"); });
}

TEST(PackedProduct, constants_that_stay_packed_give_the_bits_of_their_floats) {
  for (int bits : {2, 4, 8})
    for (int64_t rows = 1; rows <= 17; rows += bits == 4 ? 1 : 4)
      for (Zeros zeros : {Zeros::kMiddle, Zeros::kBytes, Zeros::kFloats}) {
        const Program program{Weights(bits, rows % 2 ? 77 : 64, rows % 3 ? 250 : 416, 32), rows, zeros};
        std::vector<std::string> of[2];
        const std::vector<float> expected = program.run(false, 1, of[0]);
        for (int threads : {1, 5}) {
          const std::vector<float> y = program.run(true, threads, of[1]);
          ASSERT_EQ(y.size(), expected.size());
          EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0)
              << bits << " bits, " << rows << " rows, " << static_cast<int>(zeros) << ", " << threads << " threads";
        }
        EXPECT_FALSE(readsPacked(of[0]));
        EXPECT_TRUE(readsPacked(of[1]));
      }
}

TEST(PackedProduct, one_number_and_blocks_of_odd_sizes) {
  for (auto [columns, depth, block, isPacked] : {std::tuple{1, 1, 16, true}, {1, 40, 64, true}, {33, 60, 20, false}}) {
    const Program program{Weights(4, columns, depth, block), 2, Zeros::kFloats};
    std::vector<std::string> of[2];
    EXPECT_EQ(program.run(true, 1, of[1]), program.run(false, 1, of[0]));
    EXPECT_EQ(readsPacked(of[1]), isPacked) << columns << " " << depth << " " << block;
  }
}

TEST(WordPanels, give_back_the_bits_they_were_given) {
  for (const Shape &shape : {Shape{1, 1}, Shape{16, 4}, Shape{35, 7}, Shape{0, 3}, Shape{3, 0}}) {
    const TensorInfo info(DataType::UINT8, shape);
    std::vector<uint8_t> plain(static_cast<size_t>(info.nelms()));
    for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<uint8_t>(i + 1);
    const executable::Layout *layout = executable::layoutNamed("words16");
    ASSERT_EQ(layout, executable::layoutNamed(layout->name()));
    std::vector<uint8_t> stored(static_cast<size_t>(layout->bytes(info)), 0x55), back(plain.size(), 1);
    layout->pack(info, plain.data(), stored.data());
    layout->unpack(info, stored.data(), back.data());
    EXPECT_EQ(back, plain);
  }
  for (const char *name : {"words", "words0", "words16x"})
    EXPECT_NE(test::messageOf([&] { executable::layoutNamed(name); }).find("words<columns>"), std::string::npos);
}

}  // namespace
}  // namespace popart
