// Local response normalisation: channels last pixel by pixel, in plain memory by vectors of pixels.
#include <algorithm>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/lrn.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

enum class LrnDirection { Forward, Gradient };

class LrnKernel final : public executable::HostKernel {
 public:
  LrnKernel(const Lrn &lrn, int64_t rows, LrnDirection direction) : lrn_(lrn), rows_(rows), direction_(direction) {
    tasks_ = static_cast<int>(taskCount(rows * lrn.channels, int64_t{1} << 13, rows));
  }
  std::string name() const override { return direction_ == LrnDirection::Forward ? "lrn" : "lrn gradient"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return lrnScratchFloats(lrn_) * static_cast<int64_t>(sizeof(float)); }
  bool canOverwrite(int input, int output) const override { return output == 0 && input <= 1; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const float *first = static_cast<const float *>(args.in[0]);
    float *to = static_cast<float *>(args.out[0]), *scratch = static_cast<float *>(args.scratch);
    for (int64_t r = rows_ * task / tasks_; r < rows_ * (task + 1) / tasks_; ++r) {
      const int64_t at = r * lrn_.channels;
      if (direction_ == LrnDirection::Forward) {
        lrnPixel(lrn_, first + at, to + at, scratch);
      } else {
        lrnGradientPixel(lrn_, first + at, static_cast<const float *>(args.in[1]) + at, to + at, scratch);
      }
    }
  }

 private:
  Lrn lrn_;
  int64_t rows_;
  LrnDirection direction_;
  int tasks_ = 1;
};

// Tasks are ranges of blocks of pixels, which are so short that all their channels stay in the cache.
class PlainLrnKernel final : public executable::HostKernel {
 public:
  PlainLrnKernel(const Lrn &lrn, const ChannelRows &rows, LrnDirection direction)
      : lrn_(lrn), rows_(rows), direction_(direction) {
    constexpr int64_t kBlock = 8192, kLeast = 64;  // floats per block; pixels per block
    block_ = std::min(rows.places, std::max(kLeast, kBlock / std::max<int64_t>(1, lrn.channels) / kLeast * kLeast));
    blocks_ = block_ == 0 ? 0 : ceilDiv(rows.places, block_);
    tasks_ = static_cast<int>(taskCount(rows.rows() * lrn.channels, int64_t{1} << 13, rows.n * blocks_));
  }
  std::string name() const override {
    return direction_ == LrnDirection::Forward ? "lrn of plain memory" : "lrn gradient of plain memory";
  }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override {
    return direction_ == LrnDirection::Forward ? 0 : block_ * lrn_.channels * static_cast<int64_t>(sizeof(float));
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    const float *first = static_cast<const float *>(args.in[0]);
    float *to = static_cast<float *>(args.out[0]), *scratch = static_cast<float *>(args.scratch);
    const int64_t all = rows_.n * blocks_;
    for (int64_t i = all * task / tasks_; i < all * (task + 1) / tasks_; ++i) {
      const int64_t begin = i % blocks_ * block_, at = i / blocks_ * lrn_.channels * rows_.places + begin;
      const LrnPlaces places{rows_.places, std::min(block_, rows_.places - begin)};
      if (direction_ == LrnDirection::Forward)
        lrnPlaces(lrn_, places, first + at, to + at);
      else
        lrnGradientPlaces(lrn_, places, first + at, static_cast<const float *>(args.in[1]) + at, to + at, scratch);
    }
  }

 private:
  Lrn lrn_;
  ChannelRows rows_;
  LrnDirection direction_;
  int64_t block_ = 0, blocks_ = 0;
  int tasks_ = 1;
};

template <LrnDirection kDirection>
std::unique_ptr<executable::Kernel> createLrn(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const ChannelRows rows = channelRows(request.outputs[0].info.shape());
  const Lrn lrn{rows.channels, op.attrInt("size"), op.attrFloat("alpha"), op.attrFloat("beta"), op.attrFloat("bias")};
  if (!allOfType(request, DataType::FLOAT, reason)) return nullptr;
  if (allPlain(request, reason) && rows.places > 1) return std::make_unique<PlainLrnKernel>(lrn, rows, kDirection);
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list)
      if (!requireChannelsLast(o, reason)) return nullptr;
  // Rows have zero padding of the size of a window on both sides.
  if (op.attrInt("size") > 2 * rows.channels + 64)
    return reason = "its window of " + std::to_string(op.attrInt("size")) + " is far wider than the channels", nullptr;
  return std::make_unique<LrnKernel>(lrn, rows.rows(), kDirection);
}

constexpr Entry kLrnKernels[] = {{"LRN", createLrn<LrnDirection::Forward>},
                                 {"LRNGrad", createLrn<LrnDirection::Gradient>}};

}  // namespace

std::span<const Entry> lrnKernels() { return kLrnKernels; }

}  // namespace popart::cpu
