// IntegerConv on the tiles of kernels/quad_product, channels last: each place of the result is a row that is multiplied
// by the packed weights (layouts/conv_quads.hpp), as in a matrix product. A task copies the windows of a few places, in
// whole runs of channels, unless they are already contiguous rows in memory; multiplies them by the panels; and
// finishes the sums (bias, scale, quantisation) while they are in cache. Convolutions with one channel per group
// multiply vectors of channels, and copy nothing.
#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/integer_products.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/quad_block.hpp"
#include "backends/cpu/kernels/transpose.hpp"
#include "backends/cpu/layouts/conv_quads.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/window_runs.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kRowsBytes = int64_t{3} << 16;  // rows that are copied together stay in cache
constexpr int64_t kSumColumns = 128;  // columns of sums that are finished together; a multiple of every panel's width

struct IntegerConvProblem {
  WindowRuns runs;
  int64_t images, inSize, channels, outChannels;  // of all groups
  QuadFilters filters;
  const ConvQuads *layout;
  bool xIsSigned, wIsSigned, hasXZero, hasWZero, wZeroIsEach;
  bool isPlain;  // whether the result is in C order
  QuadEnding ending;
};

int64_t aligned(int64_t bytes) { return ceilDiv(bytes, int64_t{64}) * 64; }

// Shared by both kernels: rows are places of the result, of all images or, for results in C order, of one image.
class IntegerConvKernel : public executable::HostKernel {
 public:
  explicit IntegerConvKernel(IntegerConvProblem problem)
      : p_(std::move(problem)),
        planes_(p_.isPlain ? p_.images : 1),
        rows_(p_.runs.places() * (p_.isPlain ? 1 : p_.images)),
        columns_(p_.filters.columns()),
        panels_(ceilDiv(columns_, int64_t{p_.layout->panel()}) * p_.layout->panel()) {}

 protected:
  // The value of x in the padding; leftZero: the same after the flip to the sign that tiles take.
  uint8_t padding(const KernelArgs &args) const noexcept {
    return p_.hasXZero ? *static_cast<const uint8_t *>(args.in[2]) : uint8_t{0};
  }
  uint8_t flip() const { return leftMove(p_.xIsSigned).flip; }
  int32_t leftZero(const KernelArgs &args) const noexcept { return int32_t{uint8_t(padding(args) ^ flip())}; }
  const uint8_t *end(const KernelArgs &args) const noexcept {
    return static_cast<const uint8_t *>(args.in[0]) + p_.images * p_.inSize * p_.channels;
  }
  // Zero points of `count` columns, with zeros after the last one; null if all are zero. `channel`: of the first
  // column.
  const int32_t *rightZeros(const KernelArgs &args, int64_t channel, int32_t *numbers) const noexcept {
    const QuadZeros zeros =
        QuadZeros{p_.hasWZero ? args.in[3] : nullptr, p_.wIsSigned, p_.wZeroIsEach, rightMove(p_.wIsSigned).moved}.from(
            channel);
    if (!zeros.any()) return nullptr;
    for (int64_t c = 0; c < panels_; ++c) numbers[c] = c < columns_ ? zeros.at(c) : 0;
    return numbers;
  }
  bool hasRightZeros() const { return p_.hasWZero || !p_.wIsSigned; }
  // Finishes the sums of `count` rows from `row` of all rows on, and of `columns` channels from `channel` on, and
  // writes them.
  void finish(const KernelArgs &args, int32_t *sums, int64_t sumStride, int64_t row, int64_t count, int64_t channel,
              int64_t columns) const noexcept {
    const QuadFinish finish = p_.ending.of(args).from(channel);
    const int64_t bytes = p_.ending.elementBytes();
    auto *out = static_cast<char *>(args.out[0]);
    if (!p_.isPlain)
      return finishSums(finish, sums, sumStride, count, columns, out + (row * p_.outChannels + channel) * bytes,
                        p_.outChannels);
    if (!p_.ending.isStore()) finishSums(finish, sums, sumStride, count, columns, sums, sumStride);
    const int64_t places = p_.runs.places(), image = row / places;
    transpose(sums, sumStride,
              reinterpret_cast<int32_t *>(out) + (image * p_.outChannels + channel) * places + row % places, places,
              count, columns);
  }

  const IntegerConvProblem p_;
  const int64_t planes_, rows_;     // rows per plane
  const int64_t columns_, panels_;  // per matrix; panels_: columns up to whole panels
};

class QuadConvKernel final : public IntegerConvKernel {
 public:
  QuadConvKernel(IntegerConvProblem problem, int threads)
      : IntegerConvKernel(std::move(problem)),
        tileRows_(quadKernels().rows),
        depth_(p_.filters.rows()),
        quads_(ceilDiv(depth_, int64_t{4})),
        readsInPlace_(p_.runs.isPointwise() && depth_ % 4 == 0 && flip() == 0 && !hasRightZeros()),
        rowStride_(readsInPlace_                       ? p_.channels
                   : aligned(quads_ * 4) / 64 % 2 == 0 ? aligned(quads_ * 4) + 64
                                                       : aligned(quads_ * 4)) {
    const int64_t most = std::clamp(kRowsBytes / std::max<int64_t>(1, rowStride_), tileRows_, kQuadRowsAtOnce);
    atOnce_ = most / tileRows_ * tileRows_;
    // At least four tasks for each thread; splits rows first, then columns.
    const int64_t wanted = int64_t{4} * threads, others = planes_ * p_.filters.matrices();
    const int64_t tiles = ceilDiv(ceilDiv(rows_ * others, wanted), tileRows_);
    taskRows_ = std::clamp(tiles * tileRows_, tileRows_, int64_t{4} * atOnce_);
    rowTasks_ = ceilDiv(rows_, taskRows_);
    const int64_t cuts = std::max<int64_t>(1, wanted / std::max<int64_t>(1, rowTasks_ * others));
    const int64_t panel = p_.layout->panel();
    taskColumns_ = std::max(panel, ceilDiv(ceilDiv(columns_, cuts), panel) * panel);
    columnTasks_ = ceilDiv(columns_, taskColumns_);
  }
  std::string name() const override { return readsInPlace_ ? "integer conv pointwise" : "integer conv"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, units())); }
  int64_t scratchBytes() const override {
    return aligned(kNumbers + panels_ * int64_t{sizeof(int32_t)}) + kSums + aligned(p_.runs.scratchBytes()) +
           (readsInPlace_ ? 0 : atOnce_ * rowStride_ + kQuadSlack);
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (units() == 0) return;
    const int64_t matrix = task / columnTasks_ / rowTasks_ % p_.filters.matrices(),
                  plane = task / columnTasks_ / rowTasks_ / p_.filters.matrices();
    const int64_t first = task / columnTasks_ % rowTasks_ * taskRows_, last = std::min(rows_, first + taskRows_);
    const int64_t column = task % columnTasks_ * taskColumns_;
    auto *numbers = static_cast<int32_t *>(args.scratch);
    std::fill_n(numbers, kQuadRowsAtOnce, -leftZero(args));
    Rows rows{.matrix = matrix,
              .column = column,
              .columns = std::min(taskColumns_, columns_ - column),
              .leftTerms = leftZero(args) == 0 ? nullptr : numbers,
              .rightZeros = rightZeros(args, matrix * columns_, numbers + 2 * kQuadRowsAtOnce)};
    for (int64_t row = first; row < last; row += atOnce_) {
      rows.first = plane * rows_ + row, rows.count = std::min(atOnce_, last - row);
      const uint8_t *x = static_cast<const uint8_t *>(args.in[0]) + matrix * p_.filters.joined * p_.filters.channels;
      rows.a = readsInPlace_ ? x + rows.first * rowStride_ : copyRows(args, x, rows);
      multiply(args, rows);
    }
  }

 private:
  // Scratch memory: -x_zero for each row, terms of rows, zero points of columns; sums; memory of WindowRuns; rows.
  static constexpr int64_t kNumbers = 2 * kQuadRowsAtOnce * int64_t{sizeof(int32_t)};
  static constexpr int64_t kSums = kQuadRowsAtOnce * kSumColumns * int64_t{sizeof(int32_t)};

  // Rows that are multiplied together, by columns of one matrix.
  struct Rows {
    int64_t matrix, column, columns;
    const int32_t *leftTerms, *rightZeros;  // rightZeros: for all columns of the matrix
    int64_t first = 0, count = 0;
    const uint8_t *a = nullptr;
  };

  int64_t units() const { return planes_ * p_.filters.matrices() * rowTasks_ * columnTasks_; }
  int32_t *rowTerms(const KernelArgs &args) const noexcept {
    return static_cast<int32_t *>(args.scratch) + kQuadRowsAtOnce;
  }
  uint8_t *sums(const KernelArgs &args) const noexcept {
    return static_cast<uint8_t *>(args.scratch) + aligned(kNumbers + panels_ * int64_t{sizeof(int32_t)});
  }

  const uint8_t *copyRows(const KernelArgs &args, const uint8_t *x, const Rows &rows) const noexcept {
    const QuadKernels &kernels = quadKernels();
    uint8_t *lines = sums(args) + kSums, *copies = lines + aligned(p_.runs.scratchBytes()), *to = copies;
    const uint8_t fill = padding(args);
    int32_t *terms = rowTerms(args);
    p_.runs.forPlaces(x, rows.first, rows.count, lines, [&](int64_t, std::span<const QuadRun> runs) {
      kernels.copyRuns(runs, fill, flip(), end(args), to);
      if (rows.rightZeros)
        *terms++ = static_cast<int32_t>(depth_) * leftZero(args) - kernels.copyRow(to, depth_, 0, to);
      to += rowStride_;
    });
    return copies;
  }

  void multiply(const KernelArgs &args, const Rows &rows) const noexcept {
    const int64_t panel = p_.layout->panel(), panelBytes = p_.layout->panelBytes(depth_);
    const uint8_t *weights =
        static_cast<const uint8_t *>(args.in[1]) + rows.matrix * p_.layout->matrixBytes(p_.filters);
    auto *scratch = reinterpret_cast<int32_t *>(sums(args));
    for (int64_t c = rows.column, end = rows.column + rows.columns; c < end; c += kSumColumns) {
      const int64_t columns = std::min(kSumColumns, end - c), channel = rows.matrix * columns_ + c;
      const uint8_t *first = weights + c / panel * panelBytes;
      const bool isStored = p_.ending.isStore() && !p_.isPlain;
      int32_t *out = isStored ? static_cast<int32_t *>(args.out[0]) + rows.first * p_.outChannels + channel : scratch;
      const int64_t outStride = isStored ? p_.outChannels : kSumColumns;
      multiplyRows({.a = rows.a,
                    .aStride = rowStride_,
                    .b = reinterpret_cast<const int8_t *>(first) + panel * int64_t{sizeof(int32_t)},
                    .panelStride = panelBytes,
                    .leftTerms = rows.leftTerms,
                    .columnSums = reinterpret_cast<const int32_t *>(first),
                    .sumStride = panelBytes / int64_t{sizeof(int32_t)},
                    .rowTerms = rows.rightZeros ? rowTerms(args) : nullptr,
                    .rightZeros = rows.rightZeros ? rows.rightZeros + c : nullptr,
                    .quads = quads_,
                    .rows = rows.count,
                    .columns = columns,
                    .out = out,
                    .outStride = outStride});
      if (!isStored) finish(args, scratch, kSumColumns, rows.first, rows.count, channel, columns);
    }
  }

  const int64_t tileRows_, depth_, quads_;
  const bool readsInPlace_;
  const int64_t rowStride_;
  int64_t atOnce_, taskRows_, rowTasks_, taskColumns_, columnTasks_;
};

// Convolutions with one channel per group.
class QuadChannelsKernel final : public IntegerConvKernel {
 public:
  QuadChannelsKernel(IntegerConvProblem problem, int threads)
      : IntegerConvKernel(std::move(problem)),
        quads_(ceilDiv(p_.filters.taps, int64_t{4})),
        atOnce_(p_.isPlain ? std::clamp(kRowsBytes / (panels_ * int64_t{sizeof(int32_t)}), int64_t{4}, int64_t{16})
                           : 1) {
    const int64_t tasks = std::clamp<int64_t>(rows_ * planes_ * columns_ * quads_ >> 12, 1, int64_t{8} * threads);
    taskRows_ = std::max<int64_t>(1, ceilDiv(rows_, ceilDiv(tasks, std::max<int64_t>(1, planes_))));
    rowTasks_ = ceilDiv(rows_, taskRows_);
  }
  std::string name() const override { return "integer conv depthwise"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, planes_ * rowTasks_)); }
  int64_t scratchBytes() const override {
    return (1 + atOnce_) * numberBytes() + paddingBytes() + p_.runs.scratchBytes();
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (planes_ * rowTasks_ == 0) return;
    auto *zeros = static_cast<int32_t *>(args.scratch);
    uint8_t *sums = static_cast<uint8_t *>(args.scratch) + numberBytes(), *paddings = sums + atOnce_ * numberBytes();
    std::fill_n(paddings, paddingBytes(), padding(args));
    QuadChannels place{.quads = quads_,
                       .channels = p_.channels,
                       .end = end(args),
                       .flip = flip(),
                       .padding = leftZero(args),
                       .b = static_cast<const uint8_t *>(args.in[1]),
                       .panelStride = p_.layout->panelBytes(p_.filters.taps),
                       .rightZeros = rightZeros(args, 0, zeros),
                       .out = reinterpret_cast<int32_t *>(sums)};
    const int64_t row = task % rowTasks_ * taskRows_, first = task / rowTasks_ * rows_ + row;
    const int64_t last = first + std::min(taskRows_, rows_ - row);
    int64_t waiting = 0;  // rows whose sums are not finished yet
    p_.runs.forTaps(static_cast<const uint8_t *>(args.in[0]), first, last - first, paddings, paddings + paddingBytes(),
                    [&](int64_t at, const uint8_t *const *taps) {
                      place.taps = taps;
                      place.out = reinterpret_cast<int32_t *>(sums) + waiting * panels_;
                      quadKernels().multiplyChannels(place);
                      if (++waiting < atOnce_ && at + 1 < last) return;
                      finish(args, reinterpret_cast<int32_t *>(sums), panels_, at + 1 - waiting, waiting, 0, columns_);
                      waiting = 0;
                    });
  }

 private:
  // Scratch memory: zero points of channels, sums of a few places, padding values, memory of WindowRuns.
  int64_t numberBytes() const { return aligned(panels_ * int64_t{sizeof(int32_t)}); }
  int64_t paddingBytes() const { return aligned(p_.channels + kQuadSlack); }

  const int64_t quads_, atOnce_;
  int64_t taskRows_, rowTasks_;
};

}  // namespace

const executable::Layout *integerConvWeights(const Op &op) {
  const bool mayJoin = op.inInfo(1).dataType() == DataType::INT8 && !op.hasInput(3);
  return convQuads(op.inShape(1), op.attrInt("group"), mayJoin ? JoinGroups::kYes : JoinGroups::kNo);
}

std::unique_ptr<executable::Kernel> createIntegerConv(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const executable::OperandDesc &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
  const auto hasInput = [&](size_t i) { return request.inputs.size() > i && request.inputs[i].connected; };
  const QuadEnding ending(request);
  const bool isPlain = !isChannelsLast(y);
  if (!isChannelsLast(x))
    return reason = "it takes channels last only: got " + executable::layoutName(x.layout), nullptr;
  if (isPlain && (y.layout != nullptr || ending.elementBytes() != 4))
    return reason = "it makes channels last only: got " + executable::layoutName(y.layout), nullptr;
  const executable::Layout *layout = integerConvWeights(op);
  if (w.layout != layout)
    return reason = "its weights must be " + layout->name() + ": got " + executable::layoutName(w.layout), nullptr;
  const QuadFilters filters = asConvQuads(layout)->filtersOf(w.info);
  const Shape in = ops::spatialShape(x.info.shape());
  const int64_t channels = x.info.shape()[1];
  IntegerConvProblem problem{.runs = WindowRuns(ops::windowOf(op.attributes()), in, ops::spatialShape(y.info.shape()),
                                                channels, filters.isDepthwise() ? 1 : filters.inChannels()),
                             .images = x.info.shape()[0],
                             .inSize = elementCount(in),
                             .channels = channels,
                             .outChannels = w.info.shape()[0],
                             .filters = filters,
                             .layout = asConvQuads(layout),
                             .xIsSigned = x.info.dataType() == DataType::INT8,
                             .wIsSigned = w.info.dataType() == DataType::INT8,
                             .hasXZero = hasInput(2),
                             .hasWZero = hasInput(3),
                             .wZeroIsEach = hasInput(3) && request.inputs[3].info.nelms() != 1,
                             .isPlain = isPlain,
                             .ending = ending};
  if (filters.isDepthwise()) return std::make_unique<QuadChannelsKernel>(std::move(problem), request.threads);
  return std::make_unique<QuadConvKernel>(std::move(problem), request.threads);
}

}  // namespace popart::cpu
