// The block loop of element-wise programs. Blocks are small enough that all registers stay in the first level cache.
#include "backends/cpu/vector/element_program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/pick_strided.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

constexpr int64_t kRegisterBytes = 8;    // per element of a temporary, enough for every form
constexpr int64_t kSmallestBlock = 128;  // elements: 8 to 32 vectors per call of an instruction
constexpr int64_t kShortShare = 4;       // all that a short block reads and writes: this part of the first level cache
using Access = ElementOperand::Access;

// Of the data cache of one core; 32 KiB if the system does not report it.
int64_t firstLevelCacheBytes() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return 32 << 10;
}

// Position in the loop above the innermost dimension, with the offset of every broadcast input.
class RowWalk {
 public:
  RowWalk(const ElementLoop &loop, const std::vector<ElementOperand> &inputs, int64_t row)
      : loop_(loop), inputs_(inputs) {
    const int last = static_cast<int>(loop.dims.size()) - 1;
    for (int d = last; d-- > 0;) {
      coordinates_[d] = row % loop.dims[d];
      row /= loop.dims[d];
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      offsets_[i] = 0;
      if (inputs[i].access != Access::kBroadcast) continue;
      for (int d = 0; d < last; ++d) offsets_[i] += coordinates_[d] * inputs[i].strides[d];
    }
  }
  int64_t offset(size_t input) const { return offsets_[input]; }
  void next() {
    for (int d = static_cast<int>(loop_.dims.size()) - 1; d-- > 0;) {
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i].access == Access::kBroadcast) offsets_[i] += inputs_[i].strides[d];
      if (++coordinates_[d] < loop_.dims[d]) return;
      coordinates_[d] = 0;
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i].access == Access::kBroadcast) offsets_[i] -= inputs_[i].strides[d] * loop_.dims[d];
    }
  }

 private:
  const ElementLoop &loop_;
  const std::vector<ElementOperand> &inputs_;
  std::array<int64_t, ElementProgram::kMaxDims> coordinates_{};
  std::array<int64_t, ElementProgram::kMaxPointers> offsets_;
};

// Prefetches rows of inputs whose rows are not contiguous. The processor's prefetchers follow one row at a time, and
// its out-of-order window does not reach past the calls between two rows.
class RowsAhead {
 public:
  RowsAhead(const ElementLoop &loop, const std::vector<ElementOperand> &inputs, const RowWalk &walk)
      : loop_(loop), inputs_(inputs), walk_(walk) {
    for (const ElementOperand &o : inputs)
      if (isApart(o)) rows_ = std::max(rows_, std::clamp<int64_t>(kBytesAhead / bytesOf(o), 1, kMostRows));
    for (int64_t i = 0; i < rows_; ++i) walk_.next();
  }
  // `first`: the first element of each input.
  void next(const char *const *first) {
    if (rows_ == 0) return;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ElementOperand &o = inputs_[i];
      if (!isApart(o)) continue;
      const char *row = first[i] + walk_.offset(i) * o.bytes;
      for (int64_t b = 0; b < std::min(bytesOf(o), kBytesAhead); b += kLine) __builtin_prefetch(row + b);
    }
    walk_.next();
  }

 private:
  static constexpr int64_t kBytesAhead = 4096, kMostRows = 16, kLine = 64;
  int64_t bytesOf(const ElementOperand &o) const { return loop_.dims.back() * o.bytes; }
  bool isApart(const ElementOperand &o) const {
    const size_t last = loop_.dims.size() - 1;
    return o.access == Access::kBroadcast && last > 0 && o.strides[last] == 1 && o.strides[last - 1] != 0 &&
           o.strides[last - 1] != loop_.dims[last];
  }

  const ElementLoop &loop_;
  const std::vector<ElementOperand> &inputs_;
  RowWalk walk_;
  int64_t rows_ = 0;  // prefetch distance
};

template <class T>
void fill(void *to, const void *value, int64_t count) {
  T v;
  std::memcpy(&v, value, sizeof v);
  std::fill_n(static_cast<T *>(to), count, v);
}

// Copies `count` elements that are `stride` elements apart: contiguous (1), one element repeated (0), or any other.
void copyRun(void *to, const void *from, int bytes, int64_t stride, int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * bytes));
    return;
  }
  if (stride != 0) return pickStrided(bytes, from, stride * bytes, count, to);
  switch (bytes) {
    case 1:
      return fill<uint8_t>(to, from, count);
    case 2:
      return fill<uint16_t>(to, from, count);
    case 4:
      return fill<uint32_t>(to, from, count);
    default:
      return fill<uint64_t>(to, from, count);
  }
}

}  // namespace

struct ElementProgram::Frame {
  const void *pointers[kMaxPointers];
  const char *in[kMaxPointers];  // the first element of each input
  char *const *out;
  char *expansion;
  executable::RunContext *context;
};

bool ElementProgram::finish(int costPerElement) {
  const size_t pointers = inputs.size() + outputBytes.size() + constants.size() + static_cast<size_t>(temporaries);
  if (pointers > kMaxPointers || loop.dims.size() > kMaxDims) return false;
  while (block_ > kSmallestBlock && temporaries * block_ * kRegisterBytes > firstLevelCacheBytes()) block_ /= 2;
  int64_t bytes = std::accumulate(outputBytes.begin(), outputBytes.end(), int64_t{0});  // of operands, per element
  for (const ElementOperand &i : inputs) bytes += i.access == Access::kFull ? i.bytes : 0;
  flatBlock_ = block_;
  if (bytes * loop.elements > lastLevelCacheBytes() / 2)
    while (flatBlock_ > kSmallestBlock &&
           (bytes + temporaries * kRegisterBytes) * flatBlock_ > firstLevelCacheBytes() / kShortShare)
      flatBlock_ /= 2;
  for (const ElementOperand &i : inputs)
    expanded_ += loop.mode == ElementLoop::Mode::kExpanded && i.access == Access::kBroadcast;
  constexpr int64_t kWorkPerTask = 65536;   // in additions
  constexpr int64_t kLeastElements = 4096;  // of a task, 16 KiB of floats
  const int64_t most = std::clamp<int64_t>(kWorkPerTask / std::max(costPerElement, 1), 2048, 65536);
  int64_t wanted = std::clamp(loop.elements / kMostThreads, std::min(kLeastElements, most), most);
  // With more tasks than threads, the last turn of tasks may leave most threads idle.
  if (const int64_t count = ceilDiv(loop.elements, wanted); count > kMostThreads)
    wanted = ceilDiv(loop.elements, ceilDiv(count, kMostThreads) * kMostThreads);
  if (loop.mode == ElementLoop::Mode::kRows) {
    const int64_t inner = loop.dims.back(), pieces = ceilDiv(inner, block_),
                  rows = inner == 0 ? 0 : loop.elements / inner;
    perTask_ = std::max<int64_t>(1, wanted * pieces / std::max<int64_t>(inner, 1));
    tasks_ = static_cast<int>(std::max<int64_t>(1, ceilDiv(rows * pieces, perTask_)));
  } else {
    perTask_ = ceilDiv(wanted, block_) * block_;
    tasks_ = static_cast<int>(std::max<int64_t>(1, ceilDiv(loop.elements, perTask_)));
  }
  return true;
}

bool ElementProgram::cutInto(int64_t count) {
  const bool padded = std::any_of(padding.begin(), padding.end(), [](const auto &p) { return p.group > 0; });
  if (padded || loop.elements == 0) return false;
  int64_t units = loop.elements;
  if (loop.mode == ElementLoop::Mode::kRows) {  // a piece of a row is the smallest unit, and a whole block
    const int64_t inner = loop.dims.back(), rows = loop.elements / inner;
    if (rows % count != 0 && inner % block_ != 0) return false;
    units = rows * ceilDiv(inner, block_);
  }
  if (units % count != 0) return false;
  perTask_ = units / count;
  tasks_ = static_cast<int>(count);
  return true;
}

int64_t ElementProgram::scratchBytes() const { return (temporaries + expanded_) * block_ * kRegisterBytes; }

bool ElementProgram::canOverwrite(int operand, int o) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].operand == operand && !isReadBefore(i, o)) return false;
  return true;
}

bool ElementProgram::isReadBefore(size_t input, int o) const {
  const int i = static_cast<int>(input), output = static_cast<int>(inputs.size()) + o;
  if (inputs[input].access == Access::kUnused) return true;
  if (inputs[input].access != Access::kFull || inputs[input].bytes != outputBytes[o]) return false;
  int lastRead = -1, firstWrite = static_cast<int>(code.size());
  for (int c = static_cast<int>(code.size()); c-- > 0;) {
    if (code[c].out == output) firstWrite = c;
    if (lastRead < 0 && std::find(code[c].in.begin(), code[c].in.end(), i) != code[c].in.end()) lastRead = c;
  }
  return lastRead <= firstWrite;
}

void ElementProgram::bind(Frame &frame, const void *const *in, void *const *out, void *scratch,
                          int64_t block) const noexcept {
  frame.out = reinterpret_cast<char *const *>(out);
  size_t at = inputs.size() + outputBytes.size();
  for (size_t i = 0; i < inputs.size(); ++i)
    frame.pointers[i] = frame.in[i] =
        static_cast<const char *>(in[inputs[i].operand]) + inputs[i].offset * inputs[i].bytes;
  for (const uint64_t &c : constants) frame.pointers[at++] = &c;
  char *temporary = static_cast<char *>(scratch);
  for (int t = 0; t < temporaries; ++t, temporary += block * kRegisterBytes) frame.pointers[at++] = temporary;
  frame.expansion = temporary;
}

void ElementProgram::runSpan(const void *const *in, void *const *out, void *scratch, executable::RunContext &context,
                             int64_t count) const noexcept {
  Frame frame;
  frame.context = &context;
  bind(frame, in, out, scratch, block_);
  runFlat(frame, 0, count, block_);
}

void ElementProgram::runRange(const void *const *in, void *const *out, void *scratch, executable::RunContext &context,
                              int64_t begin, int64_t end) const noexcept {
  Frame frame;
  frame.context = &context;
  bind(frame, in, out, scratch, flatBlock_);
  runFlat(frame, begin, end, flatBlock_);
}

void ElementProgram::run(const void *const *in, void *const *out, void *scratch, executable::RunContext &context,
                         int task) const noexcept {
  const int64_t begin = task * perTask_;
  if (loop.mode == ElementLoop::Mode::kFlat)
    return runRange(in, out, scratch, context, begin, std::min(begin + perTask_, loop.elements));
  Frame frame;
  frame.context = &context;
  bind(frame, in, out, scratch, block_);
  if (loop.mode == ElementLoop::Mode::kExpanded)
    return runExpanded(frame, begin, std::min(begin + perTask_, loop.elements));
  const int64_t inner = loop.dims.back(), pieces = ceilDiv(inner, block_);
  runRows(frame, begin, std::min(begin + perTask_, inner == 0 ? 0 : loop.elements / inner * pieces));
}

void ElementProgram::runFlat(Frame &frame, int64_t begin, int64_t end, int64_t block) const noexcept {
  if (code.size() == 1) block = end - begin;  // one instruction keeps no results in the cache
  for (int64_t position = begin; position < end; position += block) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].access == Access::kFull) frame.pointers[i] = frame.in[i] + position * inputs[i].bytes;
    runBlock(frame, position, std::min(block, end - position));
  }
}

void ElementProgram::runRows(Frame &frame, int64_t begin, int64_t end) const noexcept {
  if (begin >= end) return;
  const int64_t inner = loop.dims.back(), pieces = ceilDiv(inner, block_);
  int64_t row = begin / pieces, piece = begin % pieces;
  RowWalk walk(loop, inputs, row);
  RowsAhead ahead(loop, inputs, walk);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t column = piece * block_, position = row * inner + column;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ElementOperand &o = inputs[i];
      if (o.access == Access::kFull) frame.pointers[i] = frame.in[i] + position * o.bytes;
      if (o.access == Access::kBroadcast)
        frame.pointers[i] = frame.in[i] + (walk.offset(i) + column * o.strides.back()) * o.bytes;
    }
    runBlock(frame, position, std::min(block_, inner - column));
    if (++piece < pieces) continue;
    piece = 0;
    ++row;
    walk.next();
    ahead.next(frame.in);
  }
}

void ElementProgram::runExpanded(Frame &frame, int64_t begin, int64_t end) const noexcept {
  if (begin >= end) return;
  const int64_t inner = loop.dims.back();
  RowWalk walk(loop, inputs, begin / inner);
  int64_t column = begin % inner;
  for (int64_t position = begin; position < end; position += block_) {
    const int64_t count = std::min(block_, end - position);
    char *buffer = frame.expansion;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].access == Access::kFull) frame.pointers[i] = frame.in[i] + position * inputs[i].bytes;
      if (inputs[i].access != Access::kBroadcast) continue;
      frame.pointers[i] = buffer;
      buffer += block_ * kRegisterBytes;
    }
    for (int64_t done = 0; done < count;) {
      const int64_t run = std::min(inner - column, count - done);
      for (size_t i = 0; i < inputs.size(); ++i) {
        const ElementOperand &o = inputs[i];
        if (o.access != Access::kBroadcast) continue;
        char *to = static_cast<char *>(const_cast<void *>(frame.pointers[i])) + done * o.bytes;
        copyRun(to, frame.in[i] + (walk.offset(i) + column * o.strides.back()) * o.bytes, o.bytes, o.strides.back(),
                run);
      }
      done += run;
      column += run;
      if (column < inner) continue;
      column = 0;
      walk.next();
    }
    runBlock(frame, position, count);
  }
}

void ElementProgram::runBlock(const Frame &frame, int64_t position, int64_t count) const noexcept {
  const void *pointers[kMaxPointers];
  const size_t total = inputs.size() + outputBytes.size() + constants.size() + static_cast<size_t>(temporaries);
  std::copy_n(frame.pointers, total, pointers);
  for (size_t o = 0; o < outputBytes.size(); ++o)
    pointers[inputs.size() + o] = frame.out[o] + position * outputBytes[o];
  for (const ElementInstruction &c : code) {
    const void *in[3] = {pointers[c.in[0]], c.in[1] < 0 ? nullptr : pointers[c.in[1]],
                         c.in[2] < 0 ? nullptr : pointers[c.in[2]]};
    if (c.check != ElementCheck::None) {
      checkElements(c.check, c.checked, in, count, {position, c.type, frame.context});
      continue;
    }
    c.fn(in, const_cast<void *>(pointers[c.out]), count, c.parameters.data());
  }
  for (size_t o = 0; o < padding.size(); ++o)
    if (padding[o].group > 0) clearPadding(padding[o], frame.out[o], outputBytes[o], position, count);
}

ElementRuns::ElementRuns(const ElementProgram &program, void *scratch) noexcept : program_(program) {
  const void **next = pointers_ + program.inputs.size() + program.outputBytes.size();
  for (const uint64_t &c : program.constants) *next++ = &c;
  auto *temporary = static_cast<char *>(scratch);
  for (int t = 0; t < program.temporaries; ++t, temporary += program.block_ * kRegisterBytes) *next++ = temporary;
}

void ElementRuns::run(int64_t count) const noexcept {
  for (const ElementInstruction &c : program_.code) {
    const void *in[3] = {pointers_[c.in[0]], c.in[1] < 0 ? nullptr : pointers_[c.in[1]],
                         c.in[2] < 0 ? nullptr : pointers_[c.in[2]]};
    c.fn(in, const_cast<void *>(pointers_[c.out]), count, c.parameters.data());
  }
}

void ElementProgram::clearPadding(const ElementPadding &p, void *out, int bytes, int64_t position,
                                  int64_t count) const noexcept {
  for (int64_t at = position; at < position + count; at += p.panel) {
    if (at % p.group < p.start) continue;
    std::memset(static_cast<char *>(out) + (at + p.valid) * bytes, 0, static_cast<size_t>((p.panel - p.valid) * bytes));
  }
}

}  // namespace popart::cpu
