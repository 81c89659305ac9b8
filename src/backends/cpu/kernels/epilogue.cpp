// Epilogues and parameter updates, compiled once per instruction set by Highway.
// Invariant: full vectors and the masked tail run the same operations, so a value does not depend on its column.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/epilogue.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/activation-inl.hpp"
#include "backends/cpu/kernels/update-inl.hpp"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;
using update::updateVector;

// Which terms can occur: the usual few are compiled without tests for the others.
enum class Terms { kAll, kBias, kBiasResidual };

Terms termsOf(const Epilogue &e) {
  if (e.alpha != 1.0f || e.beta != 0.0f || e.preActivation || e.saved || !e.bias) return Terms::kAll;
  return e.residual ? Terms::kBiasResidual : Terms::kBias;
}

template <Activation kActivation, Terms kTerms, class Lanes>
HWY_INLINE void finishVector(const Epilogue &e, Lanes lanes, const float *sums, float *y, int64_t m, int64_t n) {
  constexpr bool kAll = kTerms == Terms::kAll;
  V v = lanes.load(sums + n);
  if (kAll && e.alpha != 1.0f) v = hn::Mul(hn::Set(D(), e.alpha), v);
  if (kAll && e.beta == 1.0f) {
    v = hn::Add(v, lanes.load(y + n));
  } else if (kAll && e.beta != 0.0f) {
    v = hn::Add(v, hn::Mul(hn::Set(D(), e.beta), lanes.load(y + n)));
  }
  if (!kAll || e.bias) v = hn::Add(v, lanes.load(e.bias + n));
  if (kTerms == Terms::kBiasResidual || (kAll && e.residual)) {
    v = hn::Add(v, lanes.load(e.residual + m * e.residualStride + n));
  }
  if (kAll && e.preActivation) lanes.store(v, e.preActivation + m * e.preActivationStride + n);
  v = activation::activate(kActivation, v);
  if (kAll && e.saved) v = activation::gradient(e.savedBy, lanes.load(e.saved + m * e.savedStride + n), v);
  lanes.store(v, y + n);
}

// The shape of a block of sums and of its place in y.
struct FinishBlock {
  const float *sums;
  ptrdiff_t sumStride;
  float *y;
  ptrdiff_t yStride;
  int64_t rows, cols;
};

template <Activation kActivation, Terms kTerms>
void finishRows(const Epilogue &e, const FinishBlock &block) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t full = block.cols - block.cols % lanes;
  const FirstLanes tail(block.cols - full);
  for (int64_t m = 0; m < block.rows; ++m) {
    const float *s = block.sums + m * block.sumStride;
    float *out = block.y + m * block.yStride;
    for (int64_t n = 0; n < full; n += lanes) finishVector<kActivation, kTerms>(e, AllLanes(), s, out, m, n);
    if (full < block.cols) finishVector<kActivation, kTerms>(e, tail, s, out, m, full);
  }
}

template <Activation kActivation>
void finishTerms(const Epilogue &e, const FinishBlock &block) {
  switch (termsOf(e)) {
    case Terms::kAll:
      return finishRows<kActivation, Terms::kAll>(e, block);
    case Terms::kBias:
      return finishRows<kActivation, Terms::kBias>(e, block);
    case Terms::kBiasResidual:
      return finishRows<kActivation, Terms::kBiasResidual>(e, block);
  }
}

void epilogueOf(const Epilogue &e, const float *sums, ptrdiff_t sumStride, float *y, ptrdiff_t yStride, int64_t rows,
                int64_t cols) {
  const FinishBlock block{sums, sumStride, y, yStride, rows, cols};
  switch (e.activation) {
    case Activation::kNone:
      return finishTerms<Activation::kNone>(e, block);
    case Activation::kRelu:
      return finishTerms<Activation::kRelu>(e, block);
    case Activation::kGelu:
      return finishTerms<Activation::kGelu>(e, block);
    case Activation::kGeluTanh:
      return finishTerms<Activation::kGeluTanh>(e, block);
    case Activation::kSigmoid:
      return finishTerms<Activation::kSigmoid>(e, block);
    case Activation::kTanh:
      return finishTerms<Activation::kTanh>(e, block);
    case Activation::kSilu:
      return finishTerms<Activation::kSilu>(e, block);
  }
}

template <UpdateKind kKind>
void updateRows(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                int64_t rows, int64_t cols) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t full = cols - cols % lanes;
  const FirstLanes tail(cols - full);
  for (int64_t m = 0; m < rows; ++m) {
    const float *g = gradient + m * gradientStride;
    const ptrdiff_t row = m * wStride;
    for (int64_t n = 0; n < full; n += lanes) updateVector<kKind>(u, AllLanes(), AllLanes().load(g + n), w, row + n);
    if (full < cols) updateVector<kKind>(u, tail, tail.load(g + full), w, row + full);
  }
}

void updateOf(const Update &u, const float *g, ptrdiff_t gStride, float *w, ptrdiff_t wStride, int64_t rows,
              int64_t cols) {
  if (u.kind == UpdateKind::kSgd) return updateRows<UpdateKind::kSgd>(u, g, gStride, w, wStride, rows, cols);
  updateRows<UpdateKind::kStore>(u, g, gStride, w, wStride, rows, cols);
}

}  // namespace popart::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace popart::cpu {
HWY_EXPORT(epilogueOf);
HWY_EXPORT(updateOf);

void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, float *y, ptrdiff_t yStride, int64_t rows,
                   int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(epilogueOf)(e, sums, sumStride, y, yStride, rows, cols);
}

void applyActivation(Activation activation, const float *x, float *y, int64_t count) noexcept {
  Epilogue e;
  e.activation = activation;
  applyEpilogue(e, x, 0, y, 0, 1, count);
}

void applyActivationGradient(Activation activation, const float *saved, const float *dy, float *dx,
                             int64_t count) noexcept {
  Epilogue e;
  e.saved = saved;
  e.savedBy = activation;
  applyEpilogue(e, dy, 0, dx, 0, 1, count);
}

void applyUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                 int64_t rows, int64_t cols) noexcept {
  if (u.kind != UpdateKind::kElements)
    return HWY_DYNAMIC_DISPATCH(updateOf)(u, gradient, gradientStride, w, wStride, rows, cols);
  const int64_t position = w - u.base;
  if (gradientStride == cols && wStride == cols) return u.elements->apply(gradient, position, rows * cols);
  for (int64_t m = 0; m < rows; ++m) u.elements->apply(gradient + m * gradientStride, position + m * wStride, cols);
}

void applyPanelUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, int64_t width,
                      int64_t rows, int64_t cols) noexcept {
  applyUpdate(u, gradient, gradientStride, w, width, rows, cols);
  if (cols == width) return;
  for (int64_t m = 0; m < rows; ++m) {
    float *lanes = w + m * width + cols;
    if (u.kind == UpdateKind::kElements)
      u.elements->clear(lanes - u.base, width - cols);
    else
      std::fill(lanes, lanes + width - cols, 0.0f);
  }
}
}  // namespace popart::cpu
#endif
