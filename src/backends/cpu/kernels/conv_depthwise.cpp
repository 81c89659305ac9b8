// Depthwise plans, see conv_depthwise.hpp. The valid taps of a pixel are listed once and then used for all its
// channels.
#include "backends/cpu/kernels/conv_depthwise.hpp"

#include <algorithm>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/depthwise.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kTasksPerThread = 4;  // so that dynamic claiming balances the load
constexpr int64_t kPixelTerms = 256;    // of a list on the stack, 4 KiB: stays in the first level cache

// Position on the source grid that tap `tap` reads for target position `at` along dimension d, or -1.
int64_t sourcePosition(const ConvShape &s, DepthwiseDirection direction, int d, int64_t at, int64_t tap,
                       const Spatial &out) {
  if (direction == DepthwiseDirection::kForward) {
    const int64_t position = at * s.stride[d] - s.padLow[d] + tap * s.dilation[d];
    return position < s.in[d] ? std::max<int64_t>(position, -1) : -1;
  }
  const int64_t position = at + s.padLow[d] - tap * s.dilation[d];
  if (position < 0 || position % s.stride[d] != 0) return -1;
  return position / s.stride[d] < out[d] ? position / s.stride[d] : -1;
}

// Lists the valid taps of one target pixel in ascending order; returns their number.
int64_t listTerms(const ConvShape &s, DepthwiseDirection direction, int64_t image, const Spatial &at,
                  const Spatial &source, const Spatial &out, TapTerm *terms) {
  int64_t count = 0;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    const int64_t depth = sourcePosition(s, direction, 0, at[0], kd, out);
    for (int64_t kh = 0; depth >= 0 && kh < s.kernel[1]; ++kh) {
      const int64_t row = sourcePosition(s, direction, 1, at[1], kh, out);
      for (int64_t kw = 0; row >= 0 && kw < s.kernel[2]; ++kw) {
        const int64_t col = sourcePosition(s, direction, 2, at[2], kw, out);
        if (col < 0) continue;
        const int64_t pixel = ((image * source[0] + depth) * source[1] + row) * source[2] + col;
        terms[count++] = {pixel * s.cin, (kd * s.kernel[1] + kh) * s.kernel[2] + kw};
      }
    }
  }
  return count;
}

}  // namespace

DepthwisePixels::DepthwisePixels(const ConvShape &shape, DepthwiseDirection direction, int threads)
    : shape_(shape),
      direction_(direction),
      target_(direction == DepthwiseDirection::kForward ? shape.out() : shape.in) {
  rows_ = target_[2] > 0 ? shape.n * target_[0] * target_[1] : 0;
  tasks_ = static_cast<int>(std::min<int64_t>(rows_, std::max(1, threads) * kTasksPerThread));
  const size_t termFloats = static_cast<size_t>(shape.taps()) * sizeof(TapTerm) / sizeof(float) + alignof(TapTerm);
  scratchFloats_ = static_cast<size_t>(target_[2] * shape.cin) + termFloats;
}

void DepthwisePixels::run(int task, const float *source, const float *packedWeights, float *target,
                          const Epilogue &epilogue, float *scratch) const noexcept {
  const Spatial out = shape_.out();
  const Spatial &sourceSize = direction_ == DepthwiseDirection::kForward ? shape_.in : out;
  const int64_t channels = shape_.cin, width = target_[2];
  const auto address = reinterpret_cast<uintptr_t>(scratch + width * channels);
  auto *terms = reinterpret_cast<TapTerm *>((address + alignof(TapTerm) - 1) / alignof(TapTerm) * alignof(TapTerm));
  for (int64_t row = rows_ * task / tasks_; row < rows_ * (task + 1) / tasks_; ++row) {
    const int64_t image = row / (target_[0] * target_[1]);
    Spatial at = {row / target_[1] % target_[0], row % target_[1], 0};
    for (; at[2] < width; ++at[2]) {
      const int64_t count = listTerms(shape_, direction_, image, at, sourceSize, out, terms);
      depthwisePixel(source, terms, count, packedWeights, shape_.taps(), channels, scratch + at[2] * channels);
    }
    const int64_t first = row * width * channels;
    applyEpilogue(epilogue.at(first, 0), scratch, channels, target + first, channels, width, channels);
  }
}

DepthwiseWeights::DepthwiseWeights(const ConvShape &shape) : shape_(shape), pixels_(shape.n * volume(shape.out())) {
  constexpr int64_t kPixelsPerLeaf = 256;  // at least: summing them costs far more than adding the leaf's sum
  const int64_t width = panelWidth();
  panels_ = ceilDiv(shape.cin, width);
  panelFloats_ = static_cast<size_t>(shape.taps() * width);
  leaves_ = taskCount(pixels_, kPixelsPerLeaf, ceilDiv(kMostTasks, std::max<int64_t>(1, panels_)));
  rounds_.add(panels_ * leaves_, static_cast<double>(pixels_));
  if (leaves_ > 1) rounds_.add(panels_, static_cast<double>(leaves_));
}

// The gradient of all taps for the channels of `panel`, summed over pixels [begin, end).
void DepthwiseWeights::addPixels(int64_t panel, int64_t begin, int64_t end, const float *x, const float *dy,
                                 float *sums) const noexcept {
  const int64_t width = panelWidth(), taps = shape_.taps(), first = panel * width;
  const int64_t channels = std::min(width, shape_.cin - first);
  const Spatial out = shape_.out();
  std::fill_n(sums, taps * width, 0.0f);
  PixelTerm terms[kPixelTerms];
  for (int64_t tap = 0; tap < taps; ++tap) {
    const Spatial k = {tap / (shape_.kernel[1] * shape_.kernel[2]), tap / shape_.kernel[2] % shape_.kernel[1],
                       tap % shape_.kernel[2]};
    int64_t count = 0;
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      const Spatial at = {pixel / (out[1] * out[2]) % out[0], pixel / out[2] % out[1], pixel % out[2]};
      int64_t source = pixel / (out[0] * out[1] * out[2]);
      bool valid = true;
      for (int d = 0; d < 3; ++d) {
        const int64_t position = sourcePosition(shape_, DepthwiseDirection::kForward, d, at[d], k[d], out);
        valid = valid && position >= 0;
        source = source * shape_.in[d] + position;
      }
      if (valid) terms[count++] = {source * shape_.cin + first, pixel * shape_.cin + first};
      if (count < kPixelTerms && pixel + 1 < end) continue;
      depthwiseWeightSums(x, dy, terms, count, channels, sums + tap * width);
      count = 0;
    }
  }
}

void DepthwiseWeights::run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
                           float *scratch, float *shared) const noexcept {
  const Rounds::Place place = rounds_.place(task);
  const auto floats = static_cast<int64_t>(panelFloats_);
  const int64_t panel = place.task % panels_, leaf = place.task / panels_;
  if (place.round == 0) {
    float *sums = leaves_ > 1 ? shared + place.task * floats : scratch;
    addPixels(panel, pixels_ * leaf / leaves_, pixels_ * (leaf + 1) / leaves_, x, dy, sums);
    if (leaves_ > 1) return;
  } else {
    std::copy_n(shared + panel * floats, floats, scratch);
    for (int64_t other = 1; other < leaves_; ++other) {
      const float *sums = shared + (other * panels_ + panel) * floats;
      for (int64_t i = 0; i < floats; ++i) scratch[i] += sums[i];
    }
  }
  const int64_t width = panelWidth(), first = panel * width;
  applyPanelUpdate(update, scratch, width, packedWeights + first * shape_.taps(), width,
                   static_cast<int>(shape_.taps()), std::min(width, shape_.cin - first));
}

}  // namespace popart::cpu
