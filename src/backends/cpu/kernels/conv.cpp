// Convolutions as implicit matrix products, see conv.hpp.
//
//   forward          y[pixel, co]        = sum over (tap, ci)  x[pixel * stride + tap * dilation - pad, ci] * w[tap,
//   ci, co] data gradient    dx[pixel, ci]       = sum over (tap, co)  dy[(pixel + pad - tap * dilation) / stride, co]
//   * w[tap, ci, co] weight gradient  dw[(tap, ci), co]   = sum over pixels     x[pixel * stride + tap * dilation -
//   pad, ci] * dy[pixel, co]
//
// Groups are a batch dimension of the product. Gathers walk pixels and taps with counters: no division per element.
#include "backends/cpu/kernels/conv.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

int64_t product(const Spatial &s) { return s[0] * s[1] * s[2]; }

// A position that counts through images and spatial places in row-major order.
struct Pixel {
  int64_t image;
  Spatial at;

  Pixel(int64_t index, const Spatial &size) : image(0), at{} {
    for (int d = 2; d >= 0; --d) {
      at[d] = index % size[d];
      index /= size[d];
    }
    image = index;
  }
  void next(const Spatial &size) {
    for (int d = 2; d >= 0; --d) {
      if (++at[d] < size[d]) return;
      at[d] = 0;
    }
    ++image;
  }
};

bool inside(int64_t at, int64_t size) { return static_cast<uint64_t>(at) < static_cast<uint64_t>(size); }

constexpr int64_t kColumnBlock = 16;  // at least the rows of a tile
static_assert(kMaxTileRows <= kColumnBlock);

void copyFloats(float *out, const float *in, int64_t count) {
  std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
}

// One patch row of the forward product: columns from (tap, channel) on, `count` of them. `origin` is the input position
// of tap 0.
struct PatchWriter {
  const ConvShape &s;
  const float *image;
  Spatial origin;
  int64_t channels;  // per group

  bool touchesRow(const Spatial &tap) const {
    return inside(origin[0] + tap[0] * s.dilation[0], s.in[0]) && inside(origin[1] + tap[1] * s.dilation[1], s.in[1]);
  }
  const float *source(const Spatial &tap) const {
    const int64_t depth = origin[0] + tap[0] * s.dilation[0], row = origin[1] + tap[1] * s.dilation[1];
    return image + ((depth * s.in[1] + row) * s.in[2] + origin[2] + tap[2] * s.dilation[2]) * s.cin;
  }
  void write(Spatial tap, int64_t channel, int64_t count, float *out) const {
    const bool merge = s.dilation[2] == 1 && channels == s.cin;
    while (count > 0) {
      const bool row = touchesRow(tap);
      const bool valid = row && inside(origin[2] + tap[2] * s.dilation[2], s.in[2]);
      int64_t endTap = tap[2] + 1;
      if (!row) {
        endTap = s.kernel[2];
      } else if (merge && valid) {
        endTap = std::min(s.kernel[2], s.in[2] - origin[2]);
      }
      const int64_t run = std::min(count, (endTap - tap[2]) * channels - channel);
      valid ? copyFloats(out, source(tap) + channel, run) : static_cast<void>(std::fill_n(out, run, 0.0f));
      out += run;
      count -= run;
      channel = 0;
      tap[2] = endTap;
      for (int d = 2; d > 0 && tap[d] == s.kernel[d]; --d) tap[d] = 0, ++tap[d - 1];
    }
  }
};

Spatial tapAt(int64_t index, const Spatial &kernel) { return Pixel(index, kernel).at; }

void gatherPatches(const void *context, const float *x, int64_t row, int rows, int64_t k, int64_t count, float *out) {
  const ConvShape &s = *static_cast<const ConvShape *>(context);
  const int64_t channels = s.cin / s.groups;
  const Spatial size = s.out();
  const Spatial tap = tapAt(k / channels, s.kernel);
  Pixel pixel(row, size);
  for (int i = 0; i < rows; ++i, pixel.next(size)) {
    Spatial origin;
    for (int d = 0; d < 3; ++d) origin[d] = pixel.at[d] * s.stride[d] - s.padLow[d];
    PatchWriter{s, x + pixel.image * product(s.in) * s.cin, origin, channels}.write(tap, k % channels, count,
                                                                                    out + i * kGatherStride);
  }
}

// Copies `rows` floats from each of `count` pixels, `step` apart, side by side. Whole 16-float blocks are copied while
// `readable` floats of the source last: the surplus is overwritten by the next pixel, and by the slack behind the last.
void copyColumns(const float *x, ptrdiff_t step, int64_t readable, int rows, int64_t count, float *out) {
  int64_t j = 0;
  for (; j < count && j * step + kColumnBlock <= readable; ++j) {
    std::memcpy(out + j * rows, x + j * step, kColumnBlock * sizeof(float));
  }
  for (; j < count; ++j) copyFloats(out + j * rows, x + j * step, rows);
}

// The transposed patches of the weight gradient: rows (tap, channel), columns pixels. Where the rows are neighbours in
// memory and no tap leaves the image, a stretch of pixels of one output row is copied at once.
void gatherPatchColumns(const void *context, const float *x, int64_t row, int rows, int64_t k, int64_t count,
                        float *out) {
  const ConvShape &s = *static_cast<const ConvShape *>(context);
  const int64_t channels = s.cin / s.groups, channel = row % channels;
  const Spatial size = s.out();
  const Spatial tap = tapAt(row / channels, s.kernel), lastTap = tapAt((row + rows - 1) / channels, s.kernel);
  const bool merge = s.dilation[2] == 1 && channels == s.cin;
  const bool oneRun =
      tap[0] == lastTap[0] && tap[1] == lastTap[1] && (tap[2] == lastTap[2] || merge) && rows <= kColumnBlock;
  const int64_t imageFloats = product(s.in) * s.cin;
  const float *end = x + s.n * imageFloats - (s.cin - channels);
  Pixel pixel(k, size);
  for (int64_t j = 0; j < count;) {
    Spatial origin;
    for (int d = 0; d < 3; ++d) origin[d] = pixel.at[d] * s.stride[d] - s.padLow[d];
    const PatchWriter patch{s, x + pixel.image * imageFloats, origin, channels};
    int64_t run = 1;
    const int64_t firstColumn = origin[2] + tap[2] * s.dilation[2];
    const int64_t room = s.in[2] - 1 - (origin[2] + lastTap[2] * s.dilation[2]);
    if (oneRun && patch.touchesRow(tap) && firstColumn >= 0 && room >= 0) {
      run = std::min({count - j, size[2] - pixel.at[2], room / s.stride[2] + 1});
      const float *source = patch.source(tap) + channel;
      copyColumns(source, s.stride[2] * s.cin, end - source, rows, run, out + j * rows);
    } else {
      patch.write(tap, channel, rows, out + j * rows);
    }
    j += run;
    pixel.at[2] += run - 1;
    pixel.next(size);
  }
}

struct PhaseContext {
  const ConvShape *shape;
  const ConvPhase *phase;
  Spatial out;
  Spatial tapCounts;
};

PhaseContext makeContext(const ConvShape &shape, const ConvPhase &phase) {
  PhaseContext context{&shape, &phase, shape.out(), {}};
  for (int d = 0; d < 3; ++d) context.tapCounts[d] = static_cast<int64_t>(phase.taps[d].size());
  return context;
}

// Rows: pixels of the phase; columns: (tap of the phase, output channel).
void gatherGradients(const void *context, const float *dy, int64_t row, int rows, int64_t k, int64_t count,
                     float *out) {
  const auto &c = *static_cast<const PhaseContext *>(context);
  const ConvShape &s = *c.shape;
  const int64_t channels = s.cout / s.groups;
  const Pixel firstTap(k / channels, c.tapCounts);
  Pixel pixel(row, c.phase->count);
  for (int i = 0; i < rows; ++i, pixel.next(c.phase->count)) {
    float *to = out + i * kGatherStride;
    Pixel tap = firstTap;
    for (int64_t at = k, end = k + count; at < end; tap.next(c.tapCounts)) {
      const int64_t channel = at == k ? k % channels : 0;
      const int64_t run = std::min(end - at, channels - channel);
      bool valid = true;
      int64_t place = pixel.image;
      for (int d = 0; d < 3; ++d) {
        const int64_t position = pixel.at[d] + c.phase->shifts[d][static_cast<size_t>(tap.at[d])];
        valid = valid && inside(position, c.out[d]);
        place = place * c.out[d] + position;
      }
      valid ? copyFloats(to, dy + place * s.cout + channel, run) : static_cast<void>(std::fill_n(to, run, 0.0f));
      to += run;
      at += run;
    }
  }
}

// Panel of the transposed weights of a phase: rows (tap of the phase, output channel), columns input channels.
void gatherPhaseWeights(const void *context, const float *packed, int64_t k, int64_t count, int64_t panel, float *out) {
  const auto &c = *static_cast<const PhaseContext *>(context);
  const ConvShape &s = *c.shape;
  const int width = panelWidth();
  const int64_t cin = s.cin / s.groups, cout = s.cout / s.groups;
  const int cols = static_cast<int>(std::min<int64_t>(width, cin - panel * width));
  for (const int64_t end = k + count; k < end;) {
    const Spatial at = Pixel(k / cout, c.tapCounts).at;
    int64_t tap = 0;
    for (int d = 0; d < 3; ++d) tap = tap * s.kernel[d] + c.phase->taps[d][static_cast<size_t>(at[d])];
    const int64_t channel = k % cout, lane = channel % width;
    const int64_t run = std::min({end - k, cout - channel, width - lane});
    const float *source = packed + (channel / width * s.taps() * cin + tap * cin + panel * width) * width + lane;
    packPanel(source, 1, width, run, cols, width, out);
    out += run * width;
    k += run;
  }
}

ptrdiff_t phaseRow(const void *context, int64_t row) {
  const auto &c = *static_cast<const PhaseContext *>(context);
  const ConvShape &s = *c.shape;
  const Pixel pixel(row, c.phase->count);
  int64_t place = pixel.image;
  for (int d = 0; d < 3; ++d) place = place * s.in[d] + c.phase->first[d] + pixel.at[d] * s.stride[d];
  return place * s.cin;
}

std::vector<ConvPhase> makePhases(const ConvShape &s) {
  std::vector<ConvPhase> phases;
  for (int64_t index = 0; index < product(s.stride); ++index) {
    ConvPhase phase;
    phase.first = Pixel(index, s.stride).at;
    for (int d = 0; d < 3; ++d) {
      phase.count[d] = std::max<int64_t>(0, (s.in[d] - phase.first[d] + s.stride[d] - 1) / s.stride[d]);
      for (int64_t tap = 0; tap < s.kernel[d]; ++tap) {
        const int64_t distance = phase.first[d] + s.padLow[d] - tap * s.dilation[d];
        if (distance % s.stride[d] != 0) continue;
        phase.taps[d].push_back(tap);
        phase.shifts[d].push_back(distance / s.stride[d]);
      }
    }
    if (product(phase.count) > 0) phases.push_back(std::move(phase));
  }
  return phases;
}

MatmulShape grouped(int64_t m, int64_t n, int64_t k, BLayout layout, int64_t groups) {
  MatmulShape shape{m, n, k, layout};
  shape.batch[3] = groups;
  return shape;
}

}  // namespace

Spatial ConvShape::out() const {
  Spatial size;
  for (int d = 0; d < 3; ++d) {
    const int64_t span = in[d] + padLow[d] + padHigh[d] - dilation[d] * (kernel[d] - 1) - 1;
    size[d] = span < 0 ? 0 : span / stride[d] + 1;
  }
  return size;
}

int64_t convWeightSize(const ConvShape &s) noexcept {
  if (s.isDepthwise()) return packedSize(s.taps(), s.cin);
  return s.groups * packedSize(s.taps() * (s.cin / s.groups), s.cout / s.groups);
}

void packConvWeights(const ConvShape &s, const float *weights, float *packed) noexcept {
  const int64_t cin = s.cin / s.groups, cout = s.cout / s.groups, taps = s.taps(), width = panelWidth();
  if (s.isDepthwise()) return packPanels(weights, 1, taps, taps, s.cin, packed);
  std::fill_n(packed, convWeightSize(s), 0.0f);
  for (int64_t g = 0; g < s.groups; ++g) {
    float *group = packed + g * packedSize(taps * cin, cout);
    for (int64_t co = 0; co < cout; ++co) {
      float *column = group + co / width * taps * cin * width + co % width;
      const float *from = weights + (g * cout + co) * cin * taps;
      for (int64_t ci = 0; ci < cin; ++ci) {
        for (int64_t tap = 0; tap < taps; ++tap) column[(tap * cin + ci) * width] = from[ci * taps + tap];
      }
    }
  }
}

void unpackConvWeights(const ConvShape &s, const float *packed, float *weights) noexcept {
  const int64_t cin = s.cin / s.groups, cout = s.cout / s.groups, taps = s.taps(), width = panelWidth();
  if (s.isDepthwise()) return unpackPanels(packed, taps, s.cin, weights, 1, taps);
  for (int64_t g = 0; g < s.groups; ++g) {
    const float *group = packed + g * packedSize(taps * cin, cout);
    for (int64_t co = 0; co < cout; ++co) {
      const float *column = group + co / width * taps * cin * width + co % width;
      float *to = weights + (g * cout + co) * cin * taps;
      for (int64_t ci = 0; ci < cin; ++ci) {
        for (int64_t tap = 0; tap < taps; ++tap) to[ci * taps + tap] = column[(tap * cin + ci) * width];
      }
    }
  }
}

ConvForward::ConvForward(const ConvShape &s, int threads)
    : shape_(s),
      pointwise_(s.taps() == 1 && product(s.stride) == 1 && s.padLow == Spatial{} && s.padHigh == Spatial{}),
      matmul_(
          grouped(s.n * product(s.out()), s.cout / s.groups, s.taps() * (s.cin / s.groups), BLayout::kPacked, s.groups),
          threads) {
  if (s.isDepthwise()) depthwise_.emplace(s, DepthwiseDirection::kForward, threads);
}

void ConvForward::run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
                      float *scratch) const noexcept {
  if (depthwise_) return depthwise_->run(task, x, packedWeights, y, epilogue, scratch);
  const int64_t cin = shape_.cin / shape_.groups, cout = shape_.cout / shape_.groups;
  MatmulArgs args;
  args.a = x;
  args.aRowStride = shape_.cin;
  args.aBatchStride[3] = cin;
  if (!pointwise_) args.gatherA = {&gatherPatches, &shape_, AMode::kRows};
  args.b = packedWeights;
  args.bBatchStride[3] = packedSize(shape_.taps() * cin, cout);
  args.c = y;
  args.cRowStride = shape_.cout;
  args.cBatchStride[3] = cout;
  args.biasBatchStride[3] = cout;
  args.epilogue = epilogue;
  args.epilogue.residualStride = args.epilogue.preActivationStride = args.epilogue.savedStride = shape_.cout;
  matmul_.run(task, args, scratch);
}

ConvDataGradient::ConvDataGradient(const ConvShape &s, int threads) : shape_(s) {
  if (s.isDepthwise()) {
    depthwise_.emplace(s, DepthwiseDirection::kBackward, threads);
    tasks_ = depthwise_->tasks();
    scratchFloats_ = depthwise_->scratchFloats();
    return;
  }
  for (ConvPhase &phase : makePhases(s)) {
    int64_t taps = 1;
    for (const auto &list : phase.taps) taps *= static_cast<int64_t>(list.size());
    const MatmulShape shape =
        grouped(s.n * product(phase.count), s.cin / s.groups, taps * (s.cout / s.groups), BLayout::kGathered, s.groups);
    parts_.push_back({std::move(phase), Matmul(shape, threads)});
    tasks_ += parts_.back().matmul.tasks();
    scratchFloats_ = std::max(scratchFloats_, parts_.back().matmul.scratchFloats());
  }
}

void ConvDataGradient::run(int task, const float *dy, const float *packedWeights, float *dx, const Epilogue &epilogue,
                           float *scratch) const noexcept {
  if (depthwise_) return depthwise_->run(task, dy, packedWeights, dx, epilogue, scratch);
  const Part *part = parts_.data();
  for (; task >= part->matmul.tasks(); ++part) task -= part->matmul.tasks();
  const PhaseContext context = makeContext(shape_, part->phase);
  const int64_t cin = shape_.cin / shape_.groups, cout = shape_.cout / shape_.groups;
  MatmulArgs args;
  args.a = dy;
  args.aBatchStride[3] = cout;
  args.gatherA = {&gatherGradients, &context, AMode::kRows};
  args.b = packedWeights;
  args.bBatchStride[3] = packedSize(shape_.taps() * cin, cout);
  args.gatherB = {&gatherPhaseWeights, &context};
  args.c = dx;
  args.cRowStride = shape_.cin;
  args.cBatchStride[3] = cin;
  args.biasBatchStride[3] = cin;
  if (product(shape_.stride) != 1) args.rowMap = {&phaseRow, &context};
  args.epilogue = epilogue;
  args.epilogue.residualStride = args.epilogue.preActivationStride = args.epilogue.savedStride = shape_.cin;
  part->matmul.run(task, args, scratch);
}

ConvWeightGradient::ConvWeightGradient(const ConvShape &s, int threads)
    : shape_(s),
      matmul_(grouped(s.taps() * (s.cin / s.groups), s.cout / s.groups, s.n * product(s.out()), BLayout::kStrided,
                      s.groups),
              threads) {
  if (s.isDepthwise()) depthwise_.emplace(s);
}

void ConvWeightGradient::run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
                             float *scratch) const noexcept {
  if (depthwise_) return depthwise_->run(task, x, dy, packedWeights, update, scratch);
  const int64_t cin = shape_.cin / shape_.groups, cout = shape_.cout / shape_.groups;
  MatmulArgs args;
  args.a = x;
  args.aBatchStride[3] = cin;
  args.gatherA = {&gatherPatchColumns, &shape_, AMode::kPanel};
  args.b = dy;
  args.bRowStride = shape_.cout;
  args.bBatchStride[3] = cout;
  args.c = packedWeights;
  args.cBatchStride[3] = packedSize(shape_.taps() * cin, cout);
  args.update = &update;
  matmul_.run(task, args, scratch);
}

}  // namespace popart::cpu
