#include "backends/cpu/window_runs.hpp"

namespace popart::cpu {

WindowRuns::WindowRuns(ops::Window window, Shape in, Shape out, int64_t channels, int64_t read)
    : window_(std::move(window)),
      in_(std::move(in)),
      out_(std::move(out)),
      channels_(channels),
      read_(read),
      places_(elementCount(out_)),
      width_(window_.kernel.back()),
      inWidth_(in_.back()),
      outWidth_(out_.back()),
      step_(window_.strides.back()),
      dilation_(window_.dilations.back()),
      pad_(window_.padsLow.back()),
      outerTaps_(static_cast<size_t>(elementCount(window_.kernel) / std::max<int64_t>(1, width_))) {
  const size_t last = window_.rank() - 1;
  for (size_t t = 0; t < outerTaps_; ++t) {
    auto size = static_cast<int64_t>(outerTaps_), rest = static_cast<int64_t>(t);
    for (size_t d = 0; d < last; ++d) {
      size /= window_.kernel[d];
      tapOffsets_.push_back(rest / size * window_.dilations[d] - window_.padsLow[d]);
      rest %= size;
    }
  }
  isPointwise_ = taps() == 1 && in_ == out_;
  for (size_t d = 0; d <= last; ++d) isPointwise_ = isPointwise_ && window_.strides[d] == 1 && window_.padsLow[d] == 0;
}

int64_t WindowRuns::scratchBytes() const {
  const auto outer = static_cast<int64_t>(outerTaps_);
  const int64_t runs = outer * (width_ + 2) + 2;  // also enough for the pointers to taps, which are fewer bytes
  return (outer + outer % 2) * int64_t{sizeof(uint8_t *)} + runs * int64_t{sizeof(QuadRun)};
}

void WindowRuns::findLines(const uint8_t *x, int64_t line, const uint8_t **lines) const noexcept {
  const size_t last = window_.rank() - 1;
  int64_t image = line;
  for (size_t d = 0; d < last; ++d) image /= out_[d];
  const int64_t *tap = tapOffsets_.data();
  for (size_t t = 0; t < outerTaps_; ++t, tap += last) {
    int64_t rest = line, offset = 0, stride = 1;
    bool isInside = true;
    for (size_t d = last; d-- > 0; rest /= out_[d]) {
      const int64_t at = rest % out_[d] * window_.strides[d] + tap[d];
      isInside = isInside && at >= 0 && at < in_[d];
      offset += at * stride;
      stride *= in_[d];
    }
    lines[t] = isInside ? x + (image * stride + offset) * inWidth_ * channels_ : nullptr;
  }
}

size_t WindowRuns::findRuns(int64_t start, const uint8_t *const *lines, QuadRun *runs) const noexcept {
  int64_t begin, end;
  inside(start, begin, end);
  const bool isOneRun = dilation_ == 1 && read_ == channels_;
  QuadRun *run = runs;
  for (size_t t = 0; t < outerTaps_; ++t) {
    if (!lines[t] || begin == end) {
      *run++ = {nullptr, width_ * read_};
      continue;
    }
    if (begin > 0) *run++ = {nullptr, begin * read_};
    const uint8_t *from = lines[t] + (start + begin * dilation_) * channels_;
    if (isOneRun)
      *run++ = {from, (end - begin) * read_};
    else
      for (int64_t i = begin; i < end; ++i, from += dilation_ * channels_) *run++ = {from, read_};
    if (end < width_) *run++ = {nullptr, (width_ - end) * read_};
  }
  return static_cast<size_t>(run - runs);
}

void WindowRuns::findTaps(int64_t start, const uint8_t *const *lines, const uint8_t *padding,
                          const uint8_t **taps) const noexcept {
  int64_t begin, end;
  inside(start, begin, end);
  const uint8_t **tap = taps;
  for (size_t t = 0; t < outerTaps_; ++t)
    for (int64_t i = 0; i < width_; ++i)
      *tap++ = lines[t] && i >= begin && i < end ? lines[t] + (start + i * dilation_) * channels_ : padding;
  while ((tap - taps) % 4 != 0) *tap++ = padding;
}

}  // namespace popart::cpu
