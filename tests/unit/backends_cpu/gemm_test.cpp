// Matrix products against plain loops in double, and bit for bit between task partitions, layouts and fused or separate
// epilogues.
#include "backends/cpu/kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "../support/random_floats.hpp"
#include "../support/run_matmul.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "base/threads/thread_pool.hpp"

namespace popart::cpu {
namespace {

using Floats = std::vector<float>;
using test::randomFloats;
using test::runMatmul;

double expectedSum(const MatmulArgs &args, int64_t m, int64_t n, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    sum += static_cast<double>(args.a[m * args.aRowStride + i * args.aColStride]) *
           args.b[i * args.bRowStride + n * args.bColStride];
  }
  return sum;
}

double tolerance(int64_t k) { return 3e-6 * std::sqrt(static_cast<double>(k) + 1); }

struct Size {
  int64_t m, n, k;
};
const Size kSizes[] = {{1, 1, 1},   {1, 300, 7}, {2, 65, 40},   {3, 129, 33},  {4, 10, 5},    {8, 512, 784},
                       {13, 31, 9}, {14, 32, 8}, {15, 33, 100}, {29, 70, 801}, {100, 97, 65}, {250, 40, 1601},
                       {5, 7, 0},   {0, 4, 4},   {4, 0, 4},     {1, 257, 1700}};

// Two tasks on the same rows and panel would both write, and update, the same elements.
// Widths of ten panels are five pairs, which two equal ranges cannot have.
TEST(Matmul, threads_begin_with_nearly_equal_work) {
  for (const int64_t panels : {4, 5, 6, 7, 8, 9, 10, 11, 12, 38, 39})
    for (const int64_t m : {304, 1024, 1248, 4096})
      for (const int threads : {2, 3, 4})
        for (const BLayout layout : {BLayout::kStrided, BLayout::kPackedTransposed}) {
          MatmulShape shape{m, panels * microKernels().panelWidth - 8, 1024, layout};
          shape.gathersRows = layout == BLayout::kStrided;
          const Matmul product(shape, threads);
          double most = 0;
          for (int thread = 0; thread < threads; ++thread) {
            double share = 0;
            for (int task = product.tasks() * thread / threads; task < product.tasks() * (thread + 1) / threads; ++task)
              share += product.share(task);
            most = std::max(most, share);
          }
          EXPECT_LE(most * threads, 1.15) << m << " rows, " << panels << " panels, " << threads << " threads";
        }
}

TEST(Matmul, tasks_of_dot_products_share_no_elements) {
  for (int64_t m = 1; m <= 16; ++m) {
    MatmulShape shape{m, 16, 1 << 16};
    shape.bLayout = BLayout::kPackedTransposed;
    EXPECT_LE(Matmul(shape, 2).tasks(), packedSize(1, shape.n) / panelWidth()) << m << " rows";
  }
}

// A task of one row tile would read a panel for few multiply-adds.
TEST(Matmul, tasks_of_few_rows_share_no_panels) {
  for (const auto &[n, k] : {std::pair{512, 784}, {512, 512}}) {
    MatmulShape shape{80, n, k};
    shape.bLayout = BLayout::kPacked;
    EXPECT_LE(Matmul(shape, 2).tasks() * panelWidth(), 256) << n << " columns, k " << k;
  }
}

// Every transposition of A, every layout of B, one to 64 threads, all against the same sums.
TEST(Matmul, matches_loops_for_every_layout_and_thread_count) {
  for (const Size &s : kSizes) {
    const Floats aRows = randomFloats(s.m * s.k + 1, 1), bRows = randomFloats(s.k * s.n + 1, 2);
    Floats aCols(aRows.size()), bCols(bRows.size());
    for (int64_t i = 0; i < s.m * s.k; ++i) aCols[i % s.k * s.m + i / s.k] = aRows[i];
    for (int64_t i = 0; i < s.k * s.n; ++i) bCols[i % s.n * s.k + i / s.n] = bRows[i];
    Floats packed(packedSize(s.k, s.n) + 1, NAN), packedT(packedSize(s.n, s.k) + 1, NAN);
    packPanels(bRows.data(), s.n, 1, s.k, s.n, packed.data());
    packPanels(bCols.data(), s.k, 1, s.n, s.k, packedT.data());
    Floats first, dotFirst;
    for (int variant = 0; variant < 40; ++variant) {
      MatmulArgs args;
      args.a = variant & 1 ? aCols.data() : aRows.data();
      args.aRowStride = variant & 1 ? 1 : s.k;
      args.aColStride = variant & 1 ? s.m : 1;
      args.b = bRows.data();
      args.bRowStride = s.n;
      MatmulShape shape{s.m, s.n, s.k};
      if ((variant >> 1) % 4 == 1) args.b = bCols.data(), args.bRowStride = 1, args.bColStride = s.k;
      if ((variant >> 1) % 4 == 2) args.b = packed.data(), shape.bLayout = BLayout::kPacked;
      if ((variant >> 1) % 4 == 3) args.b = packedT.data(), shape.bLayout = BLayout::kPackedTransposed;
      Floats c(s.m * (s.n + 3), -7.0f);
      args.c = c.data();
      args.cRowStride = s.n + 3;
      const int threads = std::array{1, 2, 3, 8, 64}[static_cast<size_t>(variant / 8)];
      ThreadPool pool(std::min(threads, 8));
      const Matmul matmul(shape, threads);
      double share = 0;
      for (int task = 0; task < matmul.tasks(); ++task) share += matmul.share(task);
      ASSERT_NEAR(share, matmul.tasks() > 0 ? 1.0 : 0.0, 1e-9);
      runMatmul(matmul, args, pool);
      if (variant == 0) {
        first = c;
        for (int64_t m = 0; m < s.m; ++m) {
          for (int64_t n = 0; n < s.n; ++n) {
            ASSERT_NEAR(c[m * (s.n + 3) + n], expectedSum(args, m, n, s.k), tolerance(s.k))
                << s.m << "x" << s.n << "x" << s.k;
          }
          for (int64_t n = s.n; n < s.n + 3; ++n) ASSERT_EQ(c[m * (s.n + 3) + n], -7.0f) << "wrote beyond the row";
        }
      }
      const bool dot = shape.bLayout == BLayout::kPackedTransposed && s.m <= 16;
      if (dot) {
        for (size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], first[i], tolerance(s.k)) << "variant " << variant;
        if (variant == 6) dotFirst = c;
        ASSERT_EQ(c, dotFirst) << "variant " << variant << " of " << s.m << "x" << s.n << "x" << s.k;
        continue;
      }
      ASSERT_EQ(c, first) << "variant " << variant << " of " << s.m << "x" << s.n << "x" << s.k;
    }
  }
}

TEST(Matmul, sums_each_element_in_the_same_order_for_every_number_of_rows) {
  const int64_t n = 70, k = 900, most = 40;
  const Floats a = randomFloats(most * k, 3), b = randomFloats(k * n, 4);
  Floats packed(packedSize(k, n));
  packPanels(b.data(), n, 1, k, n, packed.data());
  ThreadPool pool(1);
  Floats whole;
  for (int64_t m = most; m > 0; --m) {
    Floats c(m * n);
    MatmulArgs args;
    args.a = a.data(), args.aRowStride = k, args.b = packed.data(), args.c = c.data(), args.cRowStride = n;
    runMatmul(Matmul({m, n, k, BLayout::kPacked}, 1), args, pool);
    if (m == most) whole = c;
    ASSERT_EQ(c, Floats(whole.begin(), whole.begin() + m * n)) << m << " rows";
  }
}

TEST(Matmul, broadcasts_and_strides_over_batch_dimensions) {
  const int64_t m = 5, n = 37, k = 19;
  const Floats a = randomFloats(3 * m * k, 5), b = randomFloats(2 * k * n, 6);
  Floats c(2 * 3 * m * n);
  MatmulShape shape{m, n, k};
  shape.batch = {1, 1, 2, 3};
  MatmulArgs args;
  args.a = a.data(), args.aRowStride = k, args.aBatchStride = {0, 0, 0, m * k};
  args.b = b.data(), args.bRowStride = n, args.bBatchStride = {0, 0, k * n, 0};
  args.c = c.data(), args.cRowStride = n, args.cBatchStride = {0, 0, 3 * m * n, m * n};
  ThreadPool pool(2);
  runMatmul(Matmul(shape, 2), args, pool);
  for (int64_t i = 0; i < 6; ++i) {
    MatmulArgs one = args;
    one.a += i % 3 * m * k;
    one.b += i / 3 * k * n;
    for (int64_t e = 0; e < m * n; ++e) {
      ASSERT_NEAR(c[i * m * n + e], expectedSum(one, e / n, e % n, k), tolerance(k)) << "batch " << i;
    }
  }
}

// The fused epilogue equals the product, then each step on its own, bit for bit; also with several k passes and C as
// residual.
TEST(Matmul, fused_epilogue_equals_separate_steps) {
  for (const Size &s : {Size{9, 45, 30}, Size{33, 64, 1700}, Size{2, 200, 6}, Size{3, 5, 0}}) {
    const Floats a = randomFloats(s.m * s.k + 1, 7), b = randomFloats(s.k * s.n + 1, 8), bias = randomFloats(s.n, 9);
    const Floats residual = randomFloats(s.m * s.n, 10);
    for (ElementOp activation :
         {ElementOp::kCopy, ElementOp::kRelu, ElementOp::kGeluErf, ElementOp::kGelu, ElementOp::kSigmoid,
          ElementOp::kTanh, ElementOp::kSwish, ElementOp::kElu, ElementOp::kClip}) {
      Floats plain(s.m * s.n), fused = residual, pre(s.m * s.n, NAN);
      MatmulArgs args;
      args.a = a.data(), args.aRowStride = s.k, args.b = b.data(), args.bRowStride = s.n;
      args.c = plain.data(), args.cRowStride = s.n;
      ThreadPool pool(2);
      const Matmul matmul({s.m, s.n, s.k}, 2);
      runMatmul(matmul, args, pool);
      for (int64_t i = 0; i < s.m * s.n; ++i) plain[i] = (0.5f * plain[i] + bias[i % s.n]) + residual[i];
      args.c = fused.data();
      args.epilogue.alpha = 0.5f;
      args.epilogue.bias = bias.data();
      args.epilogue.residual = fused.data();
      args.epilogue.preActivation = pre.data();
      args.epilogue.step = {activation, {0.75f, 0}};
      runMatmul(matmul, args, pool);
      ASSERT_EQ(pre, plain);
      const void *const operand = plain.data();
      elementFunction(activation, 0)(&operand, plain.data(), s.m * s.n, args.epilogue.step.parameters.data());
      ASSERT_EQ(fused, plain) << "activation " << static_cast<int>(activation);
    }
  }
}

TEST(Matmul, transposed_packed_product_of_few_rows_passes_the_epilogue) {
  const int64_t m = 5, n = 43, k = 75;
  const Floats dy = randomFloats(m * k, 21), w = randomFloats(n * k, 22), bias = randomFloats(n, 23);
  Floats packed(packedSize(n, k)), c(m * n, 2.0f), plain(m * n);
  packPanels(w.data(), k, 1, n, k, packed.data());
  MatmulArgs args;
  args.a = dy.data(), args.aRowStride = k, args.b = packed.data(), args.c = plain.data(), args.cRowStride = n;
  ThreadPool pool(2);
  const Matmul matmul({m, n, k, BLayout::kPackedTransposed}, 2);
  runMatmul(matmul, args, pool);
  args.c = c.data();
  args.epilogue.bias = bias.data();
  args.epilogue.residual = c.data();
  runMatmul(matmul, args, pool);
  for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(c[i], plain[i] + bias[i % n] + 2.0f);
  const Floats saved = randomFloats(m * n, 24);
  args.epilogue = {};
  args.epilogue.other = saved.data();
  args.epilogue.step.op = ElementOp::kReluGrad;
  runMatmul(matmul, args, pool);
  for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(c[i], saved[i] > 0 ? plain[i] : 0.0f);
}

// moment = moment / 2 + gradient; w = w - moment / 4, out of place.
class Momentum final : public ElementUpdate {
 public:
  Momentum(const Floats (&old)[2], Floats (&fresh)[2]) : old_(old), fresh_(fresh) {}
  void apply(const float *gradient, int64_t position, int64_t count) const noexcept override {
    for (int64_t i = 0, at = position; i < count; ++i, ++at) {
      fresh_[1][at] = 0.5f * old_[1][at] + gradient[i];
      fresh_[0][at] = old_[0][at] - 0.25f * fresh_[1][at];
    }
  }
  void prefetch(int64_t, int64_t) const noexcept override {}
  void clear(int64_t position, int64_t count) const noexcept override {
    for (Floats &f : fresh_) std::fill_n(f.data() + position, count, 0.0f);
  }

 private:
  const Floats (&old_)[2];
  Floats (&fresh_)[2];
};

// update(W, X^T dY), in rows and in panels, equals the gradient followed by the update; padding lanes become zero.
TEST(Matmul, update_equals_gradient_then_update) {
  ThreadPool pool(2);
  for (const Size &s : {Size{45, 37, 8}, Size{20, 64, 1}, Size{33, 100, 900}, Size{16, 10, 3}, Size{150, 40, 20}}) {
    const Floats x = randomFloats(s.k * s.m, 11), dy = randomFloats(s.k * s.n, 12), w = randomFloats(s.m * s.n, 13);
    const Matmul matmul({s.m, s.n, s.k}, 2);
    MatmulArgs args;
    args.a = x.data(), args.aRowStride = 1, args.aColStride = s.m, args.b = dy.data(), args.bRowStride = s.n;
    args.cRowStride = s.n;
    Floats gradient(s.m * s.n);
    args.c = gradient.data();
    runMatmul(matmul, args, pool);
    for (const auto layout : {MatmulArgs::ParameterLayout::kPacked, MatmulArgs::ParameterLayout::kRows}) {
      const bool packed = layout == MatmulArgs::ParameterLayout::kPacked;
      const auto stored = [&](const Floats &plain) {
        if (!packed) return plain;
        Floats panels(static_cast<size_t>(packedSize(s.m, s.n)));
        packPanels(plain.data(), s.n, 1, s.m, s.n, panels.data());
        return panels;
      };
      args.parameterLayout = layout;
      const Floats old[2] = {stored(w), stored(randomFloats(s.m * s.n, 14))}, g = stored(gradient);
      const auto size = static_cast<int64_t>(g.size());
      for (const UpdateKind kind : {UpdateKind::kStore, UpdateKind::kSgd, UpdateKind::kElements}) {
        Floats fused[2] = {Floats(g.size(), NAN), Floats(g.size(), NAN)}, separate[2] = {fused[0], fused[1]};
        if (kind == UpdateKind::kSgd) fused[0] = separate[0] = old[0];
        const auto withUpdate = [&](Floats(&results)[2], const auto &run) {
          const Momentum momentum(old, results);
          float *base = results[0].data();
          run(Update{.kind = kind, .rate = 0.1f, .decay = 0.99f, .elements = &momentum, .base = base});
        };
        withUpdate(fused, [&](const Update &update) {
          args.c = fused[0].data();
          args.update = &update;
          runMatmul(matmul, args, pool);
        });
        withUpdate(separate, [&](const Update &update) {
          applyUpdate(update, g.data(), size, separate[0].data(), size, 1, size);
        });
        ASSERT_EQ(fused[0], separate[0]) << "kind " << static_cast<int>(kind) << (packed ? " packed" : " rows");
        if (kind == UpdateKind::kElements) {
          ASSERT_EQ(fused[1], separate[1]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace popart::cpu
