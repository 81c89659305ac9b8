// Products of 16-bit matrices whose sums are exact in any order: every layout of the right operand, epilogues and
// updates that round, any number of threads. FLOAT16 against the FLOAT product of the same numbers, bit for bit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include <popart/half.hpp>

#include "../support/halves.hpp"
#include "../support/random_floats.hpp"
#include "../support/run_matmul.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "base/threads/thread_pool.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
using test::halved;
using test::Halves;
using test::integers;
using test::kHalfTypes;
using test::randomFloats;
using test::roundedTo;
using test::transposed;
using test::widened;

struct Size {
  int64_t m, n, k;
};
const Size kSizes[] = {{1, 1, 1},    {2, 65, 40},    {13, 31, 9},    {15, 33, 100}, {29, 70, 801},
                       {60, 260, 1}, {40, 40, 1601}, {33, 128, 784}, {5, 7, 0},     {0, 4, 4}};

template <class T>
void run(const MatmulShape &shape, MatmulArgs args, int threads, std::vector<T> &c, ptrdiff_t rowStride) {
  args.c = c.data(), args.cRowStride = rowStride;
  ThreadPool pool(std::min(threads, 8));
  test::runMatmul(Matmul(shape, threads), args, pool);
}

Halves packed(DataType type, const Halves &b, int64_t rows, int64_t columns) {
  const executable::Layout *layout = matrixPanels(Transposed::kNo);
  const TensorInfo info(type, {rows, columns});
  Halves stored(static_cast<size_t>(layout->bytes(info) / 2));
  layout->pack(info, b.data(), stored.data());
  return stored;
}

// The operands of a product; `variant`: bit 0 A by columns, the others the layout of B.
struct Operands {
  static constexpr int kVariants = 8;
  Halves a, aColumns, b, bColumns, panels, transposedPanels;
  Operands(DataType type, const Size &size, const Floats &left, const Floats &right)
      : a(halved(type, left)),
        aColumns(transposed(a, size.m, size.k)),
        b(halved(type, right)),
        bColumns(transposed(b, size.k, size.n)),
        panels(packed(type, b, size.k, size.n)),
        transposedPanels(packed(type, bColumns, size.n, size.k)) {}
  MatmulShape shape(DataType type, const Size &size, int variant) const {
    MatmulShape s{size.m, size.n, size.k};
    s.factors = type;
    s.bLayout = std::array{BLayout::kStrided, BLayout::kStrided, BLayout::kPacked,
                           BLayout::kPackedTransposed}[static_cast<size_t>(variant / 2)];
    return s;
  }
  MatmulArgs args(const Size &size, int variant) const {
    MatmulArgs args;
    args.aHalves = a.data(), args.aRowStride = size.k;
    if (variant & 1) args.aHalves = aColumns.data(), args.aRowStride = 1, args.aColStride = size.m;
    args.bHalves = std::array{&b, &bColumns, &panels, &transposedPanels}[static_cast<size_t>(variant / 2)]->data();
    args.bRowStride = size.n;
    if (variant / 2 == 1) args.bRowStride = 1, args.bColStride = size.k;
    return args;
  }
};

TEST(HalfMatmul, sums_are_exact_for_every_layout_and_thread_count) {
  for (const DataType type : kHalfTypes)
    for (const Size &size : kSizes) {
      const Floats left = integers(size.m * size.k, 1), right = integers(size.k * size.n, 2);
      const Operands operands(type, size, left, right);
      Floats expected(static_cast<size_t>(size.m * size.n), 0.0f);
      for (int64_t r = 0; r < size.m; ++r)
        for (int64_t i = 0; i < size.k; ++i)
          for (int64_t c = 0; c < size.n; ++c) expected[r * size.n + c] += left[r * size.k + i] * right[i * size.n + c];
      for (int variant = 0; variant < Operands::kVariants; ++variant)
        for (int threads : {1, 2, 3, 8}) {
          Floats c(expected.size(), NAN);
          run(operands.shape(type, size, variant), operands.args(size, variant), threads, c, size.n);
          ASSERT_EQ(c, expected) << toText(type) << " " << size.m << "x" << size.n << "x" << size.k << " variant "
                                 << variant;
        }
    }
}

TEST(HalfMatmul, float16_has_the_bits_of_float) {
  for (const Size &size : kSizes) {
    const Floats left = randomFloats(size.m * size.k, 3), right = randomFloats(size.k * size.n, 4);
    const Operands operands(DataType::FLOAT16, size, left, right);
    const Floats a = widened(DataType::FLOAT16, operands.a), b = widened(DataType::FLOAT16, operands.b);
    MatmulArgs args;
    args.a = a.data(), args.aRowStride = size.k, args.b = b.data(), args.bRowStride = size.n;
    Floats expected(static_cast<size_t>(size.m * size.n), NAN), c = expected;
    run(MatmulShape{size.m, size.n, size.k}, args, 1, expected, size.n);
    for (int variant = 0; variant < Operands::kVariants; ++variant) {
      run(operands.shape(DataType::FLOAT16, size, variant), operands.args(size, variant), 2, c, size.n);
      ASSERT_EQ(c, expected) << size.m << "x" << size.n << "x" << size.k << " variant " << variant;
    }
  }
}

TEST(HalfMatmul, epilogue_rounds_the_sum_and_every_step) {
  for (const DataType type : kHalfTypes)
    for (const Size &size : {Size{15, 33, 100}, Size{29, 70, 801}, Size{3, 8, 5}}) {
      const Floats left = randomFloats(size.m * size.k, 5), right = randomFloats(size.k * size.n, 6);
      const Operands operands(type, size, left, right);
      const int64_t count = size.m * size.n;
      const Halves bias = halved(type, randomFloats(size.n, 7)), residual = halved(type, randomFloats(count, 8)),
                   other = halved(type, randomFloats(count, 9));
      Floats sums(static_cast<size_t>(count));
      run(operands.shape(type, size, 0), operands.args(size, 0), 1, sums, size.n);
      for (const bool hasOther : {false, true}) {
        MatmulArgs args = operands.args(size, 0);
        args.epilogue.type = type, args.epilogue.alpha = 0.75f;
        args.epilogue.bias = bias.data(), args.epilogue.residual = residual.data();
        args.epilogue.step.op = hasOther ? ElementOp::kSigmoidGrad : ElementOp::kSigmoid;
        Halves before(static_cast<size_t>(count)), y(static_cast<size_t>(count));
        args.epilogue.preActivation = before.data();
        if (hasOther) args.epilogue.other = other.data();
        run(operands.shape(type, size, 0), args, 2, y, size.n);
        const Floats b = widened(type, bias), r = widened(type, residual), o = widened(type, other);
        for (int64_t i = 0; i < count; ++i) {
          float v = roundedTo(type, sums[i]);
          v = roundedTo(type, 0.75f * v);
          v = roundedTo(type, v + b[i % size.n]);
          v = roundedTo(type, v + r[i]);
          ASSERT_EQ(before[i], halved(type, {v})[0]) << toText(type) << " element " << i;
          float result = v;
          const void *in[] = {&result, &o[static_cast<size_t>(i)]};
          elementFunction(args.epilogue.step.op, 0)(in, &result, 1, nullptr);
          ASSERT_EQ(y[i], halved(type, {result})[0]) << toText(type) << " element " << i << ", other " << hasOther;
        }
      }
    }
}

// Adds the gradient to 16-bit parameters, and counts each of them.
class Adding final : public ElementUpdate {
 public:
  Adding(DataType type, Halves &parameter) : type_(type), parameter_(parameter) {}
  void apply(const float *gradient, int64_t position, int64_t count) const noexcept override {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t &p = parameter_[static_cast<size_t>(position + i)];
      p = halved(type_, {widened(type_, {p})[0] + gradient[i]})[0];
    }
  }
  void prefetch(int64_t, int64_t) const noexcept override {}
  void clear(int64_t, int64_t) const noexcept override {}

 private:
  DataType type_;
  Halves &parameter_;
};

TEST(HalfMatmul, updates_get_rounded_gradients_once) {
  for (const DataType type : kHalfTypes)
    for (const Size &size : {Size{15, 33, 100}, Size{29, 1100, 80}, Size{40, 40, 1601}})
      for (const bool updatesRows : {false, true}) {
        const Operands operands(type, size, randomFloats(size.m * size.k, 10), randomFloats(size.k * size.n, 11));
        const int64_t count = size.m * size.n;
        Floats sums(static_cast<size_t>(count));
        run(operands.shape(type, size, 1), operands.args(size, 1), 1, sums, size.n);
        const Halves old = halved(type, randomFloats(count, 12));
        Halves parameter = old, expected = old;
        for (int64_t i = 0; i < count; ++i)
          expected[i] = halved(type, {widened(type, {old[i]})[0] + roundedTo(type, sums[i])})[0];
        const Adding adding(type, parameter);
        const Update update{.kind = UpdateKind::kElements,
                            .elements = &adding,
                            .base = reinterpret_cast<float *>(parameter.data()),
                            .type = type};
        MatmulShape shape = operands.shape(type, size, 1);
        shape.updatesRows = updatesRows;
        MatmulArgs args = operands.args(size, 1);
        args.update = &update, args.parameterLayout = MatmulArgs::ParameterLayout::kRows;
        run(shape, args, 3, parameter, size.n);
        ASSERT_EQ(parameter, expected) << toText(type) << " " << size.m << "x" << size.n << "x" << size.k;
      }
}

}  // namespace
}  // namespace popart::cpu
