// Loop nest of the window sums. A place is one output pixel.
//
//   task = (group, chunk of output places, range of panels)
//     strip of the chunk's windows (zero-padded copy), where the image cannot be read in place
//     for some panels at a time                    their weights of a pass stay in the second level cache
//       for each pass over (tap, channel)        weights of 16 bits are packed for it
//         for each tile of places of one line      rows of A evenly spaced
//           for each panel: tile kernel            partial sums between passes live in scratch, never in y
//
// The panels of all results follow each other.
#include "backends/cpu/kernels/conv_product.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/pairs.hpp"
#include "backends/cpu/kernels/window_dots.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

// k per pass: the rows of a tile stay in the first level cache. Rows that are neighbouring windows share most of their
// floats.
constexpr int64_t kLongestPass = 256, kLongestSharedPass = 576;
constexpr int64_t kLeastAheadSteps = 192;
constexpr int64_t kTilesPerChunk = 16;  // row tiles that share one read of a pass's weights
constexpr int64_t kTasksPerThread = 4;  // so that dynamic claiming balances the load
constexpr double kMovedFloat = 6;       // multiply-adds in the time to load a float from a cache (executable/cost.cpp)
// As a fraction of the elapsed time: smaller gains are within the model's error.
constexpr double kWorthBalancing = 0.95;

}  // namespace

// Where the results of a group are written.
struct WindowProduct::Place {
  void *y;  // element 0 of all groups
  const Epilogue *epilogue;
  int64_t group;
  AheadRanges nextInputs;  // inputs of the chunk after this one
};

WindowProduct::WindowProduct(WindowProductShape shape, int threads, DataType type, Input x)
    : shape_(std::move(shape)), type_(type), kernels_(&microKernels()) {
  if (type == DataType::BFLOAT16 && bfloat16Kernels() && shape_.window.channels % 2 == 0) usePairs();
  panelsOfResult_ = ceilDiv(shape_.columns, panelWidth());
  panels_ = panelsOfResult_ * static_cast<int64_t>(shape_.results.size());
  if (shape_.yStride == 0) shape_.yStride = channelsOfY();
  const Spatial &size = shape_.size;
  for (const WindowResult &r : shape_.results) {
    const int64_t place = (r.position[0] * size[1] + r.position[1]) * size[2] + r.position[2];
    targets_.push_back({r.row * panelWidth(), place * shape_.yStride});
  }
  const double elapsed = chooseChunks(std::max(1, threads), std::max<int64_t>(1, panels_));
  if (x == Input::kComputed) {  // once, in tasks of all columns, instead of in a pass over memory
    const double pass =
        kMovedFloat * 2 * static_cast<double>(shape_.window.n * volume(shape_.window.in) * shape_.window.channels);
    isWorthComputing_ = chooseChunks(std::max(1, threads), 1) <= elapsed + pass;
  }
  widensStrip_ = isHalf(type) && perStep_ == 1 && !shape_.tapRows.empty();  // without taps, nothing is read
  windows_ = Windows(shape_.window, chunkSize_, microKernels().tileRows,
                     widensStrip_ || x == Input::kComputed ? Windows::Reading::kStrip : Windows::Reading::kInPlace);
  makePasses();
  // Tiles of half a panel are limited by their loads, and each prefetch counts as one.
  const bool isNarrow = 2 * shape_.columns <= panelWidth();
  asksForResults_ = !isNarrow && shape_.groups == 1 && shape_.step == Spatial{1, 1, 1} &&
                    shape_.size == shape_.window.out && shape_.yStride == channelsOfY();
  fillsLines_ = shape_.groups == 1 && fillsLines();
  outgrowsCache_ = outgrowsCache(shape_.window.n * volume(shape_.size) * channelsOfY(), type_);
  // Weights of a pass and the strip stay in the second level cache. If there are several results, their many panels'
  // partial sums stay there as well.
  const int64_t partialRows = passes_.size() > 1 && shape_.results.size() > 1 ? chunkSize_.places() : 0;
  const int64_t panelBytes =
      (std::max(longestPass(), kLongestPass) + partialRows) * panelWidth() * static_cast<int64_t>(sizeof(float));
  panelsAtOnce_ =
      PanelRanges::rounded(std::min(panels_, panelBytesAtOnce() * 2 / 3 / panelBytes), panelsTogether(chunkSize_));
  if (passes_.size() > 1) partialFloats_ = static_cast<size_t>(chunkSize_.places() * panelsAtOnce_ * panelWidth());
  if (isHalf(type)) makePackedBlocks();
  if (shape_.anySumOrder && type == DataType::FLOAT && shape_.results.size() == 1 &&
      shape_.columns <= kMostDotColumns && blockElements_ >= kFewestDotElements)
    dotFloats_ = blocks_.size() * static_cast<size_t>(blockElements_ * shape_.columns);
  // Chunks after the first of a thread find their weights in its cache, if they fit.
  const int64_t splitBytes = panelRanges().longest() * panelWidth() * shape_.weightRows *
                             static_cast<int64_t>(sizeof(float)) / static_cast<int64_t>(shape_.results.size());
  const bool areReadOnce = shape_.groups * windows_.chunks() <= std::max(1, threads);
  // Prefetching shares of rows takes time, which matters for short tiles.
  const bool isLong = panels_ > 1 && passes_.back().blockCount * passes_.back().k >= kLeastAheadSteps;
  looksAheadInX_ =
      isLong && shape_.groups == 1 && !widensStrip_ && shape_.window.in[0] == 1 && shape_.window.out[0] == 1;
  looksAhead_ = !isHalf(type) && (areReadOnce || splitBytes > secondLevelCacheBytes() / 2);
}

bool WindowProduct::takesRows() const {
  constexpr int64_t kFewestChannels = 32;
  constexpr double kMostCopies = 1.5;  // of a pixel, on average
  const WindowShape &w = shape_.window;
  return type_ == DataType::FLOAT && shape_.groups == 1 && isWorthComputing_ && w.channels >= kFewestChannels &&
         static_cast<double>(windows_.chunks() * windows_.stripPixels()) <=
             kMostCopies * static_cast<double>(w.n * volume(w.in));
}

// A pair of channels replaces a float, so images and strips of pairs have the layout of images and strips of floats.
void WindowProduct::usePairs() {
  kernels_ = bfloat16Kernels();
  perStep_ = 2;
  shape_.window.channels /= 2;
  shape_.window.pixelStride /= 2;
  shape_.weightRows /= 2;
  for (int64_t &row : shape_.tapRows) row /= 2;
  for (WindowResult &result : shape_.results) result.row /= 2;
}

int64_t WindowProduct::longestPass() const {
  int64_t longest = 0;
  for (const Pass &pass : passes_) longest = std::max(longest, pass.blockCount * pass.k);
  return longest;
}

void WindowProduct::makePackedBlocks() {
  for (Pass &pass : passes_) {
    pass.firstPacked = packedBlocks_.size();
    for (int64_t b = 0; b < pass.blockCount; ++b)
      packedBlocks_.push_back({blocks_[pass.firstBlock + static_cast<size_t>(b)].a, b * pass.k * panelWidth()});
  }
  packedFloats_ = static_cast<size_t>(longestPass() * panelsAtOnce_ * panelWidth());
}

double WindowProduct::products() const {
  const WindowShape &w = shape_.window;
  return static_cast<double>(w.n * volume(w.out) * shape_.groups) *
         static_cast<double>(volume(w.taps) * w.channels * panels_ * panelWidth());
}

double WindowProduct::share(int task) const {
  const int64_t split = task % splits_, chunk = task / splits_ % windows_.chunks();
  const PanelRanges ranges = panelRanges();
  const int64_t panels = ranges.begin(split + 1) - ranges.begin(split);
  const WindowShape &w = shape_.window;
  return static_cast<double>(windows_.chunk(chunk).places() * panels) /
         static_cast<double>(w.n * volume(w.out) * panels_ * shape_.groups);
}

// First chooses, from the ways to split the work into enough tasks, the one with the lowest cost of moved bytes and of
// threads idle at the end: every chunk reads all weights, every range of panels reads all windows. Then chooses a way
// that ends sooner, if threads would still wait for a long task. Returns the elapsed time, in multiply-adds.
double WindowProduct::chooseChunks(int threads, int64_t mostSplits) {
  const WindowShape &w = shape_.window;
  const double places = static_cast<double>(w.n * volume(w.out)), rows = static_cast<double>(shape_.weightRows);
  const double multiplyAdds = places * static_cast<double>(volume(w.taps) * w.channels * panels_ * panelWidth());
  const int64_t most = static_cast<int64_t>(2 * multiplyAdds) / kSmallestTaskFlops;
  const int64_t wanted = std::clamp<int64_t>(most, 1, ceilDiv(threads * kTasksPerThread, shape_.groups));
  const int64_t workers = std::min<int64_t>(threads, wanted * shape_.groups);
  const double weights = rows * static_cast<double>(panelsOfResult_ * panelWidth());
  const double inputs = static_cast<double>(w.n * volume(w.in) * w.channels) *
                        (Windows(w, {}, microKernels().tileRows).isReadInPlace() ? 1.0 : 2.0);
  const auto moved = [&](int64_t chunks, int64_t splits) {
    return static_cast<double>(chunks) * weights + static_cast<double>(splits) * inputs;
  };
  // Elapsed time relative to kernels for several panels and tasks that all threads finish at the same time.
  const auto waiting = [&](const ChunkSize &size, int64_t chunks, int64_t splits) {
    const PanelRanges ranges(panels_, splits, panelsTogether(size));
    const double mean = static_cast<double>(panels_) / static_cast<double>(splits),
                 turns = static_cast<double>(ceilDiv(shape_.groups * chunks * splits, workers)),
                 panels = turns * mean + std::min(turns, 2.0) * (static_cast<double>(ranges.longest()) - mean);
    return panels * static_cast<double>(workers * size.places()) * (ranges.keepsTogether() ? 1.0 : kOnePanelCost) /
           std::max(1.0, places * static_cast<double>(panels_ * shape_.groups));
  };
  const auto elapsed = [&](const ChunkSize &size, int64_t chunks, int64_t splits) {
    return multiplyAdds * waiting(size, chunks, splits) + kMovedFloat * moved(chunks, splits);
  };
  // Calls visit(size, chunks, fewest splits) for each chunk size.
  const auto forEachSize = [&](auto &&visit) {
    ChunkSizes sizes(w, kTilesPerChunk * microKernels().tileRows, LongLines::kSeveral);
    for (ChunkSize size; sizes.next(size);) {
      const int64_t chunks = std::max<int64_t>(1, Windows(w, size).chunks());
      visit(size, chunks, std::clamp<int64_t>(ceilDiv(wanted, chunks), 1, mostSplits));
    }
  };
  double best = -1.0, now = 0;
  forEachSize([&](const ChunkSize &size, int64_t chunks, int64_t fewest) {
    for (int64_t splits = fewest; splits <= std::min(2 * fewest - 1, mostSplits); ++splits) {
      const double missing = static_cast<double>(wanted) / static_cast<double>(std::min(wanted, chunks * splits));
      const double cost = moved(chunks, splits) * missing * waiting(size, chunks, splits);
      if (best >= 0.0 && cost >= best) continue;
      best = cost;
      now = elapsed(size, chunks, splits);
      chunkSize_ = size;
      splits_ = splits;
    }
  });
  double least = now * kWorthBalancing;
  forEachSize([&](const ChunkSize &size, int64_t chunks, int64_t fewest) {
    for (int64_t splits = fewest; splits <= mostSplits && chunks * splits <= std::max(most, wanted); ++splits) {
      const double time = elapsed(size, chunks, splits);
      if (time >= least) continue;
      least = now = time;
      chunkSize_ = size;
      splits_ = splits;
    }
  });
  return now;
}

// One block per tap row if a row's taps are contiguous on both sides, else one per tap.
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
  blockElements_ = k;
  const auto count = static_cast<int64_t>(blocks_.size());
  const int64_t longest = joined && windows_.placeStep() < k ? kLongestSharedPass : kLongestPass;
  if (k > longest) {
    const int64_t pieces = ceilDiv(k, longest);
    for (int64_t b = 0; b < count; ++b)
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t begin = k * piece / pieces;
        passes_.push_back({static_cast<size_t>(b), 1, k * (piece + 1) / pieces - begin, begin});
      }
  } else {
    const int64_t perPass = ceilDiv(count, std::max<int64_t>(1, ceilDiv(count, longest / std::max<int64_t>(1, k))));
    for (int64_t b = 0; b < count; b += perPass)
      passes_.push_back({static_cast<size_t>(b), std::min(perPass, count - b), k, 0});
  }
  if (passes_.empty()) passes_.push_back({0, 0, 0, 0});  // no taps: the sums are zero
  for (Pass &pass : passes_) {
    int64_t count = 0;
    const ptrdiff_t floats = pass.k * panelWidth();
    const auto isNext = [&](size_t b) {
      return blocks_[b].b == blocks_[pass.firstBlock].b + static_cast<ptrdiff_t>(b - pass.firstBlock) * floats;
    };
    while (count < pass.blockCount && isNext(pass.firstBlock + static_cast<size_t>(count))) ++count;
    pass.contiguous = count * floats;
  }
}

void WindowProduct::emit(const Place &to, ptrdiff_t at, const float *sums, ptrdiff_t stride, int rows, int64_t column,
                         int64_t columns) const noexcept {
  const ptrdiff_t step = shape_.step[2] * shape_.yStride, group = to.group * shape_.columns;
  const Epilogue e = to.epilogue->at(group + at + column, group + column);
  applyEpilogue(e, sums, stride, elementAt(to.y, group + at + column, e.type), step, rows, columns);
}

// Weights of 16 bits are packed for the pass; floats are read in place.
WindowProduct::Weights WindowProduct::weightsOf(const Pass &pass, const void *group, int64_t firstPanel,
                                                int64_t endPanel, float *packed) const noexcept {
  const int64_t width = panelWidth();
  if (!isHalf(type_))
    return {nullptr,
            static_cast<const float *>(group),
            blocks_.data() + pass.firstBlock,
            shape_.weightRows * width,
            firstPanel,
            endPanel};
  const int64_t floats = pass.k * width;
  float *to = packed;
  for (int64_t p = firstPanel; p < endPanel; ++p)
    for (size_t b = pass.firstBlock; b < pass.firstBlock + static_cast<size_t>(pass.blockCount); ++b, to += floats) {
      const uint16_t *from = static_cast<const uint16_t *>(group) +
                             perStep_ * (weightsAt(columnPanel(p)) + blocks_[b].b + pass.offset * width);
      const auto columns = static_cast<int>(width);
      if (perStep_ == 2)
        packPairPanel(from, width, 1, 2 * pass.k, columns, columns, to);
      else
        widenPanel(type_, from, width, 1, pass.k, columns, columns, to);
    }
  return {packed, nullptr, packedBlocks_.data() + pass.firstPacked, pass.blockCount * floats, firstPanel, endPanel};
}

// Lets a row tile prefetch its share of the weights of the next pass, for the panels that `kernel` reads. In the last
// pass, these are the weights of the first pass for the panels after those of `weights`.
void WindowProduct::lookAhead(const Pass &pass, const RowTile &rowTile, const Weights &weights, int64_t panel,
                              const MicroKernels::Choice &kernel, TileArgs &tile) const noexcept {
  tile.next = nullptr;
  if (!looksAhead_ || rowTile.count < 2) return;
  const bool isLast = &pass == &passes_.back();
  const Pass &next = isLast ? passes_.front() : *(&pass + 1);
  const int64_t at = panel + (isLast ? weights.endPanel - weights.firstPanel : 0);
  if (at >= panels_ || next.blockCount == 0) return;
  const ColumnPanel to = columnPanel(at);
  askAhead(tile, rowTile.index, rowTile.count, kernel.parts * pass.blockCount * (pass.k / kStepsPerLine),
           {weights.group + weightsAt(to) + next.offset * panelWidth() + blocks_[next.firstBlock].b, next.contiguous,
            std::min<int64_t>(kernel.panels, panelsOfResult_ - to.panel), weights.panelStride});
}

// The results that the next row tile of the chunk writes, if tiles prefetch them; they do not if they prefetch weights.
ResultsAhead WindowProduct::resultsAhead(const Weights &weights, const Place &to, const RowTile &rowTile,
                                         int rows) const noexcept {
  if (looksAhead_ || rowTile.index + 1 == rowTile.count || !asksForResults_) return {};
  if (weights.firstPanel > 0 || weights.endPanel < panels_) return {};
  const int64_t elements = rows * shape_.columns;
  return {*to.epilogue, to.y, rowTile.at + elements, elements, panels_};
}

// Whether, everywhere in y, results follow each other in groups as long as the step.
bool WindowProduct::fillsLines() const {
  const auto perLine = static_cast<size_t>(shape_.step[2]);
  if (perLine < 2 || targets_.size() % perLine != 0) return false;
  for (size_t r = 0; r < targets_.size(); ++r)
    if (targets_[r].y != targets_[r - r % perLine].y + static_cast<ptrdiff_t>(r % perLine) * shape_.columns)
      return false;
  return true;
}

// The results that the next row tile of the line writes to the line of y whose first result is `result`.
ResultsAhead WindowProduct::resultsOfLine(const Weights &weights, const Place &to, const RowTile &rowTile, int rows,
                                          size_t result) const noexcept {
  if (looksAhead_ || rowTile.nextRows == 0) return {};
  const int64_t perLine = shape_.step[2], panels = perLine * panelsOfResult_,
                first = static_cast<int64_t>(result) * panelsOfResult_;
  if (first < weights.firstPanel || first + panels > weights.endPanel) return {};
  const int64_t pixel = perLine * shape_.columns;
  return {*to.epilogue, to.y, rowTile.at + targets_[result].y + rows * pixel, rowTile.nextRows * pixel, panels};
}

void WindowProduct::runTile(const Pass &pass, const float *a, int rows, const Weights &weights, float *partial,
                            const Place &to, const RowTile &rowTile, TileArgs &tile) const noexcept {
  const int64_t width = kernels_->panelWidth;
  const bool first = &pass == &passes_.front(), last = &pass == &passes_.back();
  tile.a = a + pass.offset;
  const ptrdiff_t step = shape_.step[2] * shape_.yStride;
  const auto end = last ? tileEnd(*to.epilogue, step) : std::nullopt;
  ResultsAhead results = last ? resultsAhead(weights, to, rowTile, rows) : ResultsAhead();
  const void *asked = !results.isEmpty() && rowTile.index > 0 ? to.y : nullptr;  // the tile before has prefetched it
  const int64_t steps = pass.blockCount * (pass.k / kStepsPerLine);
  const ptrdiff_t partialStride = (weights.endPanel - weights.firstPanel) * width;
  alignas(64) float finished[kMaxTileFloats];
  ColumnPanel of = columnPanel(weights.firstPanel);
  int64_t firstOfResults = 0;
  for (int64_t p = weights.firstPanel; p < weights.endPanel;) {
    const int64_t column = of.panel * width, sums = (p - weights.firstPanel) * width;
    const Target &target = targets_[of.result];
    const auto choice =
        kernels_->choose(AMode::kRows, rows, std::min((weights.endPanel - p) * width, shape_.columns - column));
    const int64_t columns = std::min(choice.panels * width, shape_.columns - column);
    tile.b = weights.group ? weights.group + weightsAt(of) + pass.offset * width
                           : weights.packed + (p - weights.firstPanel) * tile.bPanelStride;
    tile.in = first ? nullptr : partial + sums;
    tile.inStride = partialStride;
    const bool plain = end && columns == choice.width;
    const ptrdiff_t group = to.group * shape_.columns + column, at = rowTile.at + target.y, place = group + at;
    tile.end = plain ? end->at(place, group) : TileEnd();
    float *y = static_cast<float *>(to.y) + place;
    tile.out = !last ? partial + sums : plain ? y : finished;
    tile.outStride = !last ? partialStride : plain ? step : choice.width;
    if (last && fillsLines_ && of.panel == 0 && of.result % static_cast<size_t>(shape_.step[2]) == 0) {
      results = resultsOfLine(weights, to, rowTile, rows, of.result);
      firstOfResults = p;
      asked = !results.isEmpty() && !rowTile.isFirst ? to.y : nullptr;
    }
    lookAhead(pass, rowTile, weights, p, choice, tile);
    tile.ahead = nullptr;
    if (last && p == weights.firstPanel && to.nextInputs.floats > 0)
      askEvenly(tile, rowTile.index, rowTile.count, choice.parts, steps, to.nextInputs);
    if (!results.isEmpty()) results.ask(tile, p - firstOfResults, choice.panels, choice.parts * steps);
    if (last) prefetchOperands(*to.epilogue, asked, place, step, rows, columns);
    if (last && outgrowsCache_ && !asked) prefetchResults(*to.epilogue, to.y, place, step, rows, columns);
    choice.run(tile);
    if (last && !plain) emit(to, at, finished, choice.width, rows, column, columns);
    p += choice.panels, of.panel += choice.panels;
    if (of.panel == panelsOfResult_) of = {of.result + 1, 0};
  }
}

// The largest number of consecutive columns of one result among the columns of these panels.
int64_t WindowProduct::columnsTogether(int64_t firstPanel, int64_t endPanel) const noexcept {
  const int64_t first = columnPanel(firstPanel).panel, count = endPanel - firstPanel;
  const int64_t begun = std::min(panelsOfResult_ - first, count), next = std::min(panelsOfResult_, count - begun);
  return begun >= next ? std::min(shape_.columns - first * panelWidth(), begun * panelWidth())
                       : std::min(shape_.columns, next * panelWidth());
}

// Joins lines, and images, whose windows and results are contiguous into one line.
WindowChunk WindowProduct::joined(const WindowChunk &chunk) const noexcept {
  WindowChunk c = chunk;
  const Spatial &step = shape_.step, &size = shape_.size, &out = shape_.window.out;
  if (step != Spatial{1, 1, 1} || size != out || c.pixels != out[2]) return c;
  if (c.lines > 1 && windows_.lineStep() != c.pixels * windows_.placeStep()) return c;
  if (c.images > 1 && (c.lines != out[1] || windows_.imageStride() != c.lines * c.pixels * windows_.placeStep())) {
    c.pixels *= c.lines, c.lines = 1;
    return c;
  }
  c.pixels *= c.lines * c.images, c.lines = c.images = 1;
  return c;
}

ptrdiff_t WindowProduct::placeInY(const WindowChunk &chunk, int64_t image, int64_t line, int64_t pixel) const noexcept {
  const Spatial &first = shape_.first, &step = shape_.step, &size = shape_.size;
  const int64_t row = ((chunk.image + image) * size[0] + first[0] + chunk.depth * step[0]) * size[1] + first[1] +
                      (chunk.line + line) * step[1];
  return (row * size[2] + first[2] + (chunk.pixel + pixel) * step[2]) * shape_.yStride;
}

// A few output channels, as dot products; `weights`: of the group.
void WindowProduct::runDots(const WindowChunk &given, const float *view, const float *weights, const Place &to,
                            float *columns) const noexcept {
  constexpr int64_t kRowsAtOnce = 64;
  const WindowChunk chunk = joined(given);
  const int64_t ofColumn = static_cast<int64_t>(blocks_.size()) * blockElements_, width = panelWidth();
  for (size_t b = 0; b < blocks_.size(); ++b)
    for (int64_t k = 0; k < blockElements_; ++k)
      for (int64_t c = 0; c < shape_.columns; ++c)
        columns[c * ofColumn + static_cast<int64_t>(b) * blockElements_ + k] = weights[blocks_[b].b + k * width + c];
  alignas(64) float sums[kRowsAtOnce * kMostDotColumns];
  WindowDots dots{nullptr,
                  windows_.placeStep(),
                  0,
                  blocks_.data(),
                  static_cast<int64_t>(blocks_.size()),
                  blockElements_,
                  columns,
                  static_cast<int>(shape_.columns),
                  sums};
  for (int64_t image = 0; image < chunk.images; ++image)
    for (int64_t line = 0; line < chunk.lines; ++line)
      for (int64_t pixel = 0; pixel < chunk.pixels; pixel += dots.rows) {
        dots.rows = std::min(kRowsAtOnce, chunk.pixels - pixel);
        dots.a = view + image * windows_.imageStride() + line * windows_.lineStep() + pixel * windows_.placeStep();
        windowDots(dots);
        emit(to, placeInY(chunk, image, line, pixel), sums, shape_.columns, static_cast<int>(dots.rows), 0,
             shape_.columns);
      }
}

void WindowProduct::runPanels(const WindowChunk &given, const float *view, const void *group, int64_t firstPanel,
                              int64_t endPanel, const Place &to, float *partials) const noexcept {
  const WindowChunk chunk = joined(given);
  const RowTiles tiles(chunk.pixels, columnsTogether(firstPanel, endPanel));
  for (const Pass &pass : passes_) {
    const Weights weights = weightsOf(pass, group, firstPanel, endPanel, partials + partialFloats_);
    TileArgs tile;  // the part that all row tiles of the pass share
    tile.aStride = windows_.placeStep();
    tile.bStride = kernels_->panelWidth;
    tile.bPanelStride = weights.panelStride;
    tile.blocks = weights.blocks;
    tile.blockCount = pass.blockCount;
    tile.k = pass.k;
    float *partial = partials;
    RowTile rowTile{0, tiles.count() * chunk.images * chunk.lines, 0};
    for (int64_t image = 0; image < chunk.images; ++image) {
      for (int64_t line = 0; line < chunk.lines; ++line) {
        const float *a = view + image * windows_.imageStride() + line * windows_.lineStep();
        for (int64_t t = 0, begin = 0, end = tiles.begin(1), nextEnd = 0; t < tiles.count();
             ++t, ++rowTile.index, begin = end, end = nextEnd) {  // a tile's begin takes divisions
          const auto rows = static_cast<int>(end - begin);
          nextEnd = t + 1 < tiles.count() ? tiles.begin(t + 2) : end;
          rowTile.nextRows = nextEnd - end;
          rowTile.isFirst = t == 0;
          rowTile.at = placeInY(chunk, image, line, begin);
          runTile(pass, a + begin * windows_.placeStep(), rows, weights, partial, to, rowTile, tile);
          partial += rows * (endPanel - firstPanel) * microKernels().panelWidth;
        }
      }
    }
  }
}

void WindowProduct::run(int task, const void *x, const void *weights, void *y, const Epilogue &epilogue, float *scratch,
                        RowProgram *pixels) const noexcept {
  const int64_t split = task % splits_, rest = task / splits_;
  const int64_t chunks = windows_.chunks(), group = rest / chunks;
  const WindowChunk chunk = windows_.chunk(rest % chunks);
  float *strip = scratch + partialFloats_ + packedFloats_ + dotFloats_;
  const ptrdiff_t channel = group * shape_.window.channels;
  const float *view = pixels         ? windows_.compute(chunk, *pixels, strip)
                      : widensStrip_ ? windows_.widen(chunk, type_, static_cast<const uint16_t *>(x) + channel, strip)
                                     : windows_.read(chunk, static_cast<const float *>(x) + channel, strip);
  const void *groupWeights =
      elementAt(weights, perStep_ * group * panelsOfResult_ * shape_.weightRows * panelWidth(), type_);
  const PanelRanges ranges = panelRanges();
  Place to{y, &epilogue, group, {}};
  if (dotFloats_ > 0) return runDots(chunk, view, static_cast<const float *>(groupWeights), to, scratch);
  const int64_t begin = ranges.begin(split), end = ranges.begin(split + 1);
  for (int64_t p = begin; p < end; p += panelsAtOnce_) {
    const bool isLast = p + panelsAtOnce_ >= end && split + 1 == splits_ && rest + 1 < chunks;
    if (isLast && looksAheadInX_) {
      const Windows::InputRows rows = windows_.newRows(chunk, windows_.chunk(rest + 1));
      to.nextInputs = {static_cast<const float *>(x) + rows.first, rows.floats, rows.count, rows.stride};
    }
    runPanels(chunk, view, groupWeights, p, std::min(end, p + panelsAtOnce_), to, scratch);
  }
}

}  // namespace popart::cpu
