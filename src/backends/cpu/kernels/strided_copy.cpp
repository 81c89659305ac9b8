// Work is split into units: one block of the two innermost dimensions at one position of the outer ones. A task
// processes several neighbouring units. Elements are moved by fixed-size memcpy, so source and target may be unaligned.
#include "backends/cpu/kernels/strided_copy.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pick_strided.hpp"
#include "backends/cpu/kernels/stream_copy.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kTaskBytes = int64_t{1} << 17;  // about 33 us (executable/cost.cpp)

constexpr int64_t kLeastStreamed = 512;  // bytes of a run; shorter runs have few whole vectors

// Bytes of a transposed block, which fits in the second level cache, and of each of its runs of the source. Short runs
// of the source make the runs of the target longer, and vice versa.
constexpr int64_t kBlockBytes = int64_t{1} << 16, kSourceRunBytes = 512;

// Writes the element `count` times. The first copies are the source of the rest, so that the rest is copied in whole
// vectors.
template <int64_t kBytes>
void repeat(const char *from, char *to, int64_t count) noexcept {
  constexpr int64_t kBlock = 512 / kBytes;
  char element[kBytes];
  std::memcpy(element, from, kBytes);
  for (int64_t c = 0; c < std::min(count, kBlock); ++c) std::memcpy(to + c * kBytes, element, kBytes);
  for (int64_t c = kBlock; c < count; c += kBlock)
    std::memcpy(to + c * kBytes, to, static_cast<size_t>(std::min(count - c, kBlock) * kBytes));
}

}  // namespace

StridedCopy::StridedCopy(std::vector<CopyDim> dims, int64_t elementBytes, int64_t fromOffset, int64_t toOffset)
    : bytes_(elementBytes), fromOffset_(fromOffset), toOffset_(toOffset) {
  for (const CopyDim &d : dims)
    if (d.size == 0) return;
  merge(std::move(dims));
  chooseInner();
  chooseTasks();
}

void StridedCopy::merge(std::vector<CopyDim> dims) {
  for (const CopyDim &d : dims) {
    if (d.size == 1) continue;
    if (!outer_.empty() && outer_.back().from == d.size * d.from && outer_.back().to == d.size * d.to) {
      outer_.back() = {outer_.back().size * d.size, d.from, d.to};
    } else {
      outer_.push_back(d);
    }
  }
}

// A contiguous run of 2, 4, 8 or 16 bytes becomes the element.
void StridedCopy::chooseInner() {
  const bool isRun = !outer_.empty() && outer_.back().from == bytes_ && outer_.back().to == bytes_;
  if (const int64_t run = isRun ? outer_.back().size * bytes_ : 0;
      outer_.size() > 1 && (run == 2 || run == 4 || run == 8 || run == 16)) {
    bytes_ = run;
    outer_.pop_back();
  }
  column_ = {1, bytes_, bytes_};
  if (!outer_.empty()) column_ = outer_.back(), outer_.pop_back();
  row_ = {1, 0, 0};
  size_t row = outer_.size() - 1;
  if (column_.from == bytes_ && column_.to == bytes_) {
    inner_ = Inner::kRun;
  } else if (column_.from == 0 && column_.to == bytes_) {
    inner_ = Inner::kRepeat;
  } else {
    inner_ = Inner::kStrided;
    for (size_t d = 0; d < outer_.size() && column_.to == bytes_; ++d)
      if (outer_[d].from == bytes_) row = d, inner_ = Inner::kTranspose;
  }
  if (outer_.empty()) return;
  row_ = outer_[row];
  outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(row));
}

void StridedCopy::chooseTasks() {
  const int64_t unit = std::max<int64_t>(1, kTaskBytes / bytes_);
  columnChunk_ = std::min(column_.size, unit);
  rowChunk_ = std::min(row_.size, std::max<int64_t>(1, unit / columnChunk_));
  if (inner_ == Inner::kTranspose) {
    const int64_t block = kBlockBytes / bytes_, rows = kSourceRunBytes / bytes_;
    columnChunk_ = std::min(column_.size, block / std::min(row_.size, rows));
    rowChunk_ = std::min(row_.size, block / std::min(column_.size, block / rows));
  }
  rowUnits_ = ceilDiv(row_.size, rowChunk_);
  columnUnits_ = ceilDiv(column_.size, columnChunk_);
  units_ = rowUnits_ * columnUnits_;
  int64_t elements = row_.size * column_.size;
  for (const CopyDim &d : outer_) units_ *= d.size, elements *= d.size;
  tasks_ = std::clamp<int64_t>(ceilDiv(elements * bytes_, kTaskBytes), 1, std::min<int64_t>(units_, 1024));
  prefetch_ = prefetchFor(elements * bytes_);
  const bool hasRuns = (inner_ == Inner::kRun || inner_ == Inner::kStrided) && column_.to == bytes_;
  isStreamed_ =
      hasRuns && columnChunk_ * bytes_ >= kLeastStreamed && exceedsCaches(elements * bytes_, elements * bytes_);
}

const char *StridedCopy::name() const {
  switch (inner_) {
    case Inner::kRun:
      return "copy";
    case Inner::kRepeat:
      return "fill";
    case Inner::kTranspose:
      return "transpose";
    case Inner::kStrided:
      break;
  }
  return "strided copy";
}

void StridedCopy::run(const void *from, void *to, int64_t task) const noexcept {
  if (tasks_ == 0) return;
  const int64_t end = units_ * (task + 1) / tasks_;
  for (int64_t u = units_ * task / tasks_; u < end;) {
    const int64_t column = u % columnUnits_ * columnChunk_, row = u / columnUnits_ % rowUnits_ * rowChunk_;
    int64_t rest = u / columnUnits_ / rowUnits_;
    int64_t fromAt = fromOffset_ + column * column_.from + row * row_.from,
            toAt = toOffset_ + column * column_.to + row * row_.to;
    for (size_t d = outer_.size(); d-- > 0; rest /= outer_[d].size) {
      const int64_t at = rest % outer_[d].size;
      fromAt += at * outer_[d].from, toAt += at * outer_[d].to;
    }
    // If units have all rows and columns, consecutive units are neighbours along the last of the outer dimensions.
    const bool isLine = rowUnits_ * columnUnits_ == 1 && !outer_.empty();
    const CopyDim &line = isLine ? outer_.back() : row_;
    const int64_t last = isLine ? std::min(end, u - u % line.size + line.size) : u + 1;
    for (; u < last; ++u, fromAt += line.from, toAt += line.to)
      runBlock({static_cast<const char *>(from) + fromAt, static_cast<char *>(to) + toAt,
                std::min(rowChunk_, row_.size - row), std::min(columnChunk_, column_.size - column)});
  }
  if (isStreamed_) flushStreams();
}

template <int64_t kBytes>
void StridedCopy::moveElements(const Block &b) const noexcept {
  const int64_t fromStep = column_.from, toStep = column_.to;
  for (int64_t r = 0; r < b.rows; ++r) {
    const char *from = b.from + r * row_.from;
    char *to = b.to + r * row_.to;
    if (inner_ == Inner::kRepeat) {
      repeat<kBytes>(from, to, b.columns);
    } else if (toStep == kBytes && isStreamed_) {
      constexpr int64_t kAtOnce = 4096 / kBytes;
      char picked[kAtOnce * kBytes];
      for (int64_t c = 0; c < b.columns; c += kAtOnce) {
        const int64_t count = std::min(kAtOnce, b.columns - c);
        pickStrided(kBytes, from + c * fromStep, fromStep, count, picked);
        streamBytes(to + c * kBytes, picked, count * kBytes);
      }
    } else if (toStep == kBytes) {
      pickStrided(kBytes, from, fromStep, b.columns, to);
    } else {
      for (int64_t c = 0; c < b.columns; ++c) std::memcpy(to + c * toStep, from + c * fromStep, kBytes);
    }
  }
}

void StridedCopy::runBlock(const Block &b) const noexcept {
  if (inner_ == Inner::kRun) {
    for (int64_t r = 0; r < b.rows; ++r) {
      char *to = b.to + r * row_.to;
      const char *from = b.from + r * row_.from;
      if (isStreamed_)
        streamBytes(to, from, b.columns * bytes_);
      else
        std::memcpy(to, from, static_cast<size_t>(b.columns * bytes_));
    }
    return;
  }
  if (inner_ == Inner::kTranspose)
    return transpose(bytes_, {b.from, column_.from, b.columns, b.rows}, {b.to, row_.to}, prefetch_);
  switch (bytes_) {
    case 1:
      return moveElements<1>(b);
    case 2:
      return moveElements<2>(b);
    case 4:
      return moveElements<4>(b);
    case 8:
      return moveElements<8>(b);
    default:
      return moveElements<16>(b);
  }
}

}  // namespace popart::cpu
