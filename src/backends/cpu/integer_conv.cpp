// IntegerConv on the tiles of kernels/quad_product: for each image and group the weights, (channels x terms), times the
// values under the windows, (terms x places). A task has channels and places: it copies the values of its places term
// by term, padding where windows leave the image, packs them block by block of terms, and adds.
#include <cstring>

#include <popart/op.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/integer_products.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/kernels/quad_block.hpp"
#include "ops/nn/window.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

constexpr int64_t kTaskPlaces = 256;  // a multiple of every panel's width
constexpr int64_t kTaskChannels = 2 * kQuadRowsAtOnce;

struct IntegerConvProblem {
  ops::Window window;
  Shape in, out;                                  // spatial
  int64_t images, groups, channels, outChannels;  // channels and outChannels: of one group
  bool xIsSigned, wIsSigned, hasXZero, hasWZero, wZeroIsEach;
};

class IntegerConvKernel final : public executable::HostKernel {
 public:
  IntegerConvKernel(IntegerConvProblem problem, int threads)
      : p_(std::move(problem)),
        rank_(p_.window.rank()),
        inSize_(elementCount(p_.in)),
        outSize_(elementCount(p_.out)),
        taps_(elementCount(p_.window.kernel)),
        depth_(p_.channels * taps_),
        strips_(ceilDiv(outSize_, kTaskPlaces)),
        taskChannels_(p_.images * p_.groups * strips_ < 4 * threads ? kTaskChannels : p_.outChannels),
        channelTasks_(p_.outChannels == 0 ? 0 : ceilDiv(p_.outChannels, taskChannels_)) {
    const ops::Window &w = p_.window;
    for (int64_t t = 0; t < taps_; ++t)
      for (int64_t d = 0, size = taps_, rest = t; d < static_cast<int64_t>(rank_); ++d) {
        const auto i = static_cast<size_t>(d);
        size /= w.kernel[i];
        tapOffsets_.push_back(rest / size * w.dilations[i]);
        rest %= size;
      }
    isPointwise_ = taps_ == 1 && p_.in == p_.out;
    for (size_t i = 0; i < rank_; ++i) isPointwise_ = isPointwise_ && w.strides[i] == 1 && w.padsLow[i] == 0;
  }
  std::string name() const override { return "integer conv quads"; }
  int tasks() const override {
    return static_cast<int>(std::max<int64_t>(1, p_.images * p_.groups * channelTasks_ * strips_));
  }
  int64_t scratchBytes() const override {
    return kNumbers + kQuadBlockScratch + kTaskPlaces * (kQuadDepth + 4 + int64_t{sizeof(int64_t)} * lineNumbers());
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    if (p_.images * p_.groups * channelTasks_ * strips_ == 0) return;
    const int64_t place = task % strips_ * kTaskPlaces;
    const int64_t channel = task / strips_ % channelTasks_ * taskChannels_;
    const int64_t plane = task / strips_ / channelTasks_, group = plane % p_.groups;  // plane: of image and group
    const int64_t row = group * p_.outChannels + channel;
    const Scratch s(args.scratch);
    QuadBlock block{.a = static_cast<const uint8_t *>(args.in[1]) + row * depth_,
                    .aStride = depth_,
                    .flip = leftMove(p_.wIsSigned).flip,
                    .leftZeros = QuadZeros{p_.hasWZero ? args.in[3] : nullptr, p_.wIsSigned, p_.wZeroIsEach,
                                           leftMove(p_.wIsSigned).moved}
                                     .from(row),
                    .b = s.packed,
                    .columnSums = s.sums,
                    .sumStride = quadKernels().panelColumns,
                    .rows = std::min(taskChannels_, p_.outChannels - channel),
                    .columns = std::min(kTaskPlaces, outSize_ - place),
                    .out = static_cast<int32_t *>(args.out[0]) + (plane * p_.outChannels + channel) * outSize_ + place,
                    .outStride = outSize_};
    const void *xZero = p_.hasXZero ? args.in[2] : nullptr;
    const QuadZeros rightZeros{xZero, p_.xIsSigned, false, rightMove(p_.xIsSigned).moved};
    std::fill_n(s.zeros, kTaskPlaces, rightZeros.at(0));
    if (rightZeros.any()) block.rightZeros = s.zeros;
    const Source source{static_cast<const uint8_t *>(args.in[0]) + plane * p_.channels * inSize_,
                        xZero ? *static_cast<const uint8_t *>(xZero) : uint8_t{0}, place, block.columns};
    const int64_t lines = isPointwise_ ? 0 : findLines(source, s);
    int64_t k = 0;
    do {  // once without terms too: sums of nothing are zeros
      block.depth = std::min(kQuadDepth, depth_ - k);
      block.adds = k > 0;
      block.panelStride = ceilDiv(block.depth, int64_t{4}) * 4 * quadKernels().panelColumns;
      pack(block, source, k, lines, s);
      multiplyBlock(block, s.block);
      block.a += block.depth, k += block.depth;
    } while (k < depth_);
  }

 private:
  static constexpr int64_t kNumbers = 2 * kTaskPlaces * int64_t{sizeof(int32_t)};

  int64_t lineNumbers() const { return static_cast<int64_t>(rank_) + 2; }

  // Parts of a task's memory: sums and zero points of its columns, what multiplyBlock needs, packed quads, four terms
  // of all places, and the lines of findLines.
  struct Scratch {
    explicit Scratch(void *memory)
        : sums(static_cast<int32_t *>(memory)),
          zeros(sums + kTaskPlaces),
          block(zeros + kTaskPlaces),
          packed(static_cast<int8_t *>(memory) + kNumbers + kQuadBlockScratch),
          rows(reinterpret_cast<uint8_t *>(packed) + kTaskPlaces * kQuadDepth),
          lines(reinterpret_cast<int64_t *>(rows + 4 * kTaskPlaces)) {}
    int32_t *sums, *zeros;
    void *block;
    int8_t *packed;
    uint8_t *rows;
    int64_t *lines;
  };
  static_assert((kNumbers + kQuadBlockScratch + kTaskPlaces * (kQuadDepth + 4)) % int64_t{sizeof(int64_t)} == 0);

  // The channels of one image and group, and the places that a task has of it.
  struct Source {
    const uint8_t *x;
    uint8_t padding;
    int64_t place, count;
  };

  // Cuts the places into pieces of output lines, neighbours along the last dimension. Of each: its first place, how
  // many, and where in the image tap 0 of the first one lies, by dimension. Gives their number.
  int64_t findLines(const Source &source, const Scratch &s) const noexcept {
    int64_t lines = 0, *line = s.lines;
    const int64_t width = p_.out.back();
    for (int64_t place = 0; place < source.count; place += line[1], line += lineNumbers(), ++lines) {
      int64_t rest = source.place + place;
      line[0] = place;
      line[1] = std::min(width - rest % width, source.count - place);
      for (size_t d = rank_; d-- > 0; rest /= p_.out[d])
        line[2 + d] = rest % p_.out[d] * p_.window.strides[d] - p_.window.padsLow[d];
      if (place + line[1] >= source.count) return lines + 1;
    }
    return lines;
  }

  // The values of term k at all places.
  void copyTerm(const Source &source, int64_t k, int64_t lines, const Scratch &s, uint8_t *to) const noexcept {
    const uint8_t *x = source.x + k / taps_ * inSize_;
    const int64_t *tap = tapOffsets_.data() + k % taps_ * static_cast<int64_t>(rank_), *line = s.lines;
    const size_t last = rank_ - 1;
    const int64_t step = p_.window.strides[last], width = p_.in[last];
    for (int64_t i = 0; i < lines; ++i, line += lineNumbers()) {
      int64_t offset = 0;
      bool isInside = true;
      for (size_t d = 0; d < last; ++d) {
        const int64_t at = line[2 + d] + tap[d];
        isInside = isInside && at >= 0 && at < p_.in[d];
        offset = offset * p_.in[d] + at;
      }
      const int64_t count = line[1], first = line[2 + last] + tap[last];
      int64_t begin = 0, end = 0;  // places whose value is in the image
      if (isInside && first < width) {
        begin = std::min(count, first >= 0 ? 0 : step == 1 ? -first : (step - 1 - first) / step);
        end = std::max(begin, std::min(count, step == 1 ? width - first : (width - 1 - first) / step + 1));
      }
      uint8_t *places = to + line[0];
      std::memset(places, source.padding, static_cast<size_t>(begin));
      if (begin < end) {
        const uint8_t *from = x + offset * width + first + begin * step;
        if (step == 1)
          std::memcpy(places + begin, from, static_cast<size_t>(end - begin));
        else
          for (int64_t c = begin; c < end; ++c) places[c] = from[(c - begin) * step];
      }
      std::memset(places + end, source.padding, static_cast<size_t>(count - end));
    }
  }

  // Terms [k, k + block.depth) of all places, as panels.
  void pack(const QuadBlock &block, const Source &source, int64_t k, int64_t lines, const Scratch &s) const noexcept {
    const QuadKernels &kernels = quadKernels();
    const int64_t width = kernels.panelColumns;
    const uint8_t flip = rightMove(p_.xIsSigned).flip;
    for (int64_t q = 0; q < block.depth; q += 4) {
      const int64_t terms = std::min<int64_t>(4, block.depth - q);
      for (int64_t t = 0; !isPointwise_ && t < terms; ++t)
        copyTerm(source, k + q + t, lines, s, s.rows + t * kTaskPlaces);
      const uint8_t *from = isPointwise_ ? source.x + (k + q) * inSize_ + source.place : s.rows;
      const int64_t stride = isPointwise_ ? inSize_ : kTaskPlaces;
      for (int64_t c = 0, panel = 0; c < block.columns; c += width, ++panel)
        kernels.packQuad(from + c, stride, terms, std::min(width, block.columns - c), flip,
                         s.packed + panel * block.panelStride + q * width);
    }
    if (!block.leftZeros.any()) return;
    for (int64_t c = 0, panel = 0; c < block.columns; c += width, ++panel)
      sumColumns(s.packed + panel * block.panelStride, block.depth, s.sums + c);
  }

  const IntegerConvProblem p_;
  const size_t rank_;
  const int64_t inSize_, outSize_, taps_, depth_;
  const int64_t strips_, taskChannels_, channelTasks_;
  std::vector<int64_t> tapOffsets_;  // by tap and dimension
  bool isPointwise_ = false;
};

}  // namespace

std::unique_ptr<executable::Kernel> createIntegerConv(const KernelRequest &request, std::string &reason) {
  if (!allPlain(request, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info, &w = request.inputs[1].info;
  const auto hasZero = [&](size_t i) { return request.inputs.size() > i && request.inputs[i].connected; };
  const int64_t groups = op.attrInt("group");
  return std::make_unique<IntegerConvKernel>(
      IntegerConvProblem{.window = ops::windowOf(op.attributes()),
                         .in = ops::spatialShape(x.shape()),
                         .out = ops::spatialShape(request.outputs[0].info.shape()),
                         .images = x.shape()[0],
                         .groups = groups,
                         .channels = w.shape()[1],
                         .outChannels = w.shape()[0] / groups,
                         .xIsSigned = x.dataType() == DataType::INT8,
                         .wIsSigned = w.dataType() == DataType::INT8,
                         .hasXZero = hasZero(2),
                         .hasWZero = hasZero(3),
                         .wZeroIsEach = hasZero(3) && request.inputs[3].info.nelms() != 1},
      request.threads);
}

}  // namespace popart::cpu
