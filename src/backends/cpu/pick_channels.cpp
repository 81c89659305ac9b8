// PickChannels: each channel of the result is a channel of some input. For channels last, runs of channels that are
// evenly spaced on both sides are copied pixel by pixel, in blocks of pixels whose result fits in the first level
// cache. In plain memory, channels are planes.
#include "backends/cpu/pick_channels.hpp"

#include <algorithm>
#include <cstring>

#include <popart/op.hpp>

#include "backends/cpu/spatial.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// Channels from, from + fromStep, … of an input become to, to + toStep, … of the result.
struct ChannelRun {
  int64_t from, to, count, fromStep = 1, toStep = 1;

  bool takes(int64_t nextFrom, int64_t nextTo) const {
    return count == 1 || (nextFrom == from + count * fromStep && nextTo == to + count * toStep);
  }
  void add(int64_t nextFrom, int64_t nextTo) {
    if (count == 1) fromStep = nextFrom - from, toStep = nextTo - to;
    ++count;
  }
};

using RunsOfInputs = std::vector<std::vector<ChannelRun>>;
RunsOfInputs channelRunsOf(const std::vector<int64_t> &inputs, const std::vector<int64_t> &channels, size_t count) {
  RunsOfInputs runs(count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<ChannelRun> &own = runs[static_cast<size_t>(inputs[i])];
    const auto to = static_cast<int64_t>(i);
    if (own.empty() || !own.back().takes(channels[i], to))
      own.push_back({channels[i], to, 1});
    else
      own.back().add(channels[i], to);
  }
  return runs;
}

template <class T>
class PickFromPixels final : public executable::HostKernel {
 public:
  // `widths`: number of channels of each input.
  PickFromPixels(RunsOfInputs runs, std::vector<int64_t> widths, int64_t width, int64_t pixels)
      : runs_(std::move(runs)), widths_(std::move(widths)), width_(width), pixels_(pixels) {
    constexpr int64_t kBlock = int64_t{1} << 13;  // bytes
    block_ = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, width * int64_t{sizeof(T)}));
    tasks_ = static_cast<int>(taskCount(pixels * width, int64_t{1} << 14, pixels));
  }
  std::string name() const override { return "pick channels"; }
  int tasks() const override { return tasks_; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const int64_t begin = pixels_ * task / tasks_, end = pixels_ * (task + 1) / tasks_;
    for (int64_t pixel = begin; pixel < end; pixel += block_) {
      const int64_t count = std::min(block_, end - pixel);
      T *to = static_cast<T *>(args.out[0]) + pixel * width_;
      for (size_t i = 0; i < runs_.size(); ++i)
        for (const ChannelRun &r : runs_[i])
          copy(r, static_cast<const T *>(args.in[i]) + pixel * widths_[i], widths_[i], to, count);
    }
  }

 private:
  void copy(const ChannelRun &r, const T *from, int64_t fromWidth, T *to, int64_t pixels) const noexcept {
    from += r.from, to += r.to;
    for (int64_t p = 0; p < pixels; ++p, from += fromWidth, to += width_) {
      if (r.fromStep == 1 && r.toStep == 1) {
        std::memcpy(to, from, static_cast<size_t>(r.count) * sizeof(T));
      } else if (r.fromStep == 1) {
        for (int64_t c = 0; c < r.count; ++c) to[c * r.toStep] = from[c];
      } else {
        for (int64_t c = 0; c < r.count; ++c) to[c * r.toStep] = from[c * r.fromStep];
      }
    }
  }

  RunsOfInputs runs_;
  std::vector<int64_t> widths_;
  int64_t width_, pixels_, block_ = 1;
  int tasks_ = 1;
};

class PickPlanes final : public executable::HostKernel {
 public:
  PickPlanes(const KernelRequest &request, int64_t bytes)
      : inputs_(request.op->attrInts("inputs")), channels_(request.op->attrInts("channels")) {
    const ChannelRows y = channelRows(request.outputs[0].info.shape());
    planes_ = y.n * y.channels, plane_ = y.places * bytes;
    for (const auto &o : request.inputs) widths_.push_back(channelRows(o.info.shape()).channels);
    tasks_ = static_cast<int>(taskCount(planes_ * plane_, int64_t{1} << 16, planes_));
  }
  std::string name() const override { return "pick planes"; }
  int tasks() const override { return tasks_; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const auto width = static_cast<int64_t>(channels_.size());
    for (int64_t p = planes_ * task / tasks_; p < planes_ * (task + 1) / tasks_; ++p) {
      const auto c = static_cast<size_t>(p % width), input = static_cast<size_t>(inputs_[c]);
      const int64_t from = p / width * widths_[input] + channels_[c];
      std::memcpy(static_cast<char *>(args.out[0]) + p * plane_,
                  static_cast<const char *>(args.in[input]) + from * plane_, static_cast<size_t>(plane_));
    }
  }

 private:
  std::vector<int64_t> inputs_, channels_, widths_;
  int64_t planes_ = 0, plane_ = 0;  // bytes per plane
  int tasks_ = 1;
};

}  // namespace

std::unique_ptr<executable::Kernel> createPickChannels(const KernelRequest &request, std::string &reason) {
  if (allPlain(request, reason)) {
    const int64_t bytes = movedBytes(request, reason);
    return bytes == 0 ? nullptr : std::make_unique<PickPlanes>(request, bytes);
  }
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const auto &o : *list)
      if (!isChannelsLast(o))
        return reason = "it takes channels last, or all plain: got " + executable::layoutName(o.layout), nullptr;
  RunsOfInputs runs =
      channelRunsOf(request.op->attrInts("inputs"), request.op->attrInts("channels"), request.inputs.size());
  std::vector<int64_t> widths;
  for (const auto &o : request.inputs) widths.push_back(channelRows(o.info.shape()).channels);
  const ChannelRows y = channelRows(request.outputs[0].info.shape());
  const auto make = [&](auto element) {
    return std::make_unique<PickFromPixels<decltype(element)>>(std::move(runs), std::move(widths), y.channels,
                                                               y.rows());
  };
  const int64_t bytes = getDataTypeInfo(request.outputs[0].info.dataType()).nbytes;
  if (bytes == 1) return make(uint8_t());
  if (bytes == 2) return make(uint16_t());
  if (bytes == 4) return make(uint32_t());
  if (bytes == 8) return make(uint64_t());
  return reason = "it moves no elements of " + std::to_string(bytes) + " bytes", nullptr;
}

}  // namespace popart::cpu
