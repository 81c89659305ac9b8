// Gradient of batch and group normalisation of activations in plain memory, row by row, in two rounds: sums of all
// parts; their totals, and the results. Memory is read twice.
#include <popart/op.hpp>

#include "backends/cpu/layer_norm.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/row_sets.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;

// For the gradient g of the result: the sum of g, and the sum of g (x - mean).
struct GradientSums {
  double sum = 0, dot = 0;
};

// Inputs (g, x, scale, mean, r), outputs (dx[, dscale, dbias]); formulas as in norm.cpp.
class PlainNormGradient final : public executable::HostKernel {
 public:
  PlainNormGradient(const RowSets &sets, size_t outputs) : sets_(sets), outputs_(outputs) {
    rounds_.add(sets_.tasks(), 2);
    rounds_.add(sets_.tasks(), 3);
  }
  std::string name() const override { return "normalisation gradient of plain memory"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t sharedBytes() const override { return sets_.parts() * static_cast<int64_t>(sizeof(GradientSums)); }
  double bytes() const override {  // g and x are read twice
    return Kernel::bytes() + 2.0 * sizeof(float) * static_cast<double>(sets_.elements());
  }
  bool canOverwrite(int input, int output) const override { return input <= 1 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    const int64_t tasks = rounds_.size(place.round), begin = sets_.parts() * place.task / tasks,
                  end = sets_.parts() * (place.task + 1) / tasks;
    auto *sums = static_cast<GradientSums *>(args.shared);
    if (place.round == 0) {
      for (int64_t i = begin; i < end; ++i) sums[i] = sumsOf(args, sets_.part(i));
      return;
    }
    GradientSums all;
    int64_t set = -1;
    for (int64_t i = begin; i < end; ++i) {
      const RowSets::Part part = sets_.part(i);
      if (part.set != set) all = sumsOfSet(args, sums, set = part.set);
      normalise(args, part, all);
    }
    for (int64_t c = sets_.channels() * place.task / tasks; c < sets_.channels() * (place.task + 1) / tasks; ++c)
      writeParameters(args, sums, c);
  }

 private:
  static const float *in(const KernelArgs &args, int i) { return static_cast<const float *>(args.in[i]); }

  static GradientSums sumsOf(const KernelArgs &args, const RowSets::Part &part) {
    GradientSums all;
    for (int64_t at = 0; at < part.count; at += kMomentChunk) {
      const int64_t from = part.begin + at;
      const RowSums chunk = gradientSumsOfRow(in(args, 0) + from, in(args, 1) + from,
                                              std::min(kMomentChunk, part.count - at), in(args, 3)[part.set]);
      all.sum += chunk.sum, all.dot += chunk.dot;
    }
    return all;
  }
  // Sums of g multiplied by the scale of its channel.
  GradientSums sumsOfSet(const KernelArgs &args, const GradientSums *sums, int64_t set) const {
    GradientSums all;
    for (int64_t i = set * sets_.partsOfSet(); i < (set + 1) * sets_.partsOfSet(); ++i) {
      const double scale = in(args, 2)[sets_.part(i).channel];
      all.sum += sums[i].sum * scale, all.dot += sums[i].dot * scale;
    }
    return all;
  }
  void normalise(const KernelArgs &args, const RowSets::Part &part, const GradientSums &all) const {
    const double r = in(args, 4)[part.set];
    const RowGradient row{in(args, 3)[part.set], static_cast<float>(r * in(args, 2)[part.channel]),
                          static_cast<float>(r * r * r * all.dot / sets_.setSize()),
                          static_cast<float>(r * all.sum / sets_.setSize())};
    normaliseGradientRow(row, in(args, 0) + part.begin, in(args, 1) + part.begin,
                         static_cast<float *>(args.out[0]) + part.begin, part.count);
  }
  void writeParameters(const KernelArgs &args, const GradientSums *sums, int64_t channel) const {
    GradientSums all;
    for (int64_t image = 0; image < sets_.images(); ++image) {
      const double r = in(args, 4)[sets_.setOf(image, channel)];
      const GradientSums *parts = sums + sets_.firstPart(image, channel);
      for (int64_t leaf = 0; leaf < sets_.leaves(); ++leaf) all.sum += parts[leaf].sum, all.dot += parts[leaf].dot * r;
    }
    if (outputs_ > 1 && args.out[1]) static_cast<float *>(args.out[1])[channel] = static_cast<float>(all.dot);
    if (outputs_ > 2 && args.out[2]) static_cast<float *>(args.out[2])[channel] = static_cast<float>(all.sum);
  }

  RowSets sets_;
  size_t outputs_;
  Rounds rounds_;
};

}  // namespace

std::unique_ptr<executable::Kernel> plainNormGradient(const KernelRequest &request, int64_t groupChannels) {
  const ChannelRows x = channelRows(request.inputs[1].info.shape());
  return std::make_unique<PlainNormGradient>(
      groupChannels == 0 ? RowSets::ofChannels(x) : RowSets::ofGroups(x, groupChannels), request.outputs.size());
}

}  // namespace popart::cpu
