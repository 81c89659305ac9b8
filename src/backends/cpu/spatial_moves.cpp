// Data movement and sums of channels-last activations: changes of layout, concatenation and slices of channels (any
// selection of them: pick_channels.cpp), reductions over pixels, and broadcasts of one value per channel.
#include <algorithm>
#include <cstring>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/conv.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/transpose.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/pick_channels.hpp"
#include "backends/cpu/pixel_reduction.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/task_count.hpp"
#include "executable/executable.hpp"
#include "ops/rules.hpp"
#include "ops/shape/slice_range.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::Layout;

int64_t elementBytes(const executable::OperandDesc &o) { return getDataTypeInfo(o.info.dataType()).nbytes; }
int tasksFor(int64_t elements, int64_t most) { return static_cast<int>(taskCount(elements, int64_t{1} << 14, most)); }

// ---- Reorder ------------------------------------------------------------------------------------

// Between plain and channels last: each image is a transposition of (channels, pixels). A task moves a range of pixels,
// and only some channels if that range would be too short. Tasks are large if there are more than four for each thread.
class ReorderChannels final : public executable::HostKernel {
 public:
  enum class Direction { ToLast, ToPlain };
  ReorderChannels(const ChannelRows &rows, int64_t bytes, Direction direction, int threads)
      : rows_(rows),
        bytes_(bytes),
        prefetch_(prefetchFor(rows.n * rows.channels * rows.places * bytes)),
        direction_(direction) {
    constexpr int64_t kMany = int64_t{1} << 14, kFew = int64_t{1} << 12;  // least elements per task
    constexpr int64_t kRunBytes = 256;                                    // least contiguous bytes
    const int64_t image = rows.channels * rows.places;
    const bool enough = rows.n * (image / kMany) >= int64_t{4} * threads;
    const int64_t wanted = taskCount(image, enough ? kMany : kFew, image);
    const auto most = [&](int64_t size) { return std::max<int64_t>(1, size * bytes / kRunBytes); };
    placeParts_ = std::min(wanted, most(rows.places));
    channelParts_ = std::min(ceilDiv(wanted, placeParts_), most(rows.channels));
  }
  std::string name() const override {
    return direction_ == Direction::ToLast ? "reorder to channels last" : "reorder to plain";
  }
  int tasks() const override { return static_cast<int>(rows_.n * placeParts_ * channelParts_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t part = task % (placeParts_ * channelParts_), image = task / (placeParts_ * channelParts_);
    const Range places = rangeOf(rows_.places, part % placeParts_, placeParts_),
                channels = rangeOf(rows_.channels, part / placeParts_, channelParts_);
    const int64_t ofChannel = rows_.places * bytes_, ofPlace = rows_.channels * bytes_;  // strides in bytes
    const int64_t origin = image * rows_.channels * rows_.places * bytes_;
    const int64_t plain = origin + channels.begin * ofChannel + places.begin * bytes_,
                  last = origin + places.begin * ofPlace + channels.begin * bytes_;
    const char *x = static_cast<const char *>(args.in[0]);
    char *y = static_cast<char *>(args.out[0]);
    if (direction_ == Direction::ToLast)
      transpose(bytes_, {x + plain, ofChannel, channels.count, places.count}, {y + last, ofPlace}, prefetch_);
    else
      transpose(bytes_, {x + last, ofPlace, places.count, channels.count}, {y + plain, ofChannel}, prefetch_);
  }

 private:
  struct Range {
    int64_t begin, count;
  };
  // A range in whole cache lines; the last line may be partial.
  Range rangeOf(int64_t size, int64_t part, int64_t parts) const noexcept {
    const int64_t line = std::max<int64_t>(1, 64 / bytes_), lines = ceilDiv(size, line);
    const int64_t begin = lines * part / parts * line;
    return {begin, std::min(size, lines * (part + 1) / parts * line) - begin};
  }

  ChannelRows rows_;
  int64_t bytes_, placeParts_ = 1, channelParts_ = 1;
  Prefetch prefetch_;
  Direction direction_;
};

// Converts convolution weights from the layout of the forward pass to the transposed one of the data gradient.
class TransposeWeights final : public executable::HostKernel {
 public:
  explicit TransposeWeights(const ConvShape &shape) : transpose_(shape) {}
  std::string name() const override { return "transpose weights"; }
  int tasks() const override { return transpose_.tasks(); }
  void run(const KernelArgs &args, int task) const noexcept override { transpose_.run(task, args.in[0], args.out[0]); }

 private:
  ConvWeightTranspose transpose_;
};

ConvShape weightShape(const Shape &w, int64_t groups, DataType type) {
  ConvShape s;
  s.type = type;
  s.cout = w[0], s.cin = w[1] * groups, s.groups = groups, s.kernel = spatialOf(w);
  return s;
}

// Any other change of layout, through a plain temporary.
class ReorderAny final : public executable::HostKernel {
 public:
  ReorderAny(const TensorInfo &info, const Layout *from, const Layout *to) : info_(info), from_(from), to_(to) {}
  std::string name() const override {
    return "reorder " + executable::layoutName(from_) + " to " + executable::layoutName(to_);
  }
  int64_t scratchBytes() const override { return info_.nbytes(); }
  void run(const KernelArgs &args, int) const noexcept override {
    if (!to_) return executable::unpack(info_, from_, args.in[0], args.out[0]);
    if (!from_) return executable::pack(info_, to_, args.in[0], args.out[0]);
    executable::unpack(info_, from_, args.in[0], args.scratch);
    executable::pack(info_, to_, args.scratch, args.out[0]);
  }

 private:
  TensorInfo info_;
  const Layout *from_, *to_;
};

// From plain matrices to panels, panel by panel.
class PackMatrices final : public executable::HostKernel {
 public:
  PackMatrices(const PanelShape &shape, Transposed transposed, const Layout *to)
      : shape_(shape),
        rowStride_(transposed == Transposed::kYes ? 1 : shape.columns),
        columnStride_(transposed == Transposed::kYes ? shape.rows : 1),
        panels_(ceilDiv(shape.columns, panelWidth())),
        to_(to),
        tasks_(taskCount(shape.matrices * panels_ * shape.rows * panelWidth(), int64_t{1} << 14,
                         shape.matrices * panels_)) {}
  std::string name() const override { return "reorder plain to " + executable::layoutName(to_); }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const auto *from = static_cast<const float *>(args.in[0]);
    auto *to = static_cast<float *>(args.out[0]);
    const int64_t all = shape_.matrices * panels_;
    const int width = panelWidth();
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const int64_t matrix = i / panels_, column = i % panels_ * width;
      packPanel(from + matrix * shape_.rows * shape_.columns + column * columnStride_, rowStride_, columnStride_,
                shape_.rows, static_cast<int>(std::min<int64_t>(width, shape_.columns - column)), width,
                to + i * shape_.rows * width);
    }
  }

 private:
  PanelShape shape_;
  int64_t rowStride_, columnStride_, panels_;
  const Layout *to_;
  int64_t tasks_;
};

std::unique_ptr<executable::Kernel> createReorder(const KernelRequest &request, std::string &reason) {
  const Layout *from = request.inputs[0].layout, *to = request.outputs[0].layout;
  const TensorInfo &info = request.inputs[0].info;
  const int64_t bytes = elementBytes(request.inputs[0]);
  if (bytes > 8) return reason = "it moves elements of at most 8 bytes", nullptr;
  if (!from && to == executable::channelsLast())
    return std::make_unique<ReorderChannels>(channelRows(info.shape()), bytes, ReorderChannels::Direction::ToLast,
                                             request.threads);
  if (from == executable::channelsLast() && !to)
    return std::make_unique<ReorderChannels>(channelRows(info.shape()), bytes, ReorderChannels::Direction::ToPlain,
                                             request.threads);
  if (const MatrixPanels *panels = asMatrixPanels(to);
      panels && !from && info.dataType() == DataType::FLOAT && panels->panel() == panelWidth())
    return std::make_unique<PackMatrices>(panels->shapeOf(info), panels->transposed(), to);
  const ConvPanels *forward = asConvPanels(from);
  if (forward && (info.dataType() == DataType::FLOAT || isHalf(info.dataType())) &&
      forward->transposed() == Transposed::kNo &&
      from == convPanels(info.shape(), forward->groups(), Transposed::kNo) &&
      to == convPanels(info.shape(), forward->groups(), Transposed::kYes))
    return std::make_unique<TransposeWeights>(weightShape(info.shape(), forward->groups(), info.dataType()));
  return std::make_unique<ReorderAny>(info, from, to);
}

// ---- channels: Concat, Slice --------------------------------------------------------------------

// Copies pieces of pixel rows: each piece of every pixel of its input is copied to its offset in the output pixel.
class MoveChannels final : public executable::HostKernel {
 public:
  struct Piece {
    size_t input;
    int64_t fromStride, fromStart, toStart, bytes;
  };
  MoveChannels(std::string name, std::vector<Piece> pieces, int64_t rows, int64_t toStride)
      : name_(std::move(name)),
        pieces_(std::move(pieces)),
        rows_(rows),
        toStride_(toStride),
        tasks_(tasksFor(rows * movedBytes() / 4, rows)) {}
  std::string name() const override { return name_; }
  int tasks() const override { return tasks_; }
  double bytes() const override { return 2.0 * static_cast<double>(rows_ * movedBytes()); }  // not of parts in place
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = rows_ * task / tasks_, end = rows_ * (task + 1) / tasks_;
    for (const Piece &p : pieces_) {
      const char *from = static_cast<const char *>(args.in[p.input]) + p.fromStart;
      char *to = static_cast<char *>(args.out[0]) + p.toStart;
      for (int64_t r = begin; r < end; ++r)
        std::memcpy(to + r * toStride_, from + r * p.fromStride, static_cast<size_t>(p.bytes));
    }
  }

 private:
  // Per pixel.
  int64_t movedBytes() const {
    int64_t bytes = 0;
    for (const Piece &p : pieces_) bytes += p.bytes;
    return bytes;
  }

  std::string name_;
  std::vector<Piece> pieces_;
  int64_t rows_, toStride_;
  int tasks_;
};

bool allChannelsLast(const KernelRequest &request, std::string &reason) {
  bool any = false;
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list) {
      if (o.connected && pixelStride(o) == 0)
        return reason = "it takes channels last only: got " + executable::layoutName(o.layout), false;
      any |= o.layout != nullptr;
    }
  return any || (reason = "it takes channels last only", false);
}

std::unique_ptr<executable::Kernel> createConcat(const KernelRequest &request, std::string &reason) {
  if (!allChannelsLast(request, reason)) return nullptr;
  const int64_t rank = request.outputs[0].info.rank(), axis = request.op->attrInt("axis");
  if (axis != 1 && axis != 1 - rank) return reason = "it concatenates channels only", nullptr;
  const int64_t bytes = elementBytes(request.outputs[0]);
  const ChannelRows y = channelRows(request.outputs[0].info.shape());
  std::vector<MoveChannels::Piece> pieces;
  int64_t start = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const int64_t size = channelRows(request.inputs[i].info.shape()).channels * bytes;
    if (strideOfSlice(request.inputs[i]) == 0) pieces.push_back({i, size, 0, start, size});
    start += size;
  }
  return std::make_unique<MoveChannels>("concat channels", std::move(pieces), y.rows(),
                                        pixelStride(request.outputs[0]) * bytes);
}

std::unique_ptr<executable::Kernel> createSpatialSlice(const KernelRequest &request, std::string &reason) {
  if (!allChannelsLast(request, reason)) return nullptr;
  const Shape &from = request.inputs[0].info.shape();
  const auto ranges = ops::sliceRanges(request.op->attributes(), from);
  for (size_t d = 0; d < ranges.size(); ++d)
    if (d == 1 ? ranges[d].step != 1 : ranges[d].size != from[d] || ranges[d].step != 1)
      return reason = "it slices channels only, with step 1", nullptr;
  const int64_t bytes = elementBytes(request.inputs[0]);
  const ChannelRows x = channelRows(from);
  const int64_t size = ranges[1].size * bytes;
  return std::make_unique<MoveChannels>(
      "slice channels",
      std::vector<MoveChannels::Piece>{{0, pixelStride(request.inputs[0]) * bytes, ranges[1].start * bytes, 0, size}},
      x.rows(), pixelStride(request.outputs[0]) * bytes);
}

// ---- reductions and broadcasts ------------------------------------------------------------------

// If blocks of channels give enough tasks, a task has all leaves of its block. Otherwise it has one leaf, and a second
// round combines them.
class ReducePixels final : public executable::HostKernel {
 public:
  ReducePixels(int64_t sets, int64_t pixels, int64_t channels, DataType type, Reduction kind, int threads)
      : reduction_(sets, pixels, channels, type, kind), sets_(sets), channels_(channels), kind_(kind) {
    const int64_t leaves = reduction_.leaves();
    ranges_ = columnRanges(channels, sets, 64, 16, threads);
    leafTasks_ = sets * ranges_ < int64_t{2} * threads ? leaves : 1;
    blocks_ = leafTasks_ == 1 ? ranges_ : columnRanges(channels, sets * leaves, 64, 16, threads);
    rounds_.add(sets * leafTasks_ * blocks_, static_cast<double>(pixels));
    if (leafTasks_ > 1) rounds_.add(sets * ranges_, static_cast<double>(leaves));
  }
  std::string name() const override { return "reduce pixels"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override { return 2 * (channels_ / ranges_ + 1) * static_cast<int64_t>(sizeof(double)); }
  int64_t sharedBytes() const override {
    return leafTasks_ > 1 ? sets_ * leafTasks_ * channels_ * static_cast<int64_t>(sizeof(double)) : 0;
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    const int64_t tasks = place.round == 1 ? 1 : leafTasks_, blocks = place.round == 1 ? ranges_ : blocks_;
    const int64_t block = place.task % blocks, leaf = place.task / blocks % tasks, set = place.task / blocks / tasks;
    const int64_t first = channels_ * block / blocks, count = channels_ * (block + 1) / blocks - first;
    if (place.round == 1) return reduction_.combine(args.shared, set, first, count, args.out[0], args.scratch);
    if (leafTasks_ == 1) return reduction_.reduce(args.in[0], set, first, count, args.out[0], args.scratch);
    const int64_t at = (set * leafTasks_ + leaf) * channels_ + first;
    if (kind_ == Reduction::Maximum)
      return reduction_.maximaOfLeaf(args.in[0], set, leaf, first, count, static_cast<float *>(args.shared) + at);
    reduction_.sumLeaf(args.in[0], set, leaf, first, count, static_cast<double *>(args.shared) + at);
  }

 private:
  PixelReduction reduction_;
  int64_t sets_, channels_;
  int64_t leafTasks_ = 1;            // tasks that share the leaves of a block of channels: all leaves, or one task
  int64_t blocks_ = 1, ranges_ = 1;  // blocks of channels of the first and of the second round
  Reduction kind_;
  Rounds rounds_;
};

template <Reduction kKind>
std::unique_ptr<executable::Kernel> createReduction(const KernelRequest &request, std::string &reason) {
  const DataType given = request.inputs[0].info.dataType(), type = isHalf(given) ? given : DataType::FLOAT;
  if (request.inputs[0].layout != executable::channelsLast() || given != type ||
      request.outputs[0].info.dataType() != type)
    return reason = "it takes FLOAT or 16-bit numbers, channels last only", nullptr;
  const Shape &x = request.inputs[0].info.shape();
  std::vector<bool> reduced(x.size(), false);
  for (int64_t axis : ops::reductionAxes(request.op->attributes(), static_cast<int64_t>(x.size())))
    reduced[static_cast<size_t>(axis)] = true;
  if (reduced[1] || !std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; }))
    return reason = "it reduces all spatial dimensions and keeps channels", nullptr;
  const ChannelRows rows = channelRows(x);
  if (rows.rows() == 0) return reason = "the input is empty", nullptr;
  return reduced[0] ? std::make_unique<ReducePixels>(1, rows.rows(), rows.channels, type, kKind, request.threads)
                    : std::make_unique<ReducePixels>(rows.n, rows.places, rows.channels, type, kKind, request.threads);
}

// (N, C, 1…) → (N, C, spatial…)
class SpreadChannels final : public executable::HostKernel {
 public:
  SpreadChannels(const ChannelRows &rows, int64_t bytes, bool perImage)
      : rows_(rows), bytes_(bytes), perImage_(perImage), tasks_(tasksFor(rows.rows() * rows.channels, rows.rows())) {}
  std::string name() const override { return "broadcast channels"; }
  int tasks() const override { return tasks_; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t size = rows_.channels * bytes_;
    for (int64_t r = rows_.rows() * task / tasks_; r < rows_.rows() * (task + 1) / tasks_; ++r)
      std::memcpy(static_cast<char *>(args.out[0]) + r * size,
                  static_cast<const char *>(args.in[0]) + (perImage_ ? r / rows_.places * size : 0),
                  static_cast<size_t>(size));
  }

 private:
  ChannelRows rows_;
  int64_t bytes_;  // per element
  bool perImage_;
  int tasks_;
};

std::unique_ptr<executable::Kernel> createSpatialExpand(const KernelRequest &request, std::string &reason) {
  const auto &x = request.inputs[0], &y = request.outputs[0];
  if (y.layout != executable::channelsLast()) return reason = "it gives channels last only", nullptr;
  const ChannelRows rows = channelRows(y.info.shape());
  Shape from = x.info.shape();
  from.insert(from.begin(), static_cast<size_t>(y.info.rank()) - from.size(), 1);
  const ChannelRows source = channelRows(from);
  const bool fits = x.layout == nullptr && source.places == 1 && source.channels == rows.channels &&
                    (source.n == rows.n || source.n == 1);
  if (!fits) return reason = "it broadcasts one value per channel over spatial dimensions only", nullptr;
  return std::make_unique<SpreadChannels>(rows, elementBytes(y), source.n == rows.n);
}

constexpr Entry kSpatialMoveKernels[] = {{"Reorder", createReorder},
                                         {"Concat", createConcat},
                                         {"PickChannels", createPickChannels},
                                         {"Slice", createSpatialSlice},
                                         {"ReduceSum", createReduction<Reduction::Sum>},
                                         {"ReduceMean", createReduction<Reduction::Mean>},
                                         {"ReduceMax", createReduction<Reduction::Maximum>},
                                         {"Expand", createSpatialExpand}};

}  // namespace

std::span<const Entry> spatialMoveKernels() { return kSpatialMoveKernels; }

}  // namespace popart::cpu
