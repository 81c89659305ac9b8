// Loop nest of the weight gradient.
//
//   round 1, where windows leave the images, or these are of 16 bits: zero-padded copies
//   round 2: task = (group, leaf, range of tiles of weight rows, range of panels)
//     for each few panels whose partial sums stay in the second level cache
//       for each chunk of the leaf's output places
//         for each panel, or pair of panels: its columns of dy, in place or packed
//           for each tile: tile kernel, one block per line; partial sums live in scratch, or in the leaf's own memory
//   round 3, where there are several leaves: for each tile and panel the leaves' sums are reduced
//   in the last round: update of the weights; with one chunk, tile by tile
#include "backends/cpu/kernels/conv_weight_gradient.hpp"

#include <algorithm>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/pairs.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kPlacesPerChunk = 256;  // output pixels, the rows of a packed panel: 32 KiB with AVX-512
constexpr int64_t kTasksPerThread = 4;    // so that dynamic claiming balances the load
constexpr int64_t kTilesToPack = 8;       // packing dy pays off if this many tiles read it
// Leaves (split-K) make work for many threads if there are few tiles and panels. This many pieces are enough; with this
// many output pixels in a leaf, its partial sums cost little to store and to reduce.
constexpr int64_t kEnoughPieces = 1024;
constexpr int64_t kPlacesPerLeaf = 1024;
constexpr double kProductsPerFloat = 25;  // multiply-adds in the time to move a float

}  // namespace

struct WindowGradient::Share {
  int64_t group = 0;
  size_t firstTile = 0, endTile = 0;
  int64_t firstPanel = 0, endPanel = 0;
  float *partials = nullptr;  // at firstTile and firstPanel; the sums of a row's panels are contiguous
  ptrdiff_t rowStride = 0, tileStride = 0;
  const Update *update = nullptr;  // of the weights, tile by tile; null: sums are stored as partials
  float *packedWeights = nullptr;
};

WindowGradient::WindowGradient(const WindowGradientShape &shape, int threads)
    : shape_(shape), images_(shape.window.n), kernels_(&microKernels()) {
  if (shape.type == DataType::BFLOAT16 && bfloat16Kernels() && images_ > 1) {
    kernels_ = bfloat16Kernels();
    shape_.window.n = pairsOf(images_);
  }
  window_ = shape_.window;
  isPadded_ = (!window_.fits() || isHalf(shape.type)) && volume(window_.out) > 0;
  if (isPadded_) {
    padded_ = PaddedImages(shape_.window, shape.groups);
    window_ = padded_.window();
  }
  panels_ = ceilDiv(shape.columns, panelWidth());
  ChunkSizes(window_, kPlacesPerChunk).next(chunkSize_);
  windows_ = Windows(window_, chunkSize_);
  makeTiles();
  chooseLeaves();
  chooseTasks(std::max(1, threads));
  const WindowShape &w = window_;
  const int64_t channels = shape_.groups * shape_.columns, width = panelWidth();
  for (int64_t image = 0; image < chunkSize_.images; ++image)
    for (int64_t line = 0; line < chunkSize_.lines; ++line) {
      const ptrdiff_t a = image * windows_.imageStride() + line * windows_.lineStep();
      inPlaceBlocks_.push_back({a, (image * volume(w.out) + line * w.out[2]) * channels});
      packedBlocks_.push_back({a, (image * chunkSize_.lines + line) * chunkSize_.pixels * width});
    }
  planRounds();
}

void WindowGradient::planRounds() {
  const auto tiles = static_cast<int64_t>(tiles_.size());
  const int64_t block = microKernels().tileRows * panelWidth(), blocks = shape_.groups * tiles * panels_;
  packedFloats_ = static_cast<size_t>(panelsTogether_ * chunkSize_.places() * panelWidth());
  // Relative durations of the rounds: passes over memory, and the product by its multiply-adds.
  const double places = static_cast<double>(window_.n * volume(window_.out));
  if (isPadded_) {
    const int64_t floats = padded_.rows() * padded_.rowFloats();
    imageFloats_ = static_cast<size_t>(ceilDiv(floats, kCacheLineFloats) * kCacheLineFloats);
    kinds_.push_back(Round::kPad);
    rounds_.add(taskCount(floats, int64_t{1} << 13, padded_.rows()), 2.0 * static_cast<double>(floats));
  }
  kinds_.push_back(Round::kLeaves);
  rounds_.add(shape_.groups * leaves_ * tileSplits_ * panelSplits_,
              places * static_cast<double>(blocks * block) / kProductsPerFloat);
  if (leaves_ == 1) {
    partialFloats_ =
        windows_.chunks() != 1 ? static_cast<size_t>(ceilDiv(tiles, tileSplits_) * panelsAtOnce_ * block) : 0;
    return;
  }
  partialFloats_ = static_cast<size_t>(block);
  leafFloats_ = static_cast<size_t>(leaves_ * blocks * block);
  kinds_.push_back(Round::kTotal);
  rounds_.add(taskCount(leaves_ * blocks * block, int64_t{1} << 13, blocks),
              static_cast<double>(leaves_ * blocks * block));
}

void WindowGradient::makeTiles() {
  const WindowShape &w = window_;
  const bool joined = w.dilation[2] == 1 && windows_.pixelStride() == w.channels;
  const int64_t run = joined ? w.taps[2] * w.channels : w.channels;
  const RowTiles rows(run, shape_.columns);
  panelsTogether_ = rows.panelsTogether() == 2 ? 2 : 1;
  runs_ = volume(w.taps) * w.channels / std::max<int64_t>(1, run), runRows_ = run;
  for (int64_t t = 0; t < volume(w.taps); t += joined ? w.taps[2] : 1) {
    const int64_t depth = t / (w.taps[1] * w.taps[2]), row = t / w.taps[2] % w.taps[1], column = t % w.taps[2];
    const ptrdiff_t offset = depth * windows_.depthTapStride() + row * w.dilation[1] * windows_.rowStride() +
                             column * w.dilation[2] * windows_.pixelStride();
    for (int64_t piece = 0; piece < rows.count(); ++piece) {
      const int64_t begin = rows.begin(piece);
      tiles_.push_back({offset + begin, t * w.channels + begin, static_cast<int>(rows.begin(piece + 1) - begin)});
    }
  }
}

void WindowGradient::chooseLeaves() {
  const int64_t places = window_.n * volume(window_.out), chunks = windows_.chunks();
  // The number of leaves determines the bits of sums, so it depends only on the shape, not on how rows are tiled.
  const int64_t pieces = shape_.groups * runs_ * ceilDiv(runRows_, microKernels().tileRows) * panels_;
  leaves_ = std::clamp<int64_t>(ceilDiv(kEnoughPieces, std::max<int64_t>(1, pieces)), 1,
                                std::max<int64_t>(1, std::min(places / kPlacesPerLeaf, chunks)));
}

// Every task reads the windows of its leaf and packs dy for its panels, so splitting by panels costs less than by
// tiles.
void WindowGradient::chooseTasks(int threads) {
  const WindowShape &w = window_;
  const auto tiles = static_cast<int64_t>(tiles_.size());
  const int64_t flops = 2 * w.n * volume(w.out) * volume(w.taps) * w.channels * panels_ * panelWidth();
  const int64_t wanted =
      std::clamp<int64_t>(flops / kSmallestTaskFlops, 1, ceilDiv(threads * kTasksPerThread, shape_.groups * leaves_));
  panelSplits_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, panels_));
  tileSplits_ = std::clamp<int64_t>(ceilDiv(wanted, panelSplits_), 1, std::max<int64_t>(1, tiles));
  const int64_t panelBytes =
      ceilDiv(tiles, tileSplits_) * microKernels().tileRows * panelWidth() * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = secondLevelCacheBytes() / 2 / std::max<int64_t>(1, panelBytes);
  panelsAtOnce_ = std::clamp(fitting / panelsTogether_ * panelsTogether_, panelsTogether_,
                             std::max(panelsTogether_, panelRanges().longest()));
}

// The columns of dy of `panels` panels from `panel` on, for a chunk; kernels read `width` columns. They are read in
// place unless many tiles read them, or the last vector load of the chunk would exceed the tensor.
const float *WindowGradient::gradientRows(const WindowChunk &chunk, int64_t panel, int64_t panels, const float *dy,
                                          int64_t width, float *packed, bool &inPlace) const noexcept {
  const WindowShape &w = window_;
  const int64_t channels = shape_.groups * shape_.columns, column = panel * panelWidth();
  const int64_t first = ((chunk.image * w.out[0] + chunk.depth) * w.out[1] + chunk.line) * w.out[2] + chunk.pixel;
  const float *rows = dy + first * channels + column;
  if (inPlace) {
    const int64_t lastPlace =
        first + (chunk.images - 1) * volume(w.out) + (chunk.lines - 1) * w.out[2] + chunk.pixels - 1;
    // Columns left after the last place, for the first group.
    const int64_t left = (w.n * volume(w.out) - lastPlace) * channels - column;
    const int64_t columns = std::min(width, shape_.columns - column);
    inPlace = columns == width || left - (shape_.groups - 1) * shape_.columns >= width;
  }
  if (inPlace) return rows;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t columns = std::min<int64_t>(panelWidth(), shape_.columns - column - p * panelWidth());
    for (size_t i = 0; i < static_cast<size_t>(chunk.images * chunk.lines); ++i)
      packPanel(rows + p * panelWidth() + inPlaceBlocks_[i].b, channels, 1, chunk.pixels, static_cast<int>(columns),
                panelWidth(), packed + p * packedPanelFloats() + packedBlocks_[i].b);
  }
  return packed;
}

// Packs the same columns of a dy of 16 bits.
void WindowGradient::packGradient(const WindowChunk &chunk, int64_t panel, int64_t group, const uint16_t *dy,
                                  float *packed) const noexcept {
  const WindowShape &w = window_;
  const int64_t channels = shape_.groups * shape_.columns, width = panelWidth(), column = panel * width;
  const auto columns = static_cast<int>(std::min(width, shape_.columns - column));
  const int64_t imageSize = volume(w.out) * channels;
  dy += group * shape_.columns + column;
  for (int64_t i = 0; i < chunk.images; ++i)
    for (int64_t l = 0; l < chunk.lines; ++l) {
      const int64_t image = chunk.image + i, line = (chunk.depth * w.out[1] + chunk.line + l) * w.out[2] + chunk.pixel;
      float *to = packed + packedBlocks_[static_cast<size_t>(i * chunkSize_.lines + l)].b;
      if (hasPairs()) {
        const uint16_t *first = dy + 2 * image * imageSize + line * channels;
        pairMatrices(first, 2 * image + 1 < images_ ? first + imageSize : nullptr, channels, chunk.pixels, columns,
                     width, to);
      } else {
        widenPanel(shape_.type, dy + image * imageSize + line * channels, channels, 1, chunk.pixels, columns,
                   static_cast<int>(width), to);
      }
    }
}

void WindowGradient::addChunk(const Share &share, const WindowChunk &chunk, const float *view, const void *dy,
                              bool isFirst, float *packed) const noexcept {
  const MicroKernels &kernels = *kernels_;
  const int64_t width = kernels.panelWidth;
  TileArgs t;
  t.aStride = windows_.placeStep();
  t.blockCount = chunk.images * chunk.lines;
  t.k = chunk.pixels;
  t.inStride = t.outStride = share.rowStride;
  alignas(64) float finished[kMaxTileFloats];
  for (int64_t p = share.firstPanel; p < share.endPanel; p += panelsTogether_) {
    const int64_t panels = std::min(panelsTogether_, share.endPanel - p),
                  columns = std::min(panels * width, shape_.columns - p * width);
    const int64_t read = columns > width ? panels * width : kernels.choose(AMode::kPanel, 1, columns).width;
    bool inPlace = !isHalf(shape_.type) && share.endTile - share.firstTile < static_cast<size_t>(kTilesToPack);
    const float *b = packed;
    if (isHalf(shape_.type))
      for (int64_t i = 0; i < panels; ++i)
        packGradient(chunk, p + i, share.group, static_cast<const uint16_t *>(dy), packed + i * packedPanelFloats());
    else
      b = gradientRows(chunk, p, panels, static_cast<const float *>(dy) + share.group * shape_.columns, read, packed,
                       inPlace);
    t.bStride = inPlace ? shape_.groups * shape_.columns : width;
    t.bPanelStride = inPlace ? width : packedPanelFloats();
    t.blocks = inPlace ? inPlaceBlocks_.data() : packedBlocks_.data();
    float *sums = share.partials + (p - share.firstPanel) * width;
    for (size_t i = share.firstTile; i < share.endTile; ++i, sums += share.tileStride) {
      const Tile &tile = tiles_[i];
      t.a = view + tile.offset;
      for (int64_t done = 0; done < panels;) {
        const MicroKernels::Choice choice = kernels.choose(AMode::kPanel, tile.rows, columns - done * width);
        t.b = b + done * t.bPanelStride;
        t.out = sums + done * width;
        t.in = isFirst ? nullptr : t.out;
        if (share.update) {
          for (int64_t q = 0; q < choice.panels; ++q)
            prefetchUpdate(*share.update, weightsAt(share.group, i, p + done + q, share.packedWeights),
                           tile.rows * width);
          t.out = finished, t.outStride = choice.panels * width;
        }
        choice.run(t);
        for (int64_t q = 0; share.update && q < choice.panels; ++q)
          writeBlock(share.group, i, p + done + q, finished + q * width, t.outStride, share.packedWeights,
                     *share.update);
        done += choice.panels;
      }
    }
  }
}

float *WindowGradient::weightsAt(int64_t group, size_t tile, int64_t panel, float *packedWeights) const noexcept {
  const int64_t rows = volume(window_.taps) * window_.channels;
  return packedWeights + ((group * panels_ + panel) * rows + tiles_[tile].row) * panelWidth();
}

void WindowGradient::writeBlock(int64_t group, size_t tile, int64_t panel, const float *sums, ptrdiff_t stride,
                                float *packedWeights, const Update &update) const noexcept {
  const int64_t width = panelWidth();
  applyPanelUpdate(update, sums, stride, weightsAt(group, tile, panel, packedWeights), width, tiles_[tile].rows,
                   std::min(width, shape_.columns - panel * width));
}

void WindowGradient::addLeaf(int64_t task, const float *image, const void *dy, float *packedWeights,
                             const Update &update, float *scratch, float *leaves) const noexcept {
  const int64_t panelSplit = task % panelSplits_, tileSplit = task / panelSplits_ % tileSplits_;
  const int64_t leaf = task / panelSplits_ / tileSplits_ % leaves_, group = task / panelSplits_ / tileSplits_ / leaves_;
  const int64_t width = panelWidth(), tileRows = microKernels().tileRows, chunks = windows_.chunks();
  const auto tiles = static_cast<int64_t>(tiles_.size());
  const PanelRanges panels = panelRanges();
  Share share;
  share.group = group;
  share.firstTile = static_cast<size_t>(tiles * tileSplit / tileSplits_);
  share.endTile = static_cast<size_t>(tiles * (tileSplit + 1) / tileSplits_);
  share.partials = scratch;
  if (leaves_ == 1 && chunks == 1) share.update = &update, share.packedWeights = packedWeights;
  const float *x = image + (isPadded_ ? padded_.groupOffset(group) : group * window_.channels);
  const int64_t firstChunk = chunks * leaf / leaves_, endChunk = chunks * (leaf + 1) / leaves_,
                endPanel = panels.begin(panelSplit + 1);
  if (chunks == 0) std::fill_n(scratch, partialFloats_, 0.0f);
  for (share.firstPanel = panels.begin(panelSplit); share.firstPanel < endPanel; share.firstPanel = share.endPanel) {
    share.endPanel = std::min(endPanel, share.firstPanel + panelsAtOnce_);
    share.rowStride = (leaves_ > 1 ? panels_ : share.endPanel - share.firstPanel) * width;
    share.tileStride = share.rowStride * tileRows;
    if (leaves_ > 1)
      share.partials = leaves +
                       ((group * leaves_ + leaf) * tiles + static_cast<int64_t>(share.firstTile)) * share.tileStride +
                       share.firstPanel * width;
    for (int64_t c = firstChunk; c < endChunk; ++c) {
      const WindowChunk chunk = windows_.chunk(c);
      addChunk(share, chunk, windows_.read(chunk, x, nullptr), dy, c == firstChunk, scratch + partialFloats_);
    }
    if (leaves_ == 1 && !share.update) writeSums(share, packedWeights, update);
  }
}

void WindowGradient::writeSums(const Share &share, float *packedWeights, const Update &update) const noexcept {
  const float *sums = share.partials;
  for (size_t i = share.firstTile; i < share.endTile; ++i, sums += share.tileStride)
    for (int64_t p = share.firstPanel; p < share.endPanel; ++p)
      writeBlock(share.group, i, p, sums + (p - share.firstPanel) * panelWidth(), share.rowStride, packedWeights,
                 update);
}

void WindowGradient::addUp(int64_t task, const float *leaves, float *packedWeights, const Update &update,
                           float *sums) const noexcept {
  const int64_t width = panelWidth(), block = microKernels().tileRows * width;
  const int64_t perGroup = static_cast<int64_t>(tiles_.size()) * panels_, blocks = shape_.groups * perGroup;
  const int64_t tasks = rounds_.size(kinds_.size() - 1);
  for (int64_t b = blocks * task / tasks; b < blocks * (task + 1) / tasks; ++b) {
    const int64_t group = b / perGroup;
    const auto tile = static_cast<size_t>(b % perGroup / panels_);
    const float *part =
        leaves + (group * leaves_ * perGroup + b % perGroup / panels_ * panels_) * block + b % panels_ * width;
    for (int64_t leaf = 0; leaf < leaves_; ++leaf, part += perGroup * block)
      for (int64_t row = 0; row < tiles_[tile].rows; ++row) {
        float *to = sums + row * width;
        const float *from = part + row * panels_ * width;
        if (leaf == 0)
          std::copy_n(from, width, to);
        else
          for (int64_t i = 0; i < width; ++i) to[i] += from[i];
      }
    writeBlock(group, tile, b % panels_, sums, width, packedWeights, update);
  }
}

void WindowGradient::copyImages(const void *x, int64_t begin, int64_t end, float *copy) const noexcept {
  if (!isHalf(shape_.type)) return padded_.copyRows(static_cast<const float *>(x), begin, end, copy);
  const auto *halves = static_cast<const uint16_t *>(x);
  if (hasPairs()) return padded_.pairRows(halves, images_, begin, end, copy);
  padded_.widenRows(shape_.type, halves, begin, end, copy);
}

void WindowGradient::run(int task, const void *x, const void *dy, float *packedWeights, const Update &update,
                         float *scratch, float *shared) const noexcept {
  const Rounds::Place place = rounds_.place(task);
  switch (kinds_[place.round]) {
    case Round::kPad: {
      const int64_t rows = padded_.rows(), tasks = rounds_.size(place.round);
      return copyImages(x, rows * place.task / tasks, rows * (place.task + 1) / tasks, shared);
    }
    case Round::kLeaves:
      return addLeaf(place.task, isPadded_ ? shared : static_cast<const float *>(x), dy, packedWeights, update, scratch,
                     shared + imageFloats_);
    case Round::kTotal:
      return addUp(place.task, shared + imageFloats_, packedWeights, update, scratch);
  }
}

}  // namespace popart::cpu
