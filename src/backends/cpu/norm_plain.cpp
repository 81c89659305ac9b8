// Group normalisation of activations in plain memory (N, C, spatial…), where a set (a group of an image's channels) is
// one range. Few large sets are split into leaves, which run in two rounds: moments of the leaves; their merge, and the
// result. Memory is then read twice. The shape alone determines the number of leaves.
#include <algorithm>
#include <cmath>

#include <popart/op.hpp>

#include "backends/cpu/kernels/rows.hpp"
#include "backends/cpu/layer_norm.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/row_sets.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

class PlainGroupNorm final : public executable::HostKernel {
 public:
  PlainGroupNorm(const ChannelRows &x, int64_t groupChannels, float epsilon, size_t outputs)
      : places_(x.places),
        groupChannels_(groupChannels),
        groups_(x.channels / groupChannels),
        sets_(x.n * groups_),
        size_(groupChannels * x.places),
        epsilon_(epsilon),
        outputs_(outputs) {
    constexpr int64_t kLeaf = int64_t{1} << 14, kEnoughSets = 64;
    leaves_ = leafCount(size_, kLeaf, kEnoughSets / std::max<int64_t>(1, sets_));
    if (leaves_ == 1) {
      rounds_.add(taskCount(sets_ * size_, int64_t{1} << 13, sets_), 1);
      return;
    }
    rounds_.add(sets_ * leaves_, 1);
    rounds_.add(sets_ * leaves_, 1);
  }
  std::string name() const override { return "group normalisation of plain memory"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  int64_t sharedBytes() const override {
    return leaves_ == 1 ? 0 : sets_ * leaves_ * static_cast<int64_t>(sizeof(Moments));
  }
  double bytes() const override {  // x is read twice
    return Kernel::bytes() + sizeof(float) * static_cast<double>(sets_ * size_);
  }
  double share(int task) const override { return rounds_.share(task); }
  bool canOverwrite(int input, int output) const override { return input == 0 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const auto *x = static_cast<const float *>(args.in[0]);
    if (leaves_ == 1) {
      const int64_t tasks = rounds_.tasks();
      for (int64_t set = sets_ * task / tasks; set < sets_ * (task + 1) / tasks; ++set)
        normalise(args, set, momentsOf(x + set * size_, size_), 0, size_);
      return;
    }
    const Rounds::Place place = rounds_.place(task);
    const int64_t set = place.task / leaves_, leaf = place.task % leaves_, begin = size_ * leaf / leaves_,
                  end = size_ * (leaf + 1) / leaves_;
    auto *moments = static_cast<Moments *>(args.shared);
    if (place.round == 0) {
      moments[place.task] = momentsOf(x + set * size_ + begin, end - begin);
      return;
    }
    Moments all;
    for (int64_t i = 0; i < leaves_; ++i) all.merge(moments[set * leaves_ + i]);
    normalise(args, set, all, begin, end);
  }

 private:
  // Normalises elements [begin, end) of a set; the task of the first element writes the statistics.
  void normalise(const KernelArgs &args, int64_t set, const Moments &moments, int64_t begin,
                 int64_t end) const noexcept {
    const auto mean = static_cast<float>(moments.mean);
    const double r = 1.0 / std::sqrt(moments.squares / static_cast<double>(size_) + epsilon_);
    if (begin == 0 && outputs_ > 1 && args.out[1]) static_cast<float *>(args.out[1])[set] = mean;
    if (begin == 0 && outputs_ > 2 && args.out[2]) static_cast<float *>(args.out[2])[set] = static_cast<float>(r);
    const float *x = static_cast<const float *>(args.in[0]) + set * size_;
    float *y = static_cast<float *>(args.out[0]) + set * size_;
    for (int64_t at = begin; at < end;) {
      const int64_t ofGroup = at / places_, stop = std::min(end, (ofGroup + 1) * places_),
                    channel = set % groups_ * groupChannels_ + ofGroup;
      const float scale = static_cast<const float *>(args.in[1])[channel],
                  bias = static_cast<const float *>(args.in[2])[channel];
      normaliseRow(x + at, y + at, stop - at, mean, static_cast<float>(r * scale), bias);
      at = stop;
    }
  }

  int64_t places_, groupChannels_, groups_, sets_, size_, leaves_ = 1;
  double epsilon_;
  size_t outputs_;
  Rounds rounds_;
};

}  // namespace

std::unique_ptr<executable::Kernel> plainGroupNorm(const KernelRequest &request, int64_t groupChannels) {
  return std::make_unique<PlainGroupNorm>(channelRows(request.inputs[0].info.shape()), groupChannels,
                                          request.op->attrFloat("epsilon"), request.outputs.size());
}

}  // namespace popart::cpu
