// Epilogues and parameter updates, compiled once per instruction set by Highway.
// Invariant: full vectors and the masked tail run the same operations, so a value does not depend on its column.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/epilogue.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include "backends/cpu/kernels/epilogue.hpp"
#include "backends/cpu/kernels/update-inl.hpp"
#include "backends/cpu/vector/float_ops-inl.hpp"
// clang-format on
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace popart::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using lanes::AllLanes;
using lanes::FirstLanes;
using update::updateVector;

// Which terms may be present: common combinations are compiled without branches for the others.
enum class Terms { kAll, kBias, kBiasResidual };

Terms termsOf(const Epilogue &e) {
  if (e.alpha != 1.0f || e.preActivation || !e.bias) return Terms::kAll;
  return e.residual ? Terms::kBiasResidual : Terms::kBias;
}

// The shape of a block of sums, and its row strides. `stride`: of the matrices that the epilogue reads.
struct FinishBlock {
  const float *sums;
  ptrdiff_t sumStride;
  void *y;
  ptrdiff_t yStride, stride;
  int64_t rows, cols;
};

template <class Type>
using Stored = typename Type::Stored;
// Element i of an operand.
template <class Type, class Lanes>
HWY_INLINE V epilogueOperand(Lanes lanes, const void *base, ptrdiff_t i) {
  return Type::load(lanes, static_cast<const Stored<Type> *>(base) + i);
}

// No further operation after the terms of the epilogue. Steps process one vector in registers; `at` is its offset from
// the block's first element.
struct NoStep {
  explicit NoStep(const Epilogue &) {}
  template <class Type, class Lanes>
  HWY_INLINE V call(Lanes, V v, ptrdiff_t) const {
    return v;
  }
};
template <class F>
struct ActivationStep {
  explicit ActivationStep(const Epilogue &e) : parameters(e.step.parameters) {}
  template <class Type, class Lanes>
  HWY_INLINE V call(Lanes, V v, ptrdiff_t) const {
    return F::call(v, parameters.data());
  }
  std::array<float, 2> parameters;
};
template <class F>
struct SlopeStep {
  explicit SlopeStep(const Epilogue &e) : other(e.other), parameters(e.step.parameters) {}
  template <class Type, class Lanes>
  HWY_INLINE V call(Lanes lanes, V v, ptrdiff_t at) const {
    return F::call(v, epilogueOperand<Type>(lanes, other, at), parameters.data());
  }
  const void *other;
  std::array<float, 2> parameters;
};

template <class Type, class Step, Terms kTerms, class Lanes>
HWY_INLINE void finishVector(const Epilogue &e, const Step &step, Lanes lanes, const float *sums, Stored<Type> *y,
                             ptrdiff_t row, int64_t n) {
  constexpr bool kAll = kTerms == Terms::kAll;
  V v = lanes.load(sums + n);
  if (!e.addsBiasExactly) v = Type::round(v);
  if (kAll && e.alpha != 1.0f) v = Type::round(hn::Mul(hn::Set(D(), e.alpha), v));
  if (!kAll || e.bias) v = Type::round(hn::Add(v, epilogueOperand<Type>(lanes, e.bias, n)));
  if (kTerms == Terms::kBiasResidual || (kAll && e.residual))
    v = Type::round(hn::Add(v, epilogueOperand<Type>(lanes, e.residual, row + n)));
  if (kAll && e.preActivation) Type::store(lanes, v, static_cast<Stored<Type> *>(e.preActivation) + row + n);
  Type::store(lanes, step.template call<Type>(lanes, v, row + n), y + n);
}

// Not inlined, so that each form saves only the registers that it needs. Arguments are passed by value, because the
// compiler must assume that vector stores change any memory.
template <class Type, class Step, Terms kTerms>
HWY_NOINLINE void finishRows(const Epilogue &given, const FinishBlock &whole) {
  const Epilogue e = given;
  const FinishBlock block = whole;
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t full = block.cols - block.cols % lanes;
  const FirstLanes tail(block.cols - full);
  const Step step(e);
  for (int64_t m = 0; m < block.rows; ++m) {
    const float *s = block.sums + m * block.sumStride;
    const ptrdiff_t row = m * block.stride;
    auto *out = static_cast<Stored<Type> *>(block.y) + m * block.yStride;
    for (int64_t n = 0; n < full; n += lanes) finishVector<Type, Step, kTerms>(e, step, AllLanes(), s, out, row, n);
    if (full < block.cols) finishVector<Type, Step, kTerms>(e, step, tail, s, out, row, full);
  }
}

template <class Type, class Step>
void finishTerms(const Epilogue &e, const FinishBlock &block) {
  switch (termsOf(e)) {
    case Terms::kAll:
      return finishRows<Type, Step, Terms::kAll>(e, block);
    case Terms::kBias:
      return finishRows<Type, Step, Terms::kBias>(e, block);
    case Terms::kBiasResidual:
      return finishRows<Type, Step, Terms::kBiasResidual>(e, block);
  }
}

// Writes the arguments of the program to its memory, then runs the program: block by block.
template <class Type>
void finishByProgram(const Epilogue &e, const FinishBlock &block) {
  const auto finish = [&](const Epilogue &part, int64_t m, int64_t n, int64_t rows, int64_t cols) {
    finishTerms<Type, NoStep>(part, {block.sums + m * block.sumStride + n, block.sumStride, e.program->arguments(),
                                     cols, block.stride, rows, cols});
    e.program->apply(part.offset, block.stride, part.column, rows, cols);
  };
  if (block.rows * block.cols <= EpilogueProgram::kMostElements) return finish(e, 0, 0, block.rows, block.cols);
  const int64_t colsAtOnce = std::min(block.cols, EpilogueProgram::kMostElements),
                rowsAtOnce = EpilogueProgram::kMostElements / colsAtOnce;
  for (int64_t m = 0; m < block.rows; m += rowsAtOnce)
    for (int64_t n = 0; n < block.cols; n += colsAtOnce)
      finish(e.at(m * block.stride + n, n), m, n, std::min(rowsAtOnce, block.rows - m),
             std::min(colsAtOnce, block.cols - n));
}

template <class Type>
void finishAs(const Epilogue &e, const FinishBlock &block) {
  if (e.program) return finishByProgram<Type>(e, block);
  switch (e.step.op) {
#define EPILOGUE_UNARY(name, ...) \
  case ElementOp::k##name:        \
    return finishTerms<Type, ActivationStep<floats::name>>(e, block);
#define EPILOGUE_BINARY(name, ...) \
  case ElementOp::k##name:         \
    return finishRows<Type, SlopeStep<floats::name>, Terms::kAll>(e, block);
#include "backends/cpu/vector/element_ops.inc"
    case ElementOp::kCopy:
      return finishTerms<Type, NoStep>(e, block);
    default:
      HWY_ABORT("instruction %d does not run in registers", static_cast<int>(e.step.op));
  }
}

void epilogueOf(const Epilogue &e, const float *sums, ptrdiff_t sumStride, void *y, ptrdiff_t yStride, int64_t rows,
                int64_t cols) {
  const FinishBlock block{sums, sumStride, y, yStride, yStride, rows, cols};
  if (e.type == DataType::FLOAT16) return finishAs<lanes::Float16>(e, block);
  if (e.type == DataType::BFLOAT16) return finishAs<lanes::Bfloat16>(e, block);
  finishAs<lanes::Float>(e, block);
}

void copyRowsOf(const char *from, ptrdiff_t fromStride, char *to, ptrdiff_t toStride, int64_t rows, int64_t bytes) {
  constexpr int64_t kShort = 16;
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), full = bytes - bytes % lanes;
  for (int64_t r = 0; r < rows; ++r, from += fromStride, to += toStride) {
    const auto *source = reinterpret_cast<const uint8_t *>(from);
    for (int64_t i = 0; i < full; i += lanes)
      hn::StoreU(hn::LoadU(d, source + i), d, reinterpret_cast<uint8_t *>(to) + i);
    int64_t done = full;
    for (; done + kShort <= bytes; done += kShort) std::memcpy(to + done, from + done, kShort);
    if (done < bytes) std::memcpy(to + done, from + done, static_cast<size_t>(bytes - done));
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
HWY_EXPORT(copyRowsOf);

std::optional<TileEnd> tileEnd(const Epilogue &e, ptrdiff_t stride) {
  if (e.type != DataType::FLOAT || e.alpha != 1.0f || e.preActivation || e.other || e.program) return std::nullopt;
  TileEnd end{static_cast<const float *>(e.bias), static_cast<const float *>(e.residual), stride};
  switch (e.step.op) {
    case ElementOp::kCopy:
      return end;
    case ElementOp::kRelu:
      end.low = 0.0f;
      return end;
    case ElementOp::kClip:
      end.low = e.step.parameters[0], end.high = e.step.parameters[1];
      return end;
    default:
      return std::nullopt;
  }
}

bool runsInRegisters(ElementOp op) {
  switch (op) {
    case ElementOp::kCopy:
#define EPILOGUE_UNARY(name, ...) case ElementOp::k##name:
#define EPILOGUE_BINARY(name, ...) case ElementOp::k##name:
#include "backends/cpu/vector/element_ops.inc"
      return true;
    default:
      return false;
  }
}

void applyEpilogue(const Epilogue &e, const float *sums, ptrdiff_t sumStride, void *y, ptrdiff_t yStride, int64_t rows,
                   int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(epilogueOf)(e, sums, sumStride, y, yStride, rows, cols);
}

void copyRows(const char *from, ptrdiff_t fromStride, char *to, ptrdiff_t toStride, int64_t rows,
              int64_t bytes) noexcept {
  HWY_DYNAMIC_DISPATCH(copyRowsOf)(from, fromStride, to, toStride, rows, bytes);
}

namespace {

// Updates a 16-bit parameter, row by row.
void updateRounded(const Update &u, const float *gradient, ptrdiff_t gradientStride, int64_t position, ptrdiff_t stride,
                   int64_t rows, int64_t cols) noexcept {
  constexpr int64_t kBuffer = 512;
  alignas(64) float rounded[kBuffer];
  if (gradientStride == cols && stride == cols) cols *= std::exchange(rows, 1);
  for (int64_t m = 0; m < rows; ++m, gradient += gradientStride, position += stride) {
    if (u.kind == UpdateKind::kStore) {
      narrow(u.type, gradient, cols, static_cast<uint16_t *>(elementAt(u.base, position, u.type)));
      continue;
    }
    for (int64_t n = 0; n < cols; n += kBuffer) {
      const int64_t count = std::min(kBuffer, cols - n);
      roundTo(u.type, gradient + n, count, rounded);
      u.elements->apply(rounded, position + n, count);
    }
  }
}

}  // namespace

void applyUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, ptrdiff_t wStride,
                 int64_t rows, int64_t cols) noexcept {
  if (isHalf(u.type)) return updateRounded(u, gradient, gradientStride, w - u.base, wStride, rows, cols);
  if (u.kind != UpdateKind::kElements)
    return HWY_DYNAMIC_DISPATCH(updateOf)(u, gradient, gradientStride, w, wStride, rows, cols);
  const int64_t position = w - u.base;
  if (gradientStride == cols && wStride == cols) return u.elements->apply(gradient, position, rows * cols);
  // A call for a few elements costs more than the elements: contiguous rows of the parameter are one call.
  constexpr int64_t kBuffer = 512;
  alignas(64) float together[kBuffer];
  const int64_t atOnce = wStride == cols ? kBuffer / cols : 1;
  for (int64_t m = 0; m < rows;) {
    const int64_t count = std::clamp<int64_t>(atOnce, 1, rows - m);
    const float *source = gradient + m * gradientStride;
    if (count > 1) {
      for (int64_t row = 0; row < count; ++row)
        std::memcpy(together + row * cols, source + row * gradientStride, static_cast<size_t>(cols) * sizeof(float));
      source = together;
    }
    u.elements->apply(source, position + m * wStride, count * cols);
    m += count;
  }
}

void applyPanelUpdate(const Update &u, const float *gradient, ptrdiff_t gradientStride, float *w, int64_t width,
                      int64_t rows, int64_t cols) noexcept {
  applyUpdate(u, gradient, gradientStride, w, width, rows, cols);
  if (cols == width) return;
  for (int64_t m = 0; m < rows; ++m) {
    float *lanes = w + m * width + cols;
    if (u.kind == UpdateKind::kElements)
      u.elements->clear(lanes - u.base, width - cols);
    else if (isHalf(u.type))
      std::fill_n(static_cast<uint16_t *>(elementAt(u.base, lanes - u.base, u.type)), width - cols, uint16_t{0});
    else
      std::fill(lanes, lanes + width - cols, 0.0f);
  }
}
}  // namespace popart::cpu
#endif
