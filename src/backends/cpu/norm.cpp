// Batch and group normalisation over channels-last activations. A set of statistics covers `groupChannels` channels,
// neighbours or `groups` apart, and all pixels of one image; batch normalisation has one channel per set and treats all
// pixels of the batch as one image. A task has a block of channels (whole groups): it reads them twice for mean and
// variance, once to normalise. Large batches run in rounds instead: tasks have ranges of pixels, the leaves of a
// reduction tree, whose sums are added in order. The shape alone determines which of the two is used, and the number of
// leaves.
#include <algorithm>
#include <cmath>

#include <popart/graph.hpp>

#include "backends/cpu/batch_statistics.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/layer_norm.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/columns.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

struct NormPlan {
  int64_t images = 1, places = 1, channels = 1, groupChannels = 1, block = 1;
  bool strided = false;             // group g has the channels g, g + groups, …, so a task has all channels
  DataType type = DataType::FLOAT;  // of the activations

  int64_t blocks() const { return block == 0 ? 0 : (channels + block - 1) / block; }
  int64_t groups() const { return groupChannels == 0 ? 0 : channels / groupChannels; }
  double bytesOf(int64_t elements) const { return static_cast<double>((isHalf(type) ? 2 : 4) * elements); }
  double setSize() const { return static_cast<double>(places * groupChannels); }
  int64_t groupOf(int64_t channel) const { return strided ? channel % groups() : channel / groupChannels; }
  bool beginsGroup(int64_t channel) const { return strided ? channel < groups() : channel % groupChannels == 0; }
};

// `threads` only determines the number of blocks.
NormPlan planOf(const TensorInfo &x, int64_t groupChannels, int threads) {
  const ChannelRows rows = channelRows(x.shape());
  NormPlan p{rows.n, rows.places, rows.channels, groupChannels, 0};
  p.type = x.dataType();
  const int64_t blocks = std::max<int64_t>(8, ceilDiv(int64_t{2} * threads, std::max<int64_t>(1, rows.n))),
                least = std::max<int64_t>(16, ceilDiv(rows.channels / blocks, int64_t{16}) * 16);
  if (groupChannels == 0) return p;  // without channels, there are no elements
  p.block = std::min(rows.channels, (least + groupChannels - 1) / groupChannels * groupChannels);
  return p;
}
NormPlan batchPlan(const TensorInfo &x, int threads) {
  NormPlan p = planOf(x, 1, threads);
  p.places *= p.images;
  p.images = 1;
  return p;
}

// The channels of one task, and its scratch memory: arrays of `count` numbers.
struct Block {
  Block(const NormPlan &plan, int64_t index, void *scratch)
      : begin(index * plan.block),
        count(std::min(plan.block, plan.channels - begin)),
        doubles_(static_cast<double *>(scratch)),
        floats_(reinterpret_cast<float *>(doubles_ + 2 * plan.block)),
        size_(plan.block) {}
  double *sums() const { return doubles_; }
  double *dots() const { return doubles_ + size_; }
  float *values(int i) const { return floats_ + i * size_; }  // i in [0, 4)

  static int64_t scratchBytes(const NormPlan &plan) {
    return plan.block * static_cast<int64_t>(2 * sizeof(double) + 4 * sizeof(float));
  }
  int64_t begin, count;

 private:
  double *doubles_;
  float *floats_;
  int64_t size_;
};

NormPlan groupPlan(const TensorInfo &x, const Op &op, int threads) {
  NormPlan p = planOf(x, x.shape()[1] / op.attrInt("num_groups"), threads);
  p.strided = op.attributes().getAttribute<int64_t>("strided_groups", 0) != 0 && p.groupChannels > 1;
  if (p.strided) p.block = p.channels;
  return p;
}

// Adds the columns of each group; every channel of the group gets the total.
void totalGroups(const NormPlan &p, int64_t count, double *values) {
  if (p.groupChannels == 1) return;
  if (p.strided) {
    const int64_t groups = p.groups();
    for (int64_t c = groups; c < count; ++c) values[c % groups] += values[c];
    for (int64_t c = groups; c < count; ++c) values[c] = values[c % groups];
    return;
  }
  for (int64_t g = 0; g < count; g += p.groupChannels) {
    double total = 0;
    for (int64_t c = g; c < g + p.groupChannels; ++c) total += values[c];
    std::fill_n(values + g, p.groupChannels, total);
  }
}

// Computes mean and variance of every channel's set in one image: the mean in values(0), the variance in sums().
void statistics(const NormPlan &p, const Block &b, const void *x) {
  const Columns columns{p.channels, p.places, b.count, p.type};
  std::fill_n(b.sums(), b.count, 0.0);
  columnSums(columns, x, b.sums());
  totalGroups(p, b.count, b.sums());
  for (int64_t c = 0; c < b.count; ++c) b.values(0)[c] = static_cast<float>(b.sums()[c] / p.setSize());
  std::fill_n(b.sums(), b.count, 0.0);
  columnSquares(columns, x, b.values(0), b.sums());
  totalGroups(p, b.count, b.sums());
  for (int64_t c = 0; c < b.count; ++c) b.sums()[c] /= p.setSize();
}

// An operand, or below a result, from element `at` on.
const void *in(const KernelArgs &args, int i, int64_t at, DataType type) { return elementAt(args.in[i], at, type); }
void *out(const KernelArgs &args, int i, int64_t at, DataType type) { return elementAt(args.out[i], at, type); }

// A number of a parameter or a statistic.
float number(const KernelArgs &args, int i, int64_t at, DataType type) { return numberAt(args.in[i], at, type); }
void setNumber(const KernelArgs &args, int i, int64_t at, DataType type, double value) {
  setNumberAt(args.out[i], at, type, static_cast<float>(value));
}

// Types of operands and results: parameters and statistics may be FLOAT where the activations have 16 bits.
struct NormTypes {
  explicit NormTypes(const KernelRequest &request) {
    for (size_t i = 0; i < request.inputs.size(); ++i) in[i] = request.inputs[i].info.dataType();
    for (size_t i = 0; i < request.outputs.size(); ++i) out[i] = request.outputs[i].info.dataType();
  }
  DataType in[5] = {}, out[3] = {};
};

// Leaves (ranges of the pixels of a batch), and the memory of a batch normalisation in rounds: statistics of every
// channel, for each leaf and for the whole batch.
struct Leaves {
  static constexpr int64_t kElements = int64_t{1} << 14;  // at least, per leaf: 64 KiB of floats
  static constexpr int64_t kWorthRounds = 8;  // with fewer leaves, the barriers between rounds cost too much
  static constexpr int64_t kChannels = 64;    // per task that reduces leaves
  int64_t count = 1, places = 0, channels = 0;
  int64_t ranges = 1;  // of places, tasks of the rounds that add nothing

  explicit Leaves(const NormPlan &p)
      : places(p.places), channels(p.channels), ranges(taskCount(p.places * p.channels, kElements, p.places)) {
    if (p.images == 1 && p.groupChannels == 1) count = leafCount(p.places * p.channels, kElements, p.places);
    if (count < kWorthRounds) count = 1;
  }
  int64_t begin(int64_t leaf) const { return places * leaf / count; }
  int64_t beginOfRange(int64_t range) const { return places * range / ranges; }
  int64_t blocks() const { return ceilDiv(channels, kChannels); }
  int64_t sharedBytes() const {
    if (count == 1) return 0;
    return channels * static_cast<int64_t>(2 * count * int64_t{sizeof(double)} + 4 * int64_t{sizeof(float)});
  }
  // Two numbers per leaf and channel, and four values per channel.
  double *sums(void *shared, int64_t leaf, int64_t which) const {
    return static_cast<double *>(shared) + (2 * leaf + which) * channels;
  }
  float *values(void *shared, int64_t i) const {
    return reinterpret_cast<float *>(static_cast<double *>(shared) + 2 * count * channels) + i * channels;
  }
  double total(void *shared, int64_t which, int64_t channel) const {
    double sum = 0;
    for (int64_t leaf = 0; leaf < count; ++leaf) sum += sums(shared, leaf, which)[channel];
    return sum;
  }
};

// ---- batch normalisation ------------------------------------------------------------------------

class BatchNormInference final : public executable::HostKernel {
 public:
  BatchNormInference(const ChannelRows &rows, const Op &op)
      : rows_(rows), type_(op.inInfo(0).dataType()), epsilon_(op.attrFloat("epsilon")) {
    for (int i = 0; i < 5; ++i) types_[i] = op.inInfo(i).dataType();
    tasks_ = static_cast<int>(taskCount(rows.rows() * rows.channels, int64_t{1} << 15, rows.rows()));
  }
  std::string name() const override { return "batch normalisation"; }
  int tasks() const override { return tasks_; }
  int64_t scratchBytes() const override { return 3 * rows_.channels * static_cast<int64_t>(sizeof(float)); }
  bool canOverwrite(int input, int output) const override { return input == 0 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    float *scale = static_cast<float *>(args.scratch), *shift = scale + rows_.channels, *mean = shift + rows_.channels;
    for (int64_t c = 0; c < rows_.channels; ++c) {
      scale[c] = number(args, 1, c, types_[1]) / std::sqrt(number(args, 4, c, types_[4]) + epsilon_);
      shift[c] = number(args, 2, c, types_[2]), mean[c] = number(args, 3, c, types_[3]);
    }
    const int64_t begin = rows_.rows() * task / tasks_, end = rows_.rows() * (task + 1) / tasks_,
                  at = begin * rows_.channels;
    columnNormalise({rows_.channels, end - begin, rows_.channels, type_}, in(args, 0, at, type_), mean, scale, shift,
                    out(args, 0, at, type_));
  }

 private:
  ChannelRows rows_;
  DataType type_, types_[5];  // of x; then of x, scale, bias, mean, variance
  float epsilon_;
  int tasks_ = 1;
};

class BatchNormTraining final : public executable::HostKernel {
 public:
  BatchNormTraining(const NormPlan &plan, const Op &op, size_t outputs)
      : plan_(plan), statistics_(op, outputs, plan.setSize()), leaves_(plan) {
    if (leaves_.count == 1) {
      rounds_.add(plan.blocks(), 1);
      return;
    }
    for (int pass = 0; pass < 2; ++pass) {
      rounds_.add(leaves_.count, 1);
      rounds_.add(leaves_.blocks(), 0);
    }
    rounds_.add(leaves_.ranges, 2);
  }
  std::string name() const override { return "batch normalisation training"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  int64_t scratchBytes() const override { return leaves_.count == 1 ? Block::scratchBytes(plan_) : 0; }
  int64_t sharedBytes() const override { return leaves_.sharedBytes(); }
  double bytes() const override {  // x is read three times: for the mean, the variance and the result
    return Kernel::bytes() + 2.0 * plan_.bytesOf(plan_.places * plan_.channels);
  }
  double share(int task) const override { return rounds_.share(task); }
  bool canOverwrite(int input, int output) const override { return BatchStatistics::canOverwrite(input, output); }
  void run(const KernelArgs &args, int task) const noexcept override {
    if (leaves_.count > 1) return runRound(args, rounds_.place(task));
    const Block b(plan_, task, args.scratch);
    const DataType type = plan_.type;
    const void *x = in(args, 0, b.begin, type);
    statistics(plan_, b, x);
    for (int64_t c = 0; c < b.count; ++c) {
      b.values(1)[c] = finish(args, b.begin + c, b.values(0)[c], b.sums()[c]);
      b.values(2)[c] = statistics_.shift(args, b.begin + c);
    }
    columnNormalise({plan_.channels, plan_.places, b.count, type}, x, b.values(0), b.values(1), b.values(2),
                    out(args, 0, b.begin, type));
  }

 private:
  // Writes the op's other results for channel k; returns the channel's scale.
  float finish(const KernelArgs &args, int64_t k, double mean, double variance) const noexcept {
    statistics_.write(args, k, mean, variance);
    return statistics_.scale(args, k, variance);
  }

  // Rounds: sums of the leaves; means; squares of the leaves; variances; normalisation.
  void runRound(const KernelArgs &args, const Rounds::Place &place) const noexcept {
    const int64_t channels = plan_.channels;
    const DataType type = plan_.type;
    float *mean = leaves_.values(args.shared, 0), *scale = leaves_.values(args.shared, 1),
          *shift = leaves_.values(args.shared, 2);
    if (place.round % 2 == 1) {
      const int64_t end = std::min(channels, (place.task + 1) * Leaves::kChannels);
      for (int64_t c = place.task * Leaves::kChannels; c < end; ++c) {
        const double moment = leaves_.total(args.shared, 0, c) / plan_.setSize();
        if (place.round == 1)
          mean[c] = static_cast<float>(moment);
        else
          scale[c] = finish(args, c, mean[c], moment), shift[c] = statistics_.shift(args, c);
      }
      return;
    }
    const int64_t begin = place.round == 4 ? leaves_.beginOfRange(place.task) : leaves_.begin(place.task),
                  end = place.round == 4 ? leaves_.beginOfRange(place.task + 1) : leaves_.begin(place.task + 1);
    const Columns columns{channels, end - begin, channels, type};
    const void *x = in(args, 0, begin * channels, type);
    if (place.round == 4) return columnNormalise(columns, x, mean, scale, shift, out(args, 0, begin * channels, type));
    double *sums = leaves_.sums(args.shared, place.task, 0);
    std::fill_n(sums, channels, 0.0);
    if (place.round == 0) return columnSums(columns, x, sums);
    columnSquares(columns, x, mean, sums);
  }

  NormPlan plan_;
  BatchStatistics statistics_;
  Leaves leaves_;
  Rounds rounds_;
};

// ---- group normalisation ------------------------------------------------------------------------

class GroupNorm final : public executable::HostKernel {
 public:
  GroupNorm(const NormPlan &plan, const KernelRequest &request)
      : plan_(plan), types_(request), epsilon_(request.op->attrFloat("epsilon")), outputs_(request.outputs.size()) {}
  std::string name() const override { return "group normalisation"; }
  int tasks() const override { return static_cast<int>(plan_.images * plan_.blocks()); }
  int64_t scratchBytes() const override { return Block::scratchBytes(plan_); }
  bool canOverwrite(int input, int output) const override { return input == 0 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Block b(plan_, task % plan_.blocks(), args.scratch);
    const int64_t image = task / plan_.blocks(), at = image * plan_.places * plan_.channels + b.begin;
    const DataType type = plan_.type;
    statistics(plan_, b, in(args, 0, at, type));
    for (int64_t c = 0; c < b.count; ++c) {
      const double r = 1.0 / std::sqrt(b.sums()[c] + epsilon_);
      b.values(1)[c] = static_cast<float>(r * number(args, 1, b.begin + c, types_.in[1]));
      b.values(2)[c] = number(args, 2, b.begin + c, types_.in[2]);
      if (!plan_.beginsGroup(b.begin + c)) continue;
      const int64_t set = image * plan_.groups() + plan_.groupOf(b.begin + c);
      if (outputs_ > 1 && args.out[1]) setNumber(args, 1, set, types_.out[1], b.values(0)[c]);
      if (outputs_ > 2 && args.out[2]) setNumber(args, 2, set, types_.out[2], r);
    }
    columnNormalise({plan_.channels, plan_.places, b.count, type}, in(args, 0, at, type), b.values(0), b.values(1),
                    b.values(2), out(args, 0, at, type));
  }

 private:
  NormPlan plan_;
  NormTypes types_;
  double epsilon_;
  size_t outputs_;
};

// ---- gradient of both ---------------------------------------------------------------------------

bool hasStatistics(const KernelRequest &request) {
  return request.inputs.size() > 4 && request.inputs[3].connected && request.inputs[4].connected;
}

// dx = r (h - mean(h) - xhat mean(h xhat)), h = g scale; inputs (g, x, scale[, mean, r]); outputs (dx[, dscale,
// dbias]).
class NormGradient final : public executable::HostKernel {
 public:
  NormGradient(const NormPlan &plan, const KernelRequest &request)
      : plan_(plan),
        types_(request),
        epsilon_(request.op->attrFloat("epsilon")),
        hasStatistics_(hasStatistics(request)),
        outputs_(request.outputs.size()),
        leaves_(plan) {
    inRounds_ = hasStatistics_ && leaves_.count > 1;
    if (!inRounds_) {
      rounds_.add(plan.blocks(), 1);
      return;
    }
    rounds_.add(leaves_.count, 2);
    rounds_.add(leaves_.blocks(), 0);
    rounds_.add(leaves_.ranges, 3);
  }
  std::string name() const override { return "normalisation gradient"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  int64_t sharedBytes() const override { return inRounds_ ? leaves_.sharedBytes() : 0; }
  double bytes() const override {  // g and x are read twice: for the sums and for dx
    return Kernel::bytes() + 2.0 * plan_.bytesOf(plan_.images * plan_.places * plan_.channels);
  }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override {
    if (inRounds_) return isHalf(plan_.type) ? plan_.channels * static_cast<int64_t>(sizeof(float)) : 0;
    return Block::scratchBytes(plan_) + 3 * plan_.block * static_cast<int64_t>(sizeof(double));
  }
  bool canOverwrite(int input, int output) const override { return input <= 1 && output == 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    if (inRounds_) return runRound(args, rounds_.place(task));
    double *own = static_cast<double *>(args.scratch);  // dscale, dbias and r of the block
    double *dscale = own, *dbias = own + plan_.block, *r = own + 2 * plan_.block;
    const Block b(plan_, task, own + 3 * plan_.block);
    std::fill_n(dscale, 2 * plan_.block, 0.0);
    for (int64_t image = 0; image < plan_.images; ++image) runImage(args, b, image, dscale, dbias, r);
    for (int64_t c = 0; c < b.count; ++c) {
      if (outputs_ > 1 && args.out[1]) setNumber(args, 1, b.begin + c, types_.out[1], dscale[c]);
      if (outputs_ > 2 && args.out[2]) setNumber(args, 2, b.begin + c, types_.out[2], dbias[c]);
    }
  }

 private:
  // Rounds: sums of the leaves; totals, which are the parameters' gradients; gradient of the activations.
  void runRound(const KernelArgs &args, const Rounds::Place &place) const noexcept {
    const int64_t channels = plan_.channels;
    const DataType type = plan_.type;
    float *scale = leaves_.values(args.shared, 0), *slope = leaves_.values(args.shared, 1),
          *shift = leaves_.values(args.shared, 2);
    if (place.round == 1) {
      const int64_t end = std::min(channels, (place.task + 1) * Leaves::kChannels);
      for (int64_t c = place.task * Leaves::kChannels; c < end; ++c) {
        const float r = number(args, 4, c, types_.in[4]);
        const double sum = leaves_.total(args.shared, 0, c), dot = leaves_.total(args.shared, 1, c) * r,
                     factor = number(args, 2, c, types_.in[2]);
        if (outputs_ > 1 && args.out[1]) setNumber(args, 1, c, types_.out[1], dot);
        if (outputs_ > 2 && args.out[2]) setNumber(args, 2, c, types_.out[2], sum);
        scale[c] = static_cast<float>(r * factor);
        slope[c] = static_cast<float>(double{r} * r * dot * factor / plan_.setSize());
        shift[c] = static_cast<float>(r * sum * factor / plan_.setSize());
      }
      return;
    }
    const int64_t begin = place.round == 2 ? leaves_.beginOfRange(place.task) : leaves_.begin(place.task),
                  end = place.round == 2 ? leaves_.beginOfRange(place.task + 1) : leaves_.begin(place.task + 1),
                  at = begin * channels;
    const Columns columns{channels, end - begin, channels, type};
    const void *g = in(args, 0, at, type), *x = in(args, 1, at, type);
    const float *mean = floatsAt(args.in[3], 0, channels, types_.in[3], static_cast<float *>(args.scratch));
    if (place.round == 2)
      return columnNormaliseGradient(columns, g, x, mean, scale, slope, shift, out(args, 0, at, type));
    double *sums = leaves_.sums(args.shared, place.task, 0), *dots = leaves_.sums(args.shared, place.task, 1);
    std::fill_n(sums, 2 * channels, 0.0);
    columnGradientSums(columns, g, x, mean, sums, dots);
  }

  void readStatistics(const KernelArgs &args, const Block &b, int64_t image, double *r) const {
    if (hasStatistics_) {
      for (int64_t c = 0; c < b.count; ++c) {
        const int64_t set = image * plan_.groups() + plan_.groupOf(b.begin + c);
        b.values(0)[c] = number(args, 3, set, types_.in[3]);
        r[c] = number(args, 4, set, types_.in[4]);
      }
      return;
    }
    statistics(plan_, b, in(args, 1, image * plan_.places * plan_.channels + b.begin, plan_.type));
    for (int64_t c = 0; c < b.count; ++c) r[c] = 1.0 / std::sqrt(b.sums()[c] + epsilon_);
  }

  void runImage(const KernelArgs &args, const Block &b, int64_t image, double *dscale, double *dbias, double *r) const {
    const int64_t at = image * plan_.places * plan_.channels + b.begin;
    const DataType type = plan_.type;
    const void *g = in(args, 0, at, type), *x = in(args, 1, at, type);
    const Columns columns{plan_.channels, plan_.places, b.count, type};
    readStatistics(args, b, image, r);
    std::fill_n(b.sums(), b.count, 0.0);
    std::fill_n(b.dots(), b.count, 0.0);
    columnGradientSums(columns, g, x, b.values(0), b.sums(), b.dots());
    for (int64_t c = 0; c < b.count; ++c) {
      b.dots()[c] *= r[c];
      dscale[c] += b.dots()[c], dbias[c] += b.sums()[c];
      const float scale = number(args, 2, b.begin + c, types_.in[2]);
      b.dots()[c] *= scale, b.sums()[c] *= scale;
    }
    totalGroups(plan_, b.count, b.sums());
    totalGroups(plan_, b.count, b.dots());
    for (int64_t c = 0; c < b.count; ++c) {
      b.values(1)[c] = static_cast<float>(r[c] * number(args, 2, b.begin + c, types_.in[2]));
      b.values(2)[c] = static_cast<float>(r[c] * r[c] * b.dots()[c] / plan_.setSize());
      b.values(3)[c] = static_cast<float>(r[c] * b.sums()[c] / plan_.setSize());
    }
    columnNormaliseGradient(columns, g, x, b.values(0), b.values(1), b.values(2), b.values(3), out(args, 0, at, type));
  }

  NormPlan plan_;
  NormTypes types_;
  double epsilon_;
  bool hasStatistics_, inRounds_ = false;
  size_t outputs_;
  Leaves leaves_;
  Rounds rounds_;
};

// ---- requests -----------------------------------------------------------------------------------

// The first `activations` inputs and output 0 are channels last, of FLOAT or one type of 16 bits; the rest are plain
// parameters and statistics, of FLOAT or that type.
bool takes(const KernelRequest &request, size_t activations, std::string &reason) {
  const DataType given = request.inputs[0].info.dataType(), type = isHalf(given) ? given : DataType::FLOAT;
  const auto fits = [&](const OperandDesc &o, bool isActivation) {
    if (isActivation) return requireChannelsLast(o, reason, type);
    const bool isFloat = o.connected && o.info.dataType() == DataType::FLOAT;
    return requirePlain(o, isFloat ? DataType::FLOAT : type, reason);
  };
  for (size_t i = 0; i < request.inputs.size(); ++i)
    if (!fits(request.inputs[i], i < activations)) return false;
  for (size_t i = 0; i < request.outputs.size(); ++i)
    if (!fits(request.outputs[i], i == 0)) return false;
  return true;
}

// Rows of several pixels in plain memory have separate kernels.
bool areRows(const KernelRequest &request, const Shape &x) {
  std::string otherwise;
  return channelRows(x).places > 1 && elementCount(x) > 0 && allPlain(request, otherwise) &&
         allOfType(request, DataType::FLOAT, otherwise);
}

std::unique_ptr<executable::Kernel> createBatchNorm(const KernelRequest &request, std::string &reason) {
  if (areRows(request, request.inputs[0].info.shape())) return plainBatchNorm(request);
  if (!takes(request, 1, reason)) return nullptr;
  const Op &op = *request.op;
  const TensorInfo &x = request.inputs[0].info;
  if (op.attrInt("training_mode") == 0) return std::make_unique<BatchNormInference>(channelRows(x.shape()), op);
  return std::make_unique<BatchNormTraining>(batchPlan(x, request.threads), op, request.outputs.size());
}

// Whether all channels of an image are one group, and an image has one pixel. Such images are rows; popxl's layer
// normalisation uses them.
bool normalisesRows(const KernelRequest &request, const TensorInfo &x) {
  return x.rank() == 2 && request.op->attrInt("num_groups") == 1;
}

std::unique_ptr<executable::Kernel> createGroupNorm(const KernelRequest &request, std::string &reason) {
  const TensorInfo &x = request.inputs[0].info;
  const NormPlan plan = groupPlan(x, *request.op, request.threads);
  if (plan.groupChannels > 0 && !plan.strided && areRows(request, x.shape()))
    return plainGroupNorm(request, plan.groupChannels);
  if (!takes(request, 1, reason)) return nullptr;
  if (normalisesRows(request, x))
    if (auto kernel = layerNormOver(request, 1, reason)) return kernel;
  return std::make_unique<GroupNorm>(plan, request);
}

std::unique_ptr<executable::Kernel> createBatchNormGradient(const KernelRequest &request, std::string &reason) {
  if (hasStatistics(request) && areRows(request, request.inputs[1].info.shape())) return plainNormGradient(request, 0);
  if (!takes(request, 2, reason)) return nullptr;
  return std::make_unique<NormGradient>(batchPlan(request.inputs[1].info, request.threads), request);
}

std::unique_ptr<executable::Kernel> createGroupNormGradient(const KernelRequest &request, std::string &reason) {
  const TensorInfo &x = request.inputs[1].info;
  const NormPlan plan = groupPlan(x, *request.op, request.threads);
  if (plan.groupChannels > 0 && !plan.strided && hasStatistics(request) && areRows(request, x.shape()))
    return plainNormGradient(request, plan.groupChannels);
  if (!takes(request, 2, reason)) return nullptr;
  if (normalisesRows(request, x))
    if (auto kernel = layerNormGradientOver(request, 1, reason)) return kernel;
  return std::make_unique<NormGradient>(plan, request);
}

constexpr Entry kNormKernels[] = {{"BatchNormalization", createBatchNorm},
                                  {"BatchNormalizationGrad", createBatchNormGradient},
                                  {"GroupNormalization", createGroupNorm},
                                  {"GroupNormalizationGrad", createGroupNormGradient}};

}  // namespace

std::span<const Entry> normKernels() { return kNormKernels; }

}  // namespace popart::cpu
