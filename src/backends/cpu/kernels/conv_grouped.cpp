// Loop nests of convolutions with few channels in a group, see conv_grouped.hpp.
//
//   product: task = (panel, range of chunks)      gradient: task = (panel, leaf: a range of chunks)
//     weights of the panel, if exchanged
//     for each chunk of output places
//       strip of its windows, spread for the panel
//       for each line, for each tile of places      for each tile of weight rows: one block per line
//   gradient of one channel in a group: task = (range of panels, leaf); chunks are read in place
#include "backends/cpu/kernels/conv_grouped.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kStripFloats = int64_t{1} << 16;  // 256 KiB: stays in the second level cache
constexpr int64_t kChunksPerThread = 4;             // tasks per thread, so that dynamic claiming balances the load
constexpr int64_t kFewestTaskFlops = 100'000;       // about 1 us (executable/cost.cpp)
constexpr int64_t kGradientPlaces = 512;            // places per chunk, unless a line is longer

// Fills the strip of a chunk for one panel.
void spreadStrip(const Windows &windows, const WindowShape &shape, const WindowChunk &chunk, const LaneSpread &spread,
                 int64_t panel, const float *x, float *strip) noexcept {
  const int64_t floats = spread.pixelFloats();
  windows.forEachStripRow(
      chunk, [&](std::optional<int64_t> row, int64_t first, int64_t count, int64_t skip, ptrdiff_t at) {
        float *out = strip + at;
        const int64_t begin = row ? std::clamp<int64_t>(ceilDiv(-first, skip), 0, count) : count;
        const int64_t end = row ? std::clamp<int64_t>(ceilDiv(shape.in[2] - first, skip), begin, count) : count;
        std::fill_n(out, begin * floats, 0.0f);
        if (end > begin)
          spread.run(panel, x + *row + (first + begin * skip) * shape.pixelStride, skip * shape.pixelStride,
                     end - begin, out + begin * floats);
        std::fill_n(out + end * floats, (count - end) * floats, 0.0f);
      });
}

}  // namespace

GroupedProduct::GroupedProduct(WindowProductShape shape, GroupedWeights weights, int threads)
    : shape_(std::move(shape)),
      weights_(weights),
      spread_(shape_.groups, shape_.window.channels, shape_.columns),
      panels_(ceilDiv(shape_.groups * shape_.columns, panelWidth())) {
  chooseChunks(std::max(1, threads));
  makeBlocks();
  lineFloats_ = static_cast<size_t>(chunkSize_.pixels * panelWidth());
  if (weights_ == GroupedWeights::kExchanged) exchangedFloats_ = static_cast<size_t>(shape_.weightRows * panelWidth());
}

// One block per tap row if a row's taps are contiguous on both sides, else one per tap.
void GroupedProduct::makeBlocks() {
  const WindowShape &w = shape_.window;
  bool joined = w.dilation[2] == 1;
  for (size_t t = 1; t < shape_.tapRows.size(); ++t)
    if (static_cast<int64_t>(t) % w.taps[2] != 0) joined &= shape_.tapRows[t] == shape_.tapRows[t - 1] + w.channels;
  const int64_t tapsPerBlock = joined ? w.taps[2] : 1;
  k_ = tapsPerBlock * w.channels;
  for (int64_t t = 0; t < static_cast<int64_t>(shape_.tapRows.size()); t += tapsPerBlock) {
    const int64_t depth = t / (w.taps[1] * w.taps[2]), row = t / w.taps[2] % w.taps[1], column = t % w.taps[2];
    blocks_.push_back({depth * windows_.depthTapStride() + row * w.dilation[1] * windows_.rowStride() +
                           column * w.dilation[2] * windows_.pixelStride(),
                       shape_.tapRows[static_cast<size_t>(t)] * panelWidth()});
  }
}

double GroupedProduct::products() const {
  const WindowShape &w = shape_.window;
  return static_cast<double>(w.n * volume(w.out) * panels_ * panelWidth()) *
         static_cast<double>(static_cast<int64_t>(shape_.tapRows.size()) * w.channels);
}

double GroupedProduct::share(int task) const {
  const int64_t range = task / panels_, chunks = windows_.chunks();
  int64_t places = 0;
  for (int64_t c = chunks * range / ranges_; c < chunks * (range + 1) / ranges_; ++c)
    places += windows_.chunk(c).places();
  return static_cast<double>(places) / static_cast<double>(shape_.window.n * volume(shape_.window.out) * panels_);
}

// Chooses the largest chunks whose strip stays in the cache and that give enough tasks for the threads.
void GroupedProduct::chooseChunks(int threads) {
  const WindowShape &w = shape_.window;
  const auto flops = static_cast<int64_t>(2 * products());
  const int64_t wanted = std::clamp<int64_t>(flops / kFewestTaskFlops, 1, threads * kChunksPerThread);
  ChunkSizes sizes(w, std::max<int64_t>(1, kStripFloats / spread_.pixelFloats()));
  while (sizes.next(chunkSize_)) {
    windows_ = Windows::ofStrip(w, chunkSize_, spread_.pixelFloats());
    if (static_cast<int64_t>(windows_.stripFloats()) <= kStripFloats && windows_.chunks() * panels_ >= wanted) break;
  }
  ranges_ = std::min(windows_.chunks(), ceilDiv(wanted, std::max<int64_t>(1, panels_)));
}

// Rows (tap from the last to the first, output channel of the group) of the input channels of a panel.
void GroupedProduct::exchange(int64_t panel, const float *packed, float *weights) const noexcept {
  const int64_t width = panelWidth(), in = shape_.columns, out = shape_.window.channels;
  const int64_t taps = shape_.weightRows / out, packedRows = taps * in;
  for (int64_t lane = 0; lane < width; ++lane) {
    const int64_t channel = panel * width + lane, group = channel / in;
    for (int64_t row = 0; row < shape_.weightRows; ++row) {
      const int64_t column = group * out + row % out, packedRow = (taps - 1 - row / out) * in + channel % in;
      weights[row * width + lane] =
          group < shape_.groups ? packed[(column / width * packedRows + packedRow) * width + column % width] : 0.0f;
    }
  }
}

void GroupedProduct::runLine(int64_t panel, const float *view, const float *weights, int64_t pixels, ptrdiff_t at,
                             float *y, const Epilogue &epilogue, float *sums) const noexcept {
  const MicroKernels &kernels = microKernels();
  const int64_t width = kernels.panelWidth, column = panel * width, channels = shape_.groups * shape_.columns;
  const int64_t columns = std::min(width, channels - column), tiles = ceilDiv(pixels, kernels.tileRows);
  const ptrdiff_t step = shape_.step[2] * channels;
  TileArgs tile;
  tile.aStride = windows_.placeStep();
  tile.b = weights;
  tile.bStride = width;
  tile.blocks = blocks_.data();
  tile.blockCount = static_cast<int64_t>(blocks_.size());
  tile.k = k_;
  const bool plain = epilogue.isStore() && kernels.choose(AMode::kLaneRows, 1, columns).width == columns;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = pixels * t / tiles;
    const auto rows = static_cast<int>(pixels * (t + 1) / tiles - begin);
    tile.a = view + begin * tile.aStride;
    tile.out = plain ? y + at + column + begin * step : sums + begin * width;
    tile.outStride = plain ? step : width;
    kernels.choose(AMode::kLaneRows, rows, columns).run(tile);
  }
  if (!plain) applyEpilogue(epilogue.at(at + column, column), sums, width, y + at + column, step, pixels, columns);
}

void GroupedProduct::run(int task, const float *x, const float *packedWeights, float *y, const Epilogue &epilogue,
                         float *scratch) const noexcept {
  const int64_t panel = task % panels_, range = task / panels_, chunks = windows_.chunks();
  const int64_t channels = shape_.groups * shape_.columns;
  float *sums = scratch + windows_.stripFloats(), *exchanged = sums + lineFloats_;
  const float *weights = packedWeights + panel * shape_.weightRows * panelWidth();
  if (weights_ == GroupedWeights::kExchanged) exchange(panel, packedWeights, exchanged), weights = exchanged;
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  for (int64_t c = chunks * range / ranges_; c < chunks * (range + 1) / ranges_; ++c) {
    const WindowChunk chunk = windows_.chunk(c);
    if (!blocks_.empty()) spreadStrip(windows_, shape_.window, chunk, spread_, panel, x, scratch);
    for (int64_t image = 0; image < chunk.images; ++image)
      for (int64_t line = 0; line < chunk.lines; ++line) {
        const int64_t row = ((chunk.image + image) * size[0] + first[0] + chunk.depth * step[0]) * size[1] + first[1] +
                            (chunk.line + line) * step[1];
        const ptrdiff_t at = (row * size[2] + first[2] + chunk.pixel * step[2]) * channels;
        runLine(panel, scratch + image * windows_.imageStride() + line * windows_.lineStep(), weights, chunk.pixels, at,
                y, epilogue, sums);
      }
  }
}

GroupedGradient::GroupedGradient(const WindowGradientShape &shape, int threads, Windows::Reading reading)
    : shape_(shape),
      spread_(shape.groups, shape.window.channels, shape.columns),
      panels_(ceilDiv(shape.groups * shape.columns, panelWidth())) {
  // At least, because adding a leaf's sum costs much less than the sum over these places.
  constexpr int64_t kPlacesPerLeaf = 256;
  const WindowShape &w = shape_.window;
  ChunkSizes sizes(w, std::min(kGradientPlaces, std::max<int64_t>(1, kStripFloats / spread_.pixelFloats())));
  while (sizes.next(chunkSize_)) {
    windows_ = Windows::ofStrip(w, chunkSize_, spread_.pixelFloats());
    if (static_cast<int64_t>(windows_.stripFloats()) <= kStripFloats) break;
  }
  makeTiles();
  const int64_t width = panelWidth(), channels = shape_.groups * shape_.columns, places = w.n * volume(w.out);
  for (int64_t image = 0; image < chunkSize_.images; ++image)
    for (int64_t line = 0; line < chunkSize_.lines; ++line) {
      const ptrdiff_t a = image * windows_.imageStride() + line * windows_.lineStep();
      inPlaceBlocks_.push_back({a, (image * volume(w.out) + line * w.out[2]) * channels});
      packedBlocks_.push_back({a, (image * chunkSize_.lines + line) * chunkSize_.pixels * width});
    }
  panelFloats_ = static_cast<size_t>(volume(w.taps) * w.channels * width);
  leaves_ =
      leafCount(places, kPlacesPerLeaf,
                std::min(std::max<int64_t>(1, windows_.chunks()), ceilDiv(kMostTasks, std::max<int64_t>(1, panels_))));
  ranges_ = panels_;
  packedFloats_ = windows_.stripFloats() + static_cast<size_t>(chunkSize_.places() * width);
  if (w.channels == 1 && shape_.columns == 1 && reading == Windows::Reading::kInPlace) {
    depthwise_.emplace(w);
    packedFloats_ = 0;
    ranges_ = std::clamp<int64_t>(ceilDiv(threads * kChunksPerThread, leaves_), 1, std::max<int64_t>(1, panels_));
  }
  rounds_.add(ranges_ * leaves_, static_cast<double>(places));
  if (leaves_ > 1) rounds_.add(panels_, static_cast<double>(leaves_));
}

void GroupedGradient::makeTiles() {
  const WindowShape &w = shape_.window;
  const int64_t most = microKernels().tileRows, width = panelWidth();
  const bool joined = w.dilation[2] == 1;
  const int64_t run = (joined ? w.taps[2] : 1) * w.channels, pieces = ceilDiv(run, most);
  for (int64_t t = 0; t < volume(w.taps); t += joined ? w.taps[2] : 1) {
    const int64_t depth = t / (w.taps[1] * w.taps[2]), row = t / w.taps[2] % w.taps[1], column = t % w.taps[2];
    const ptrdiff_t offset = depth * windows_.depthTapStride() + row * w.dilation[1] * windows_.rowStride() +
                             column * w.dilation[2] * windows_.pixelStride();
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = run * piece / pieces;
      tiles_.push_back(
          {offset + begin * width, t * w.channels + begin, static_cast<int>(run * (piece + 1) / pieces - begin)});
    }
  }
}

void GroupedGradient::addLeaf(int64_t panel, int64_t leaf, const float *x, const float *dy, float *sums,
                              float *scratch) const noexcept {
  const WindowShape &w = shape_.window;
  const MicroKernels &kernels = microKernels();
  const int64_t width = kernels.panelWidth, channels = shape_.groups * shape_.columns, chunks = windows_.chunks();
  const int64_t columns = std::min(width, channels - panel * width), begin = chunks * leaf / leaves_;
  const bool inPlace = kernels.choose(AMode::kLanePanel, 1, columns).width == columns;
  float *packed = scratch + windows_.stripFloats();
  if (chunks == 0) std::fill_n(sums, panelFloats_, 0.0f);
  TileArgs t;
  t.aStride = windows_.placeStep();
  t.bStride = inPlace ? channels : width;
  t.blocks = inPlace ? inPlaceBlocks_.data() : packedBlocks_.data();
  t.inStride = t.outStride = width;
  for (int64_t c = begin; c < chunks * (leaf + 1) / leaves_; ++c) {
    const WindowChunk chunk = windows_.chunk(c);
    spreadStrip(windows_, w, chunk, spread_, panel, x, scratch);
    const int64_t first = ((chunk.image * w.out[0] + chunk.depth) * w.out[1] + chunk.line) * w.out[2] + chunk.pixel;
    const float *rows = dy + first * channels + panel * width;
    for (size_t i = 0; !inPlace && i < static_cast<size_t>(chunk.images * chunk.lines); ++i)
      packPanel(rows + inPlaceBlocks_[i].b, channels, 1, chunk.pixels, static_cast<int>(columns), kernels.panelWidth,
                packed + packedBlocks_[i].b);
    t.b = inPlace ? rows : packed;
    t.blockCount = chunk.images * chunk.lines;
    t.k = chunk.pixels;
    for (const Tile &tile : tiles_) {
      t.a = scratch + tile.offset;
      t.out = sums + tile.row * width;
      t.in = c == begin ? nullptr : t.out;
      kernels.choose(AMode::kLanePanel, tile.rows, columns).run(t);
    }
  }
}

void GroupedGradient::addPlaces(int64_t panel, int64_t end, int64_t leaf, const float *x, const float *dy,
                                float *sums) const noexcept {
  const int64_t width = panelWidth(), chunks = windows_.chunks();
  std::fill_n(sums, (end - panel) * static_cast<int64_t>(panelFloats_), 0.0f);
  for (int64_t c = chunks * leaf / leaves_; c < chunks * (leaf + 1) / leaves_; ++c)
    depthwise_->add(windows_.chunk(c), panel * width, std::min(end * width, shape_.groups), x, dy, sums);
}

void GroupedGradient::run(int task, const float *x, const float *dy, float *packedWeights, const Update &update,
                          float *scratch, float *shared) const noexcept {
  const Rounds::Place place = rounds_.place(task);
  const auto floats = static_cast<int64_t>(panelFloats_);
  const int64_t ranges = place.round == 0 ? ranges_ : panels_, range = place.task % ranges, leaf = place.task / ranges;
  const int64_t panel = panels_ * range / ranges, end = panels_ * (range + 1) / ranges;
  float *total = scratch + packedFloats_;
  if (place.round == 0) {
    float *sums = leaves_ > 1 ? shared + (leaf * panels_ + panel) * floats : total;
    if (depthwise_)
      addPlaces(panel, end, leaf, x, dy, sums);
    else
      addLeaf(panel, leaf, x, dy, sums, scratch);
    if (leaves_ > 1) return;
  } else {
    std::copy_n(shared + panel * floats, floats, total);
    for (int64_t other = 1; other < leaves_; ++other) {
      const float *sums = shared + (other * panels_ + panel) * floats;
      for (int64_t i = 0; i < floats; ++i) total[i] += sums[i];
    }
  }
  const int64_t width = panelWidth(), channels = shape_.groups * shape_.columns;
  for (int64_t p = panel; p < end; ++p)
    applyPanelUpdate(update, total + (p - panel) * floats, width, packedWeights + p * floats, width,
                     static_cast<int>(floats / width), std::min(width, channels - p * width));
}

}  // namespace popart::cpu
