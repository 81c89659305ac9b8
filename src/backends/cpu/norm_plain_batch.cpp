// Batch normalisation of activations in plain memory, row by row. It takes one pass if statistics are given, and two
// rounds with those of the batch: moments of all parts; their merge, and the result.
#include <cmath>

#include <popart/op.hpp>

#include "backends/cpu/batch_statistics.hpp"
#include "backends/cpu/layer_norm.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/row_sets.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

const float *floatsIn(const KernelArgs &args, int i) { return static_cast<const float *>(args.in[i]); }

class PlainBatchNorm final : public executable::HostKernel {
 public:
  PlainBatchNorm(const ChannelRows &x, float epsilon)
      : sets_(RowSets::ofGroups(x, 1)), epsilon_(epsilon), tasks_(sets_.tasks()) {}
  std::string name() const override { return "batch normalisation of plain memory"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  bool canOverwrite(int input, int output) const override { return input == 0 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    for (int64_t i = sets_.parts() * task / tasks_; i < sets_.parts() * (task + 1) / tasks_; ++i) {
      const RowSets::Part part = sets_.part(i);
      const int64_t c = part.channel;
      const float scale = floatsIn(args, 1)[c] / std::sqrt(floatsIn(args, 4)[c] + epsilon_);
      normaliseRow(floatsIn(args, 0) + part.begin, static_cast<float *>(args.out[0]) + part.begin, part.count,
                   floatsIn(args, 3)[c], scale, floatsIn(args, 2)[c]);
    }
  }

 private:
  RowSets sets_;
  float epsilon_;
  int64_t tasks_;
};

class PlainBatchNormTraining final : public executable::HostKernel {
 public:
  PlainBatchNormTraining(const ChannelRows &x, const Op &op, size_t outputs)
      : sets_(RowSets::ofChannels(x)), statistics_(op, outputs, sets_.setSize()) {
    rounds_.add(sets_.tasks(), 1);
    rounds_.add(sets_.tasks(), 2);
  }
  std::string name() const override { return "batch normalisation training of plain memory"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t sharedBytes() const override { return sets_.parts() * static_cast<int64_t>(sizeof(Moments)); }
  double bytes() const override {  // x is read twice
    return Kernel::bytes() + sizeof(float) * static_cast<double>(sets_.elements());
  }
  bool canOverwrite(int input, int output) const override { return BatchStatistics::canOverwrite(input, output); }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    const int64_t tasks = rounds_.size(place.round), end = sets_.parts() * (place.task + 1) / tasks;
    auto *moments = static_cast<Moments *>(args.shared);
    Moments all;
    int64_t set = -1;
    for (int64_t i = sets_.parts() * place.task / tasks; i < end; ++i) {
      const RowSets::Part part = sets_.part(i);
      const float *x = floatsIn(args, 0) + part.begin;
      if (place.round == 0) {
        moments[i] = momentsOf(x, part.count);
        continue;
      }
      if (part.set != set) all = momentsOfSet(moments, set = part.set);
      const double variance = all.squares / sets_.setSize();
      if (part.isFirst) statistics_.write(args, part.channel, all.mean, variance);
      normaliseRow(x, static_cast<float *>(args.out[0]) + part.begin, part.count, static_cast<float>(all.mean),
                   statistics_.scale(args, part.channel, variance), floatsIn(args, 2)[part.channel]);
    }
  }

 private:
  Moments momentsOfSet(const Moments *moments, int64_t set) const {
    Moments all;
    for (int64_t i = set * sets_.partsOfSet(); i < (set + 1) * sets_.partsOfSet(); ++i) all.merge(moments[i]);
    return all;
  }

  RowSets sets_;
  BatchStatistics statistics_;
  Rounds rounds_;
};

}  // namespace

std::unique_ptr<executable::Kernel> plainBatchNorm(const KernelRequest &request) {
  const Op &op = *request.op;
  const ChannelRows x = channelRows(request.inputs[0].info.shape());
  if (op.attrInt("training_mode") == 0) return std::make_unique<PlainBatchNorm>(x, op.attrFloat("epsilon"));
  return std::make_unique<PlainBatchNormTraining>(x, op, request.outputs.size());
}

}  // namespace popart::cpu
