// Operators that move elements of any type in plain layout: Transpose, Concat, Split, Slice, Reverse, Expand, Tile,
// Gather at one known position, copies of views; and operators that write a window of their result and fill the rest:
// SliceUpdate, SliceGrad, Pad. Init as well, which fills the whole result.
#include <algorithm>
#include <cstring>
#include <memory>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/strided_copy.hpp"
#include "backends/cpu/task_count.hpp"
#include "ops/rules.hpp"
#include "ops/shape/pad_index.hpp"
#include "ops/shape/slice_range.hpp"
#include "ops/shape/strided_view.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::SliceRange;

// ---- copies: every element of the results comes from one operand --------------------------------

struct MovedPiece {
  StridedCopy copy;
  size_t in, out;
};

class MoveKernel final : public executable::HostKernel {
 public:
  MoveKernel(std::vector<MovedPiece> pieces) : pieces_(std::move(pieces)) {
    for (const MovedPiece &p : pieces_) firstTask_.push_back(tasks_), tasks_ += p.copy.tasks();
  }
  std::string name() const override { return pieces_.size() == 1 ? pieces_[0].copy.name() : "copy pieces"; }
  int tasks() const override { return static_cast<int>(std::max<int64_t>(1, tasks_)); }
  void run(const KernelArgs &args, int task) const noexcept override {
    if (task >= tasks_) return;
    const auto piece = static_cast<size_t>(std::upper_bound(firstTask_.begin(), firstTask_.end(), int64_t{task}) -
                                           firstTask_.begin()) -
                       1;
    const MovedPiece &p = pieces_[piece];
    p.copy.run(args.in[p.in], args.out[p.out], task - firstTask_[piece]);
  }

 private:
  std::vector<MovedPiece> pieces_;
  std::vector<int64_t> firstTask_;
  int64_t tasks_ = 0;
};

std::unique_ptr<executable::Kernel> single(std::vector<CopyDim> dims, int64_t bytes, int64_t fromOffset) {
  return std::make_unique<MoveKernel>(
      std::vector<MovedPiece>{{StridedCopy(std::move(dims), bytes, fromOffset, 0), 0, 0}});
}

// Reads the whole result from the operand with byte strides `from`.
std::unique_ptr<executable::Kernel> readStrided(const KernelRequest &request, int64_t bytes, int64_t offset,
                                                const Shape &from) {
  const Shape &shape = request.outputs[0].info.shape(), to = ops::stridesInOrder(shape, bytes);
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < shape.size(); ++d) dims.push_back({shape[d], from[d], to[d]});
  return single(std::move(dims), bytes, offset);
}

std::unique_ptr<executable::Kernel> createCopy(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  return single({{request.outputs[0].info.nelms(), bytes, bytes}}, bytes, 0);
}

// A view that ops::stridedView describes.
std::unique_ptr<executable::Kernel> createView(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  std::optional<ops::StridedView> view = ops::stridedView(*request.op);
  if (!view) return reason = "it reads no position that is a constant", nullptr;
  for (int64_t &stride : view->strides) stride *= bytes;
  return readStrided(request, bytes, view->offset * bytes, view->strides);
}

std::unique_ptr<executable::Kernel> readRanges(const KernelRequest &request, const std::vector<SliceRange> &ranges,
                                               int64_t bytes) {
  Shape from = ops::stridesInOrder(request.inputs[0].info.shape(), bytes);
  int64_t offset = 0;
  for (size_t d = 0; d < from.size(); ++d) offset += ranges[d].start * from[d], from[d] *= ranges[d].step;
  return readStrided(request, bytes, offset, from);
}

// Zeros are the same in every layout, including the padding of panels.
std::unique_ptr<executable::Kernel> createZeros(const KernelRequest &request, std::string &reason) {
  const auto &x = request.inputs[0], &y = request.outputs[0];
  const int64_t bytes = getDataTypeInfo(y.info.dataType()).nbytes;
  const bool isZero = x.constant && x.info.nelms() == 1 &&
                      std::all_of(static_cast<const char *>(x.constant->data()),
                                  static_cast<const char *>(x.constant->data()) + bytes, [](char c) { return c == 0; });
  if (!isZero) return reason = "in other than plain layout it gives zeros only", nullptr;
  return single({{executable::storageBytes(y.info, y.layout) / bytes, 0, bytes}}, bytes, 0);
}

// Init writes zeros, although its content is undefined: every run has the same bits.
class ZerosKernel final : public executable::HostKernel {
 public:
  explicit ZerosKernel(int64_t bytes) : bytes_(bytes), tasks_(taskCount(bytes, 1 << 17, bytes)) {}
  std::string name() const override { return "zeros"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = bytes_ * task / tasks_, end = bytes_ * (task + 1) / tasks_;
    std::fill_n(static_cast<char *>(args.out[0]) + begin, end - begin, char{0});
  }

 private:
  int64_t bytes_, tasks_;
};

std::unique_ptr<executable::Kernel> createInit(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  return std::make_unique<ZerosKernel>(request.outputs[0].info.nbytes());
}

std::unique_ptr<executable::Kernel> createExpand(const KernelRequest &request, std::string &reason) {
  if (request.outputs[0].layout) return createZeros(request, reason);
  return createView(request, reason);
}

// Every axis of the result is (repeats, size): the first repeats, the second traverses the operand.
std::unique_ptr<executable::Kernel> createTile(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Shape &shape = request.inputs[0].info.shape(), &result = request.outputs[0].info.shape();
  const Shape from = ops::stridesInOrder(shape, bytes), to = ops::stridesInOrder(result, bytes);
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    dims.push_back({shape[d] == 0 ? 0 : result[d] / shape[d], 0, to[d] * shape[d]});
    dims.push_back({shape[d], from[d], to[d]});
  }
  return single(std::move(dims), bytes, 0);
}

// Concat and Split: piece i of the joined tensor against operand or result i.
enum class Direction { Join, Cut };
template <Direction kDirection>
std::unique_ptr<executable::Kernel> createPieces(const KernelRequest &request, std::string &reason) {
  constexpr bool kJoin = kDirection == Direction::Join;
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Shape &joined = (kJoin ? request.outputs : request.inputs)[0].info.shape();
  const auto axis = static_cast<size_t>(ops::axisOf(request.op->attributes(), static_cast<int64_t>(joined.size())));
  const auto &list = kJoin ? request.inputs : request.outputs;
  std::vector<int64_t> sizes;
  if (kJoin)
    for (const auto &o : list) sizes.push_back(o.info.shape()[axis]);
  else
    sizes = ops::splitSizes(request.op->attributes(), joined[axis], static_cast<int64_t>(list.size()));
  const Shape whole = ops::stridesInOrder(joined, bytes);
  std::vector<MovedPiece> pieces;
  int64_t start = 0;
  for (size_t i = 0; i < list.size(); start += sizes[i++] * whole[axis]) {
    if (!list[i].connected) continue;
    Shape shape = joined;
    shape[axis] = sizes[i];
    const Shape own = ops::stridesInOrder(shape, bytes);
    std::vector<CopyDim> dims;
    for (size_t d = 0; d < shape.size(); ++d)
      dims.push_back({shape[d], kJoin ? own[d] : whole[d], kJoin ? whole[d] : own[d]});
    pieces.push_back(
        {StridedCopy(std::move(dims), bytes, kJoin ? 0 : start, kJoin ? start : 0), kJoin ? i : 0, kJoin ? 0 : i});
  }
  return std::make_unique<MoveKernel>(std::move(pieces));
}

// ---- windows: part of the result comes from one operand, the rest from another or from a constant

// The rest of the result: an operand of the result's shape, or copies of one element.
struct Surroundings {
  int operand = -1;
  std::vector<char> fill;
};

// The result's leading dimensions are rows, its trailing ones a contiguous tail; a task writes some rows. If the
// window's part of a tail is one run, only the bytes around it are filled. Otherwise each row is filled, and if its
// coordinates are inside the window, the window's part of the tail is then written over it.
class WindowKernel final : public executable::HostKernel {
 public:
  WindowKernel(std::string name, const Shape &result, std::vector<SliceRange> window, int64_t bytes, Surroundings rest,
               int part)
      : name_(std::move(name)),
        rest_(std::move(rest)),
        part_(part),
        isZero_(std::all_of(rest_.fill.begin(), rest_.fill.end(), [](char c) { return c == 0; })) {
    constexpr int64_t kTailBytes = 1 << 14, kRunBytes = 256, kTaskBytes = int64_t{1} << 17;
    const Shape to = ops::stridesInOrder(result, bytes);
    Shape sizes;
    for (const SliceRange &r : window) sizes.push_back(r.size);
    const Shape from = ops::stridesInOrder(sizes, bytes);
    tailBytes_ = elementCount(result) * bytes;
    size_t d = 0;
    const bool isLong =
        tailBytes_ > 0 && !window.empty() && window.back().step == 1 && result.back() * bytes >= kRunBytes;
    for (; d + 1 < result.size() && (isLong || tailBytes_ > kTailBytes); ++d) {  // a row is never a single element
      leading_.push_back({result[d], from[d], window[d]});
      tailBytes_ /= result[d];
      rows_ *= result[d];
    }
    std::vector<CopyDim> dims;
    int64_t offset = 0;
    for (; d < result.size(); ++d) {
      dims.push_back({window[d].size, from[d], window[d].step * to[d]});
      offset += window[d].start * to[d];
    }
    isEmpty_ = elementCount(sizes) == 0;
    if (dims.size() == 1 && window.back().step == 1) runStart_ = offset, runBytes_ = dims[0].size * bytes;
    tail_ = std::make_unique<StridedCopy>(std::move(dims), bytes, 0, isEmpty_ ? 0 : offset);
    tasks_ = taskCount(rows_ * tailBytes_, kTaskBytes, rows_);
  }
  std::string name() const override { return name_; }
  int tasks() const override { return static_cast<int>(tasks_); }
  bool canOverwrite(int input, int) const override { return input == rest_.operand; }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (tailBytes_ == 0) return;
    const auto *part = static_cast<const char *>(args.in[part_]);
    auto *to = static_cast<char *>(args.out[0]);
    const int64_t inner = leading_.empty() ? 1 : leading_.back().size, end = rows_ * (task + 1) / tasks_;
    for (int64_t row = rows_ * task / tasks_; row < end;) {
      const int64_t at = isEmpty_ ? -1 : partOffset(row / inner);
      for (const int64_t stop = std::min(end, (row / inner + 1) * inner); row < stop; ++row)
        writeRow(args, row, placeOf(row % inner, at), part, to);
    }
  }

 private:
  struct Leading {
    int64_t size, partStride;
    SliceRange window;
  };

  // `at`: offset in the part of the row's tail; -1 if the row is outside the window.
  void writeRow(const KernelArgs &args, int64_t row, int64_t at, const char *part, char *to) const noexcept {
    const int64_t begin = row * tailBytes_;
    if (at >= 0 && runBytes_ > 0) {
      fill(args, to, begin, runStart_);
      std::memcpy(to + begin + runStart_, part + at, static_cast<size_t>(runBytes_));
      fill(args, to, begin + runStart_ + runBytes_, tailBytes_ - runStart_ - runBytes_);
      return;
    }
    fill(args, to, begin, tailBytes_);
    for (int64_t t = 0; at >= 0 && t < tail_->tasks(); ++t) tail_->run(part + at, to + begin, t);
  }

  void fill(const KernelArgs &args, char *to, int64_t begin, int64_t count) const noexcept {
    if (count == 0) return;
    const auto bytes = static_cast<size_t>(count);
    to += begin;
    if (rest_.operand >= 0) {
      const char *from = static_cast<const char *>(args.in[rest_.operand]) + begin;
      if (from != to) std::memcpy(to, from, bytes);
    } else if (isZero_) {
      std::memset(to, 0, bytes);
    } else {
      for (size_t i = 0; i < bytes; i += rest_.fill.size()) std::memcpy(to + i, rest_.fill.data(), rest_.fill.size());
    }
  }
  // The offset in the part of position `at` along a leading dimension; -1 outside the window.
  static int64_t partOffset(const Leading &l, int64_t at) noexcept {
    const int64_t distance = at - l.window.start, place = distance / l.window.step;
    return distance % l.window.step != 0 || place < 0 || place >= l.window.size ? -1 : place * l.partStride;
  }
  // The offset for all leading dimensions but the last; placeOf() adds that one.
  int64_t partOffset(int64_t row) const noexcept {
    int64_t offset = 0;
    for (size_t d = leading_.empty() ? 0 : leading_.size() - 1; d-- > 0; row /= leading_[d].size) {
      const int64_t own = partOffset(leading_[d], row % leading_[d].size);
      if (own < 0) return -1;
      offset += own;
    }
    return offset;
  }
  int64_t placeOf(int64_t at, int64_t offset) const noexcept {
    if (offset < 0 || leading_.empty()) return offset;
    const int64_t own = partOffset(leading_.back(), at);
    return own < 0 ? -1 : offset + own;
  }

  std::string name_;
  Surroundings rest_;
  int part_;
  bool isZero_, isEmpty_ = false;
  std::vector<Leading> leading_;
  int64_t rows_ = 1, tailBytes_ = 0, tasks_ = 1;
  int64_t runStart_ = 0, runBytes_ = 0;  // the window's part of a tail, if it is one run
  std::unique_ptr<StridedCopy> tail_;
};

std::unique_ptr<executable::Kernel> createSliceUpdate(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Shape &shape = request.outputs[0].info.shape();
  return std::make_unique<WindowKernel>("slice update", shape, ops::sliceRanges(request.op->attributes(), shape), bytes,
                                        Surroundings{0, {}}, 1);
}

std::unique_ptr<executable::Kernel> intoZeros(const KernelRequest &request, std::vector<SliceRange> ranges,
                                              std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  return std::make_unique<WindowKernel>("slice gradient", request.outputs[0].info.shape(), std::move(ranges), bytes,
                                        Surroundings{-1, std::vector<char>(static_cast<size_t>(bytes), 0)}, 0);
}
std::unique_ptr<executable::Kernel> createSliceGradient(const KernelRequest &request, std::string &reason) {
  return intoZeros(request, ops::sliceRanges(request.op->attributes(), request.outputs[0].info.shape()), reason);
}
std::unique_ptr<executable::Kernel> createSubsampleGradient(const KernelRequest &request, std::string &reason) {
  const auto &strides = request.op->attrInts("strides");
  return intoZeros(request, ops::subsampleRanges(strides, request.outputs[0].info.shape()), reason);
}

// Padding with a value, or cropping (negative pads), but not both in one op.
std::unique_ptr<executable::Kernel> createPad(const KernelRequest &request, std::string &reason) {
  const int64_t bytes = movedBytes(request, reason);
  if (bytes == 0) return nullptr;
  const Op &op = *request.op;
  if (op.attrString("mode") != "constant")
    return reason = "it pads with a constant only: got mode " + op.attrString("mode"), nullptr;
  const Shape &from = request.inputs[0].info.shape();
  const auto pads = ops::fullPads(op.attributes(), request.inputs[0].info.rank());
  std::vector<SliceRange> window;
  bool cuts = false, adds = false;
  for (size_t d = 0; d < from.size(); ++d) {
    cuts |= pads[d] < 0 || pads[from.size() + d] < 0;
    adds |= pads[d] > 0 || pads[from.size() + d] > 0;
    window.push_back({pads[d], 1, from[d]});
  }
  if (cuts && adds) return reason = "it cannot pad one side and crop another", nullptr;
  if (cuts) {
    for (size_t d = 0; d < from.size(); ++d) window[d].start = -pads[d];
    return readRanges(request, window, bytes);
  }
  const DataType type = request.outputs[0].info.dataType();
  const float value = op.attrFloat("value");
  Surroundings rest{-1, std::vector<char>(static_cast<size_t>(bytes), 0)};
  if (type == DataType::FLOAT) {
    std::memcpy(rest.fill.data(), &value, sizeof value);
  } else if (value != 0) {
    return reason = "it pads elements of type " + toText(type) + " with zeros only", nullptr;
  }
  return std::make_unique<WindowKernel>("pad", request.outputs[0].info.shape(), std::move(window), bytes,
                                        std::move(rest), 0);
}

constexpr Entry kMoveKernels[] = {{"Transpose", createView},
                                  {"Slice", createView},
                                  {"Reverse", createView},
                                  {"Gather", createView},  // other cases: index.cpp
                                  {"Expand", createExpand},
                                  {"Init", createInit},
                                  {"Tile", createTile},
                                  {"Concat", createPieces<Direction::Join>},
                                  {"Split", createPieces<Direction::Cut>},
                                  {"SliceUpdate", createSliceUpdate},
                                  {"SliceGrad", createSliceGradient},
                                  {"SubsampleGrad", createSubsampleGradient},
                                  {"Pad", createPad},
                                  {"Reshape", createCopy},
                                  {"Squeeze", createCopy},
                                  {"Unsqueeze", createCopy},
                                  {"Identity", createCopy},
                                  {"IdentityGrad", createCopy},
                                  {"Detach", createCopy},
                                  {"BitCast", createCopy},
                                  {"Nop", createCopy}};

}  // namespace

std::span<const Entry> moveKernels() { return kMoveKernels; }

}  // namespace popart::cpu
