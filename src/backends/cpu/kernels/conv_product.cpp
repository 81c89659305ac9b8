// Loop nest of the window sums. A place is one output pixel.
//
//   task = (group, chunk of output places, range of panels)
//     strip of the chunk's windows (zero-padded copy), where the image cannot be read in place
//     for some panels at a time                    their weights of a pass stay in the second level cache
//       for each pass over (tap, channel)
//         for each tile of places of one line      rows of A evenly spaced
//           for each panel: tile kernel            partial sums between passes live in scratch, never in y
#include "backends/cpu/kernels/conv_product.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kLongestPass = 256;            // k per pass: the rows of a tile stay in the first level cache
constexpr int64_t kTilesPerChunk = 16;           // row tiles that share one read of a pass's weights
constexpr int64_t kTasksPerThread = 4;           // so that dynamic claiming balances the load
constexpr int64_t kSmallestTaskFlops = 100'000;  // about 1 us (executable/cost.cpp), several times a thread's wake-up

}  // namespace

// Where the results of a group go.
struct WindowProduct::Place {
  float *y;  // the group's first channel of the first image
  const Epilogue *epilogue;
  int64_t group;
};

WindowProduct::WindowProduct(WindowProductShape shape, int threads) : shape_(std::move(shape)) {
  panels_ = ceilDiv(shape_.columns, panelWidth());
  chooseChunks(std::max(1, threads));
  windows_ = Windows(shape_.window, chunkSize_, microKernels().tileRows);
  makePasses();
  const int64_t panelBytes = kLongestPass * panelWidth() * static_cast<int64_t>(sizeof(float));
  // Weights of a pass stay in the second level cache, beside the strip.
  panelsAtOnce_ = std::clamp<int64_t>(panelBytesAtOnce() * 2 / 3 / panelBytes, 1, std::max<int64_t>(1, panels_));
  if (passes_.size() > 1) partialFloats_ = static_cast<size_t>(chunkSize_.places() * panelsAtOnce_ * panelWidth());
}

double WindowProduct::products() const {
  const WindowShape &w = shape_.window;
  return static_cast<double>(w.n * volume(w.out) * shape_.groups) *
         static_cast<double>(volume(w.taps) * w.channels * panels_ * panelWidth());
}

double WindowProduct::share(int task) const {
  const int64_t split = task % splits_, chunk = task / splits_ % windows_.chunks();
  const int64_t panels = panels_ * (split + 1) / splits_ - panels_ * split / splits_;
  const WindowShape &w = shape_.window;
  return static_cast<double>(windows_.chunk(chunk).places() * panels) /
         static_cast<double>(w.n * volume(w.out) * panels_ * shape_.groups);
}

// Of the ways to split the work into enough tasks, the one that moves the fewest bytes and leaves the fewest threads
// idle at the end: every chunk reads all weights, every range of panels reads all windows.
void WindowProduct::chooseChunks(int threads) {
  const WindowShape &w = shape_.window;
  const double places = static_cast<double>(w.n * volume(w.out)), rows = static_cast<double>(shape_.weightRows);
  const double flops = 2.0 * places * static_cast<double>(volume(w.taps) * w.channels * panels_ * panelWidth());
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(flops) / kSmallestTaskFlops, 1,
                                             ceilDiv(threads * kTasksPerThread, shape_.groups));
  const int64_t workers = std::min<int64_t>(threads, wanted * shape_.groups);
  const double weights = rows * static_cast<double>(panels_ * panelWidth());
  const double inputs = static_cast<double>(w.n * volume(w.in) * w.channels) *
                        (Windows(w, {}, microKernels().tileRows).isReadInPlace() ? 1.0 : 2.0);
  double best = -1.0;
  ChunkSizes sizes(w, kTilesPerChunk * microKernels().tileRows);
  for (ChunkSize size; sizes.next(size);) {
    const int64_t chunks = std::max<int64_t>(1, Windows(w, size).chunks());
    const int64_t fewest = std::clamp<int64_t>(ceilDiv(wanted, chunks), 1, std::max<int64_t>(1, panels_));
    for (int64_t splits = fewest; splits <= std::min(2 * fewest - 1, std::max<int64_t>(1, panels_)); ++splits) {
      const double moved = static_cast<double>(chunks) * weights + static_cast<double>(splits) * inputs;
      const double missing = static_cast<double>(wanted) / static_cast<double>(std::min(wanted, chunks * splits));
      const int64_t turns = ceilDiv(shape_.groups * chunks * splits, workers);
      const double waiting = static_cast<double>(turns * workers * size.places() * ceilDiv(panels_, splits)) /
                             std::max(1.0, places * static_cast<double>(panels_ * shape_.groups));
      const double cost = moved * missing * waiting;
      if (best >= 0.0 && cost >= best) continue;
      best = cost;
      chunkSize_ = size;
      splits_ = splits;
    }
  }
}

// One block per tap row where a row's taps are contiguous on both sides, else one per tap.
void WindowProduct::makePasses() {
  const WindowShape &w = shape_.window;
  bool joined = w.dilation[2] == 1 && windows_.pixelStride() == w.channels;
  for (size_t t = 1; t < shape_.tapRows.size(); ++t)
    if (static_cast<int64_t>(t) % w.taps[2] != 0) joined &= shape_.tapRows[t] == shape_.tapRows[t - 1] + w.channels;
  const int64_t tapsPerBlock = joined ? w.taps[2] : 1, k = tapsPerBlock * w.channels;
  for (int64_t t = 0; t < static_cast<int64_t>(shape_.tapRows.size()); t += tapsPerBlock) {
    const int64_t depth = t / (w.taps[1] * w.taps[2]), row = t / w.taps[2] % w.taps[1], column = t % w.taps[2];
    blocks_.push_back({depth * windows_.depthTapStride() + row * w.dilation[1] * windows_.rowStride() +
                           column * w.dilation[2] * windows_.pixelStride(),
                       shape_.tapRows[static_cast<size_t>(t)] * panelWidth()});
  }
  const auto count = static_cast<int64_t>(blocks_.size());
  if (k > kLongestPass) {
    const int64_t pieces = ceilDiv(k, kLongestPass);
    for (int64_t b = 0; b < count; ++b)
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t begin = k * piece / pieces;
        passes_.push_back({static_cast<size_t>(b), 1, k * (piece + 1) / pieces - begin, begin});
      }
  } else {
    const int64_t perPass =
        ceilDiv(count, std::max<int64_t>(1, ceilDiv(count, kLongestPass / std::max<int64_t>(1, k))));
    for (int64_t b = 0; b < count; b += perPass)
      passes_.push_back({static_cast<size_t>(b), std::min(perPass, count - b), k, 0});
  }
  if (passes_.empty()) passes_.push_back({0, 0, 0, 0});  // no taps: sums of zero
}

void WindowProduct::emit(const Place &to, ptrdiff_t at, const float *sums, ptrdiff_t stride, int rows, int64_t column,
                         int64_t columns) const noexcept {
  const ptrdiff_t step = shape_.step[2] * shape_.groups * shape_.columns, group = to.group * shape_.columns;
  const Epilogue e = to.epilogue->at(group + at + column, group + column);
  applyEpilogue(e, sums, stride, to.y + at + column, step, rows, columns);
}

void WindowProduct::runTile(const Pass &pass, const float *a, int rows, const float *weights, int64_t firstPanel,
                            int64_t endPanel, float *partial, const Place &to, ptrdiff_t at) const noexcept {
  const MicroKernels &kernels = microKernels();
  const int64_t width = kernels.panelWidth;
  const bool first = &pass == &passes_.front(), last = &pass == &passes_.back();
  TileArgs tile;
  tile.a = a + pass.offset;
  tile.aStride = windows_.placeStep();
  tile.bStride = width;
  tile.bPanelStride = shape_.weightRows * width;
  tile.blocks = blocks_.data() + pass.firstBlock;
  tile.blockCount = pass.blockCount;
  tile.k = pass.k;
  const ptrdiff_t step = shape_.step[2] * shape_.groups * shape_.columns;
  const ptrdiff_t partialStride = (endPanel - firstPanel) * width;
  alignas(64) float finished[kMaxTileRows * kMaxPanelWidth];
  for (int64_t p = firstPanel; p < endPanel;) {
    const int64_t column = p * width;
    const auto choice = kernels.choose(AMode::kRows, rows, std::min(endPanel * width, shape_.columns) - column);
    const int64_t columns = std::min(choice.panels * width, shape_.columns - column);
    tile.b = weights + p * tile.bPanelStride + pass.offset * width;
    tile.in = first ? nullptr : partial + (p - firstPanel) * width;
    tile.inStride = partialStride;
    const bool plain = last && to.epilogue->isStore() && columns == choice.width;
    tile.out = !last ? partial + (p - firstPanel) * width : plain ? to.y + at + column : finished;
    tile.outStride = !last ? partialStride : plain ? step : choice.width;
    choice.run(tile);
    if (last && !plain) emit(to, at, finished, choice.width, rows, column, columns);
    p += choice.panels;
  }
}

void WindowProduct::runPanels(const WindowChunk &chunk, const float *view, const float *weights, int64_t firstPanel,
                              int64_t endPanel, const Place &to, float *partials) const noexcept {
  const int64_t tiles = ceilDiv(chunk.pixels, microKernels().tileRows);
  const int64_t channels = shape_.groups * shape_.columns;
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  for (const Pass &pass : passes_) {
    float *partial = partials;
    for (int64_t image = 0; image < chunk.images; ++image) {
      for (int64_t line = 0; line < chunk.lines; ++line) {
        const float *a = view + image * windows_.imageStride() + line * windows_.lineStep();
        const int64_t row = ((chunk.image + image) * size[0] + first[0] + chunk.depth * step[0]) * size[1] + first[1] +
                            (chunk.line + line) * step[1];
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t begin = chunk.pixels * t / tiles;
          const auto rows = static_cast<int>(chunk.pixels * (t + 1) / tiles - begin);
          const ptrdiff_t at = (row * size[2] + first[2] + (chunk.pixel + begin) * step[2]) * channels;
          runTile(pass, a + begin * windows_.placeStep(), rows, weights, firstPanel, endPanel, partial, to, at);
          partial += rows * (endPanel - firstPanel) * microKernels().panelWidth;
        }
      }
    }
  }
}

void WindowProduct::run(int task, const float *x, const float *weights, float *y, const Epilogue &epilogue,
                        float *scratch) const noexcept {
  const int64_t split = task % splits_, rest = task / splits_;
  const int64_t chunks = windows_.chunks(), group = rest / chunks;
  const WindowChunk chunk = windows_.chunk(rest % chunks);
  float *strip = scratch + partialFloats_;
  const float *view = windows_.read(chunk, x + group * shape_.window.channels, strip);
  const float *groupWeights = weights + group * panels_ * shape_.weightRows * panelWidth();
  const Place to{y + group * shape_.columns, &epilogue, group};
  const int64_t begin = panels_ * split / splits_, end = panels_ * (split + 1) / splits_;
  for (int64_t p = begin; p < end; p += panelsAtOnce_)
    runPanels(chunk, view, groupWeights, p, std::min(end, p + panelsAtOnce_), to, scratch);
}

}  // namespace popart::cpu
