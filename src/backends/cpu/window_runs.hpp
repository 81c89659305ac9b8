// The memory of a convolution's windows with the channels innermost, as runs of contiguous numbers, for any number of
// spatial dimensions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernels/quad_product.hpp"
#include "ops/nn/window.hpp"

namespace popart::cpu {

class WindowRuns {
 public:
  // `read`: number of neighbouring channels, of `channels`, that a window reads.
  WindowRuns(ops::Window window, Shape in, Shape out, int64_t channels, int64_t read);

  int64_t taps() const { return static_cast<int64_t>(outerTaps_) * width_; }
  int64_t places() const { return places_; }  // per image of the result
  // Whether each window is one place of the image, in order.
  bool isPointwise() const { return isPointwise_; }
  // Bytes of scratch memory for the functions below.
  int64_t scratchBytes() const;

  // Calls f(place, runs) for places [first, first + count) of the images at x, in order; x is the first channel that is
  // read of the first image.
  template <class F>
  void forPlaces(const uint8_t *x, int64_t first, int64_t count, void *scratch, F &&f) const noexcept {
    forLines(x, first, count, scratch, [&](int64_t place, int64_t start, const uint8_t *const *lines, QuadRun *runs) {
      f(place, std::span<const QuadRun>(runs, findRuns(start, lines, runs)));
    });
  }
  // Calls f(place, pointers to the elements at each tap, `padding` outside the image) for the same places. Pointers to
  // padding follow up to a multiple of four.
  template <class F>
  void forTaps(const uint8_t *x, int64_t first, int64_t count, const uint8_t *padding, void *scratch,
               F &&f) const noexcept {
    forLines(x, first, count, scratch, [&](int64_t place, int64_t start, const uint8_t *const *lines, QuadRun *runs) {
      auto **taps = reinterpret_cast<const uint8_t **>(runs);
      findTaps(start, lines, padding, taps);
      f(place, static_cast<const uint8_t *const *>(taps));
    });
  }

 private:
  // f(place, start of its window in a line of the image, the line of each outer tap or null, memory for runs)
  template <class F>
  void forLines(const uint8_t *x, int64_t first, int64_t count, void *scratch, F &&f) const noexcept {
    auto **lines = static_cast<const uint8_t **>(scratch);
    auto *runs = reinterpret_cast<QuadRun *>(lines + outerTaps_ + outerTaps_ % 2);
    for (int64_t place = first, end = first + count; place < end;) {
      const int64_t from = place % outWidth_, to = std::min(outWidth_, from + end - place);
      findLines(x, place / outWidth_, lines);
      for (int64_t at = from; at < to; ++at, ++place) f(place, at * step_ - pad_, lines, runs);
    }
  }
  void findLines(const uint8_t *x, int64_t line, const uint8_t **lines) const noexcept;
  size_t findRuns(int64_t start, const uint8_t *const *lines, QuadRun *runs) const noexcept;
  void findTaps(int64_t start, const uint8_t *const *lines, const uint8_t *padding,
                const uint8_t **taps) const noexcept;
  // The taps [begin, end) of a line that are inside the image.
  void inside(int64_t start, int64_t &begin, int64_t &end) const noexcept {
    begin = start >= 0 ? 0 : std::min(width_, (dilation_ - 1 - start) / dilation_);
    end = start >= inWidth_ ? begin : std::clamp((inWidth_ - 1 - start) / dilation_ + 1, begin, width_);
  }

  ops::Window window_;
  Shape in_, out_;
  int64_t channels_, read_, places_;
  // Of the last dimension.
  int64_t width_, inWidth_, outWidth_, step_, dilation_, pad_;
  size_t outerTaps_;
  std::vector<int64_t> tapOffsets_;  // by outer tap and dimension, without the last dimension
  bool isPointwise_ = false;
};

}  // namespace popart::cpu
