// Products of 8-bit integers: tiles of every instruction set that this processor has, against sums in 64 bits; the
// layout of weights; programs that read constants and variables packed.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "../support/instruction_sets.hpp"
#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/quad_block.hpp"
#include "backends/cpu/layouts/conv_quads.hpp"
#include "backends/cpu/layouts/quad_panels.hpp"

namespace popart {
namespace {

using cpu::QuadKernels;
using test::ProgramRun;

std::vector<uint8_t> bytes(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> result(static_cast<size_t>(count));
  for (uint8_t &b : result) b = static_cast<uint8_t>(random() % 4 == 0 ? (random() % 2 ? 0x7f : 0x80) : random());
  return result;
}

// f(kernels) for all kernels of all instruction sets.
template <class F>
void forAllKernels(F &&f) {
  test::forAllInstructionSets([&] {
    for (const QuadKernels *kernels : cpu::quadKernelChoices()) f(*kernels);
  });
}

struct Panel {
  std::vector<uint8_t> a, b;  // rows of A, and of B as INT8
  int64_t depth, columns;

  int64_t sum(int64_t r, int64_t c) const {
    int64_t sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += int64_t{a[static_cast<size_t>(r * depth + k)]} *
             int64_t{static_cast<int8_t>(b[static_cast<size_t>(k * columns + c)])};
    return sum;
  }
};

void expectProduct(const QuadKernels &kernels, int64_t rows, int64_t columns, int64_t depth, bool adds) {
  const Panel p{bytes(rows * depth, 1), bytes(depth * columns, 2), depth, columns};
  const int64_t quads = (depth + 3) / 4;
  std::vector<uint8_t> copies(static_cast<size_t>(rows * quads * 4), 0xee);
  for (int64_t r = 0; r < rows; ++r) {
    int32_t expected = 0;
    for (int64_t k = 0; k < depth; ++k) expected += p.a[static_cast<size_t>(r * depth + k)] ^ 0x80;
    uint8_t *to = copies.data() + r * quads * 4;
    EXPECT_EQ(kernels.copyRow(p.a.data() + r * depth, depth, 0x80, to), expected);
    kernels.copyRow(p.a.data() + r * depth, depth, 0, to);
  }
  std::vector<int8_t> packed(static_cast<size_t>(quads * 4 * kernels.panelColumns), 0x55);
  for (int64_t q = 0; q < quads; ++q)
    kernels.packQuad(p.b.data() + q * 4 * columns, columns, std::min<int64_t>(4, depth - 4 * q), columns, 0,
                     packed.data() + q * 4 * kernels.panelColumns);
  std::vector<int32_t> out(static_cast<size_t>(rows * (columns + 3)), 7), rowTerm(12), columnTerm(32);
  for (size_t i = 0; i < rowTerm.size(); ++i) rowTerm[i] = static_cast<int32_t>(i * 1234567);
  for (size_t i = 0; i < columnTerm.size(); ++i) columnTerm[i] = static_cast<int32_t>(i) - 9;
  kernels.multiply({.a = copies.data(),
                    .aStride = quads * 4,
                    .b = packed.data(),
                    .quads = quads,
                    .out = out.data(),
                    .outStride = columns + 3,
                    .rows = rows,
                    .columns = columns,
                    .adds = adds,
                    .terms = {{}, {rowTerm.data(), columnTerm.data()}}});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns + 3; ++c) {
      int64_t expected = 7;
      if (c < columns)
        expected = p.sum(r, c) + (adds ? 7 : 0) +
                   int64_t{rowTerm[static_cast<size_t>(r)]} * columnTerm[static_cast<size_t>(c)];
      ASSERT_EQ(out[static_cast<size_t>(r * (columns + 3) + c)], static_cast<int32_t>(expected))
          << rows << "x" << columns << " depth " << depth << " at " << r << ", " << c;
    }
}

TEST(QuadProduct, tiles_are_exact_on_every_instruction_set) {
  forAllKernels([](const QuadKernels &kernels) {
    ASSERT_EQ(cpu::kQuadRowsAtOnce % kernels.rows, 0);
    for (int64_t rows = 1; rows <= kernels.rows; ++rows)
      for (int64_t columns : {1, 3, kernels.panelColumns - 1, kernels.panelColumns})
        for (int64_t depth : {0, 1, 2, 3, 4, 5, 63, 64, 131})
          expectProduct(kernels, rows, columns, depth, rows % 2 == 0);
  });
}

TEST(QuadProduct, sums_of_extremes_do_not_saturate) {
  forAllKernels([](const QuadKernels &kernels) {
    for (int8_t number : {int8_t{127}, int8_t{-128}}) {
      constexpr int64_t kDepth = 1024;
      const std::vector<uint8_t> a(kDepth, 255);
      const std::vector<int8_t> b(static_cast<size_t>(kDepth * kernels.panelColumns), number);
      std::vector<int32_t> out(static_cast<size_t>(kernels.panelColumns));
      kernels.multiply({.a = a.data(),
                        .b = b.data(),
                        .quads = kDepth / 4,
                        .out = out.data(),
                        .rows = 1,
                        .columns = kernels.panelColumns,
                        .terms = {}});
      EXPECT_EQ(out, std::vector<int32_t>(out.size(), 255 * kDepth * number));
    }
  });
}

TEST(QuadProduct, runs_are_copied_within_the_source) {
  forAllKernels([](const QuadKernels &kernels) {
    for (int64_t count : {1, 7, 63, 64, 65, 130}) {
      const std::vector<uint8_t> source = bytes(count + 5, 4);
      const std::vector<cpu::QuadRun> runs = {
          {nullptr, 3}, {source.data() + 5, count}, {nullptr, 70}, {source.data(), 5}};
      std::vector<uint8_t> row(static_cast<size_t>(count + 78 + cpu::kQuadSlack), 0xee);
      kernels.copyRuns(runs, 9, 0x80, source.data() + source.size(), row.data());
      for (int64_t i = 0; i < count + 78; ++i) {
        const bool isFirst = i >= 3 && i < 3 + count, isLast = i >= count + 73;
        const uint8_t number = isFirst  ? source[static_cast<size_t>(i + 2)]
                               : isLast ? source[static_cast<size_t>(i - count - 73)]
                                        : uint8_t{9};
        ASSERT_EQ(row[static_cast<size_t>(i)], number ^ 0x80) << count << " at " << i;
      }
    }
  });
}

TEST(QuadProduct, channels_are_multiplied_one_by_one_on_every_instruction_set) {
  forAllKernels([](const QuadKernels &kernels) {
    constexpr int64_t kTaps = 9;
    const int64_t panel = kernels.panelColumns;
    for (int64_t channels : {1, 5, 16, 31, 32, 33, 100})
      for (const bool hasZeros : {false, true}) {
        const std::vector<uint8_t> x = bytes(kTaps * channels, 6), w = bytes(kTaps * channels, 7),
                                   paddings(static_cast<size_t>(channels + cpu::kQuadSlack), 200);
        const TensorInfo info(DataType::INT8, {channels, 1, 3, 3});
        const cpu::ConvQuads layout(static_cast<int32_t>(panel), channels, channels);
        std::vector<int32_t> stored(static_cast<size_t>(layout.bytes(info)) / 4), zeros(128), out(128, 7);
        layout.pack(info, w.data(), stored.data());
        for (size_t c = 0; c < zeros.size(); ++c) zeros[c] = static_cast<int32_t>(c * 3) - 128;
        const uint8_t *taps[12];
        std::fill(taps, taps + 12, paddings.data());
        for (int64_t t = 0; t < kTaps; ++t) taps[t] = x.data() + t * channels;
        kernels.multiplyChannels({.taps = taps,
                                  .quads = 3,
                                  .channels = channels,
                                  .end = x.data() + x.size(),
                                  .flip = 0x80,
                                  .padding = 200 ^ 0x80,
                                  .b = reinterpret_cast<const uint8_t *>(stored.data()),
                                  .panelStride = layout.panelBytes(kTaps),
                                  .rightZeros = hasZeros ? zeros.data() : nullptr,
                                  .out = out.data()});
        for (int64_t c = 0; c < channels; ++c) {
          int32_t expected = 0;
          for (int64_t t = 0; t < kTaps; ++t)
            expected += ((x[static_cast<size_t>(t * channels + c)] ^ 0x80) - (200 ^ 0x80)) *
                        (static_cast<int8_t>(w[static_cast<size_t>(c * kTaps + t)]) -
                         (hasZeros ? zeros[static_cast<size_t>(c)] : 0));
          ASSERT_EQ(out[static_cast<size_t>(c)], expected) << channels << " channels at " << c;
        }
      }
  });
}

TEST(ConvQuads, give_back_the_bits_they_were_given_and_hold_the_sums_of_columns) {
  struct Weights {
    Shape shape;
    int64_t groups, joined;
  };
  for (const DataType type : {DataType::INT8, DataType::UINT8})
    for (const auto &[shape, groups, joined] :
         {Weights{{5, 3, 2, 2}, 1, 1}, Weights{{8, 3, 3}, 4, 2}, Weights{{12, 2, 1, 3}, 6, 6},
          Weights{{40, 1, 3, 3}, 40, 40}, Weights{{0, 3, 2, 2}, 1, 1}, Weights{{4, 0, 2, 2}, 2, 2}}) {
      const TensorInfo info(type, shape);
      const std::vector<uint8_t> plain = bytes(info.nelms(), 3);
      const cpu::ConvQuads layout(16, groups, joined);
      const auto *named = cpu::asConvQuads(executable::layoutNamed(layout.name()));
      ASSERT_NE(named, nullptr);
      EXPECT_EQ(named->bytes(info), layout.bytes(info));
      std::vector<int32_t> stored(static_cast<size_t>(layout.bytes(info)) / 4, 0x5555);
      std::vector<uint8_t> back(plain.size(), 1);
      layout.pack(info, plain.data(), stored.data());
      layout.unpack(info, stored.data(), back.data());
      EXPECT_EQ(back, plain);
      const cpu::QuadFilters f = layout.filtersOf(info);
      if (info.nelms() == 0) continue;
      const int64_t each = info.nelms() / shape[0];
      for (int64_t o = 0; o < shape[0]; ++o) {
        int32_t expected = 0;
        const int flip = type == DataType::INT8 ? 0 : 0x80;
        for (int64_t i = 0; i < each; ++i)
          expected += static_cast<int8_t>(plain[static_cast<size_t>(o * each + i)] ^ flip);
        const int64_t column = o % f.columns();
        const int64_t at = o / f.columns() * layout.matrixBytes(f) + column / 16 * layout.panelBytes(f.rows());
        EXPECT_EQ(stored[static_cast<size_t>(at / 4 + column % 16)], expected) << layout.name() << " " << o;
      }
    }
}

TEST(ConvQuads, refuse_what_they_do_not_describe) {
  const cpu::ConvQuads layout(16, 4, 2);
  for (const TensorInfo &info : {TensorInfo(DataType::FLOAT, {4, 4, 1}), TensorInfo(DataType::INT8, {6, 4, 1})})
    EXPECT_NE(test::messageOf([&] { layout.bytes(info); }).find("does not describe"), std::string::npos);
  for (const char *name : {"quads_conv", "quads_conv16g4", "quads_conv16g4j3", "quads_conv16g4j2x", "quads_conv99g1j1",
                           "quads_conv16g0j1"})
    EXPECT_NE(test::messageOf([&] { executable::layoutNamed(name); }).find("quads_conv<columns>"), std::string::npos)
        << name;
}

TEST(QuadPanels, give_back_the_bits_they_were_given_and_hold_the_sums_of_columns) {
  for (const DataType type : {DataType::INT8, DataType::UINT8})
    for (const Shape &shape : {Shape{1, 1}, Shape{4, 16}, Shape{7, 35}, Shape{2, 9, 5}, Shape{0, 3}, Shape{3, 0}}) {
      const TensorInfo info(type, shape);
      const std::vector<uint8_t> plain = bytes(info.nelms(), 3);
      const auto *layout = cpu::asQuadPanels(executable::layoutNamed("quads16"));
      ASSERT_NE(layout, nullptr);
      EXPECT_EQ(layout, executable::layoutNamed(layout->name()));
      std::vector<uint8_t> stored(static_cast<size_t>(layout->bytes(info)), 0x55), back(plain.size(), 1);
      layout->pack(info, plain.data(), stored.data());
      layout->unpack(info, stored.data(), back.data());
      EXPECT_EQ(back, plain);
      if (info.nelms() == 0) continue;
      const int64_t rows = shape[shape.size() - 2], columns = shape.back();
      for (int64_t c = 0; c < columns; ++c) {
        int32_t expected = 0, sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const uint8_t number = plain[static_cast<size_t>(r * columns + c)];
          expected += type == DataType::INT8 ? int32_t{static_cast<int8_t>(number)} : number - 128;
        }
        std::memcpy(&sum, stored.data() + c / 16 * layout->panelBytes(rows) + c % 16 * 4, sizeof sum);
        EXPECT_EQ(sum, expected);
      }
    }
}

TEST(QuadPanels, describe_matrices_of_bytes_alone) {
  const executable::Layout &layout = *executable::layoutNamed("quads32");
  for (const TensorInfo &info :
       {TensorInfo(DataType::FLOAT, {4, 4}), TensorInfo(DataType::INT16, {4, 4}), TensorInfo(DataType::INT8, {4})})
    EXPECT_NE(test::messageOf([&] { layout.bytes(info); }).find("does not describe"), std::string::npos);
  for (const char *name : {"quads", "quads0", "quads-1", "quads16x", "quads99999999999"})
    EXPECT_NE(test::messageOf([&] { executable::layoutNamed(name); }).find("quads<columns>"), std::string::npos)
        << name;
}

// `weights`: "variable" or "const"; `use`: what else the program does with them.
std::string productOf(const std::string &weights, const std::string &use = "") {
  return R"(main {
  stream %in : uint8[100, 1030]
  )" + weights +
         R"( %w : int8[1030, 150] = 3
  const %zero : uint8[] = 5
  %x = HostLoad() {stream = "in"}
  %y = IntegerMatMul(%x, %w, %zero)
  HostStore(%y) {stream = "y"}
)" + use +
         "}\n";
}

int kernelsNamed(const executable::Executable &e, const std::string &name) {
  int count = 0;
  for (const auto &step : e.main.steps) count += step.kernel && step.kernel->name() == name;
  return count;
}

TEST(QuadPanels, weights_are_packed_when_the_program_is_made) {
  const std::vector<uint8_t> x = bytes(100 * 1030, 5);
  std::vector<int32_t> expected(100 * 150);
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t k = 0; k < 1030; ++k) expected[i] += (x[i / 150 * 1030 + k] - 5) * 3;
  for (const char *weights : {"variable", "const"})
    for (int threads : {1, 2, 5}) {
      const auto ir = parseIr(productOf(weights));
      ProgramRun run(*ir, {&cpu::backend(), &ref::backend()}, threads);
      EXPECT_EQ(kernelsNamed(run.executable(), "integer matmul quads packed"), 1) << weights;
      run.feed("in", x);
      for (int i = 0; i < 2; ++i) run.run();
      const std::vector<float> y = run.anchor("y");
      ASSERT_EQ(y.size(), expected.size());
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * sizeof(float)), 0) << weights << " " << threads;
    }
}

TEST(QuadPanels, weights_that_other_operators_read_stay_plain) {
  const auto ir =
      parseIr(productOf("variable", "  %t = Transpose(%w) {perm = [1, 0]}\n  HostStore(%t) {stream = \"t\"}\n"));
  const ProgramRun run(*ir, {&cpu::backend(), &ref::backend()});
  EXPECT_EQ(kernelsNamed(run.executable(), "integer matmul quads"), 1);
}

}  // namespace
}  // namespace popart
