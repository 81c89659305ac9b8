// Loop nest of the weight gradient.
//
//   task = (group, range of tiles of weight rows, range of panels)
//     for each chunk of output places
//       strip of the chunk's windows, where the image cannot be read in place
//       for each panel: its columns of dy, in place or packed
//         for each tile: tile kernel, one block per line; partial sums live in scratch
//     for each tile and panel: update of the weights
#include "backends/cpu/kernels/conv_weight_gradient.hpp"

#include <algorithm>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kPlacesPerChunk = 256;
constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kSmallestTaskFlops = 100'000;
constexpr int64_t kTilesToPack = 8;  // packing dy pays from this many tiles that read it

}  // namespace

struct WindowGradient::Share {
  size_t firstTile, endTile;
  int64_t firstPanel, endPanel;
};

WindowGradient::WindowGradient(const WindowGradientShape &shape, int threads) : shape_(shape) {
  panels_ = ceilDiv(shape.columns, panelWidth());
  ChunkSizes(shape_.window, kPlacesPerChunk).next(chunkSize_);
  windows_ = Windows(shape_.window, chunkSize_);
  makeTiles();
  chooseTasks(std::max(1, threads));
  const WindowShape &w = shape_.window;
  const int64_t channels = shape_.groups * shape_.columns, width = panelWidth();
  for (int64_t image = 0; image < chunkSize_.images; ++image)
    for (int64_t line = 0; line < chunkSize_.lines; ++line) {
      const ptrdiff_t a = image * windows_.imageStride() + line * windows_.lineStep();
      inPlaceBlocks_.push_back({a, (image * volume(w.out) + line * w.out[2]) * channels});
      packedBlocks_.push_back({a, (image * chunkSize_.lines + line) * chunkSize_.pixels * width});
    }
  const int64_t tiles = ceilDiv(static_cast<int64_t>(tiles_.size()), tileSplits_);
  partialFloats_ = static_cast<size_t>(tiles * ceilDiv(panels_, panelSplits_) * microKernels().tileRows * width);
  packedFloats_ = static_cast<size_t>(chunkSize_.places() * width);
}

void WindowGradient::makeTiles() {
  const WindowShape &w = shape_.window;
  const bool joined = w.dilation[2] == 1 && windows_.pixelStride() == w.channels;
  const int64_t run = joined ? w.taps[2] * w.channels : w.channels, most = microKernels().tileRows;
  const int64_t pieces = ceilDiv(run, most);
  for (int64_t t = 0; t < volume(w.taps); t += joined ? w.taps[2] : 1) {
    const int64_t depth = t / (w.taps[1] * w.taps[2]), row = t / w.taps[2] % w.taps[1], column = t % w.taps[2];
    const ptrdiff_t offset = depth * windows_.depthTapStride() + row * w.dilation[1] * windows_.rowStride() +
                             column * w.dilation[2] * windows_.pixelStride();
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = run * piece / pieces;
      tiles_.push_back({offset + begin, t * w.channels + begin, static_cast<int>(run * (piece + 1) / pieces - begin)});
    }
  }
}

// Every task reads all windows of the image, and packs dy for its panels: ranges of panels cost less than of tiles.
void WindowGradient::chooseTasks(int threads) {
  const WindowShape &w = shape_.window;
  const auto tiles = static_cast<int64_t>(tiles_.size());
  const int64_t flops = 2 * w.n * volume(w.out) * volume(w.taps) * w.channels * panels_ * panelWidth();
  const int64_t wanted =
      std::clamp<int64_t>(flops / kSmallestTaskFlops, 1, ceilDiv(threads * kTasksPerThread, shape_.groups));
  panelSplits_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, panels_));
  tileSplits_ = std::clamp<int64_t>(ceilDiv(wanted, panelSplits_), 1, std::max<int64_t>(1, tiles));
}

// The panel's columns of dy for a chunk. In place, unless many tiles read them, or the last vector of the chunk would
// reach beyond the tensor.
const float *WindowGradient::gradientRows(const WindowChunk &chunk, int64_t panel, const float *dy, int64_t width,
                                          float *packed, bool &inPlace) const noexcept {
  const WindowShape &w = shape_.window;
  const int64_t channels = shape_.groups * shape_.columns, column = panel * panelWidth();
  const int64_t first = ((chunk.image * w.out[0] + chunk.depth) * w.out[1] + chunk.line) * w.out[2] + chunk.pixel;
  const float *rows = dy + first * channels + column;
  if (inPlace) {
    const int64_t lastPlace =
        first + (chunk.images - 1) * volume(w.out) + (chunk.lines - 1) * w.out[2] + chunk.pixels - 1;
    const int64_t left = (w.n * volume(w.out) - lastPlace) * channels - column;  // at most, for the first group
    const int64_t columns = std::min(width, shape_.columns - column);
    inPlace = columns == width || left - (shape_.groups - 1) * shape_.columns >= width;
  }
  if (inPlace) return rows;
  const int64_t columns = std::min<int64_t>(panelWidth(), shape_.columns - column);
  for (size_t i = 0; i < static_cast<size_t>(chunk.images * chunk.lines); ++i)
    packPanel(rows + inPlaceBlocks_[i].b, channels, 1, chunk.pixels, static_cast<int>(columns), panelWidth(),
              packed + packedBlocks_[i].b);
  return packed;
}

void WindowGradient::addChunk(const Share &share, const WindowChunk &chunk, const float *view, const float *dy,
                              bool firstChunk, float *partials, float *packed) const noexcept {
  const MicroKernels &kernels = microKernels();
  const int64_t width = kernels.panelWidth;
  TileArgs t;
  t.aStride = windows_.placeStep();
  t.blockCount = chunk.images * chunk.lines;
  t.k = chunk.pixels;
  t.inStride = t.outStride = width;
  for (int64_t p = share.firstPanel; p < share.endPanel; ++p) {
    const int64_t columns = shape_.columns - p * width;
    const int64_t read = kernels.choose(AMode::kPanel, 1, columns).width;
    bool inPlace = share.endTile - share.firstTile < static_cast<size_t>(kTilesToPack);
    t.b = gradientRows(chunk, p, dy, read, packed, inPlace);
    t.bStride = inPlace ? shape_.groups * shape_.columns : width;
    t.blocks = inPlace ? inPlaceBlocks_.data() : packedBlocks_.data();
    for (size_t i = share.firstTile; i < share.endTile; ++i) {
      const Tile &tile = tiles_[i];
      t.a = view + tile.offset;
      t.out = partials +
              (static_cast<int64_t>(i - share.firstTile) * (share.endPanel - share.firstPanel) + p - share.firstPanel) *
                  kernels.tileRows * width;
      t.in = firstChunk ? nullptr : t.out;
      kernels.choose(AMode::kPanel, tile.rows, columns).run(t);
    }
  }
}

void WindowGradient::run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
                         float *scratch) const noexcept {
  const WindowShape &w = shape_.window;
  const int64_t width = panelWidth(), rows = volume(w.taps) * w.channels;
  const int64_t panelSplit = task % panelSplits_, rest = task / panelSplits_;
  const int64_t tileSplit = rest % tileSplits_, group = rest / tileSplits_;
  const auto tiles = static_cast<int64_t>(tiles_.size());
  const Share share{static_cast<size_t>(tiles * tileSplit / tileSplits_),
                    static_cast<size_t>(tiles * (tileSplit + 1) / tileSplits_), panels_ * panelSplit / panelSplits_,
                    panels_ * (panelSplit + 1) / panelSplits_};
  float *partials = scratch, *packed = partials + partialFloats_, *strip = packed + packedFloats_;
  const int64_t panels = share.endPanel - share.firstPanel, chunks = windows_.chunks();
  if (chunks == 0) std::fill_n(partials, partialFloats_, 0.0f);
  for (int64_t c = 0; c < chunks; ++c) {
    const WindowChunk chunk = windows_.chunk(c);
    const float *view = windows_.read(chunk, x + group * w.channels, strip);
    addChunk(share, chunk, view, dy + group * shape_.columns, c == 0, partials, packed);
  }
  for (size_t i = share.firstTile; i < share.endTile; ++i)
    for (int64_t p = share.firstPanel; p < share.endPanel; ++p) {
      const ptrdiff_t at = ((group * panels_ + p) * rows + tiles_[i].row) * width;
      const float *sums = partials + (static_cast<int64_t>(i - share.firstTile) * panels + p - share.firstPanel) *
                                         microKernels().tileRows * width;
      applyPanelUpdate(update, sums, width, packedWeights + at, width, tiles_[i].rows,
                       std::min(width, shape_.columns - p * width));
    }
}

}  // namespace popart::cpu
