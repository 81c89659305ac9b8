// Convolutions and their gradients on kernels/conv, for channels-last activations and panel-packed weights; those with
// one input channel per group also for plain activations (kernels/conv_planes).
#include <algorithm>
#include <optional>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/kernels/conv.hpp"
#include "backends/cpu/kernels/conv_planes.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/pixel_reduction.hpp"
#include "backends/cpu/prologue_program.hpp"
#include "backends/cpu/spatial.hpp"
#include "backends/cpu/weight_update.hpp"
#include "ops/nn/window.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

Spatial spatialInts(const std::vector<int64_t> &values, int64_t fill) {
  Spatial s = {fill, fill, fill};
  for (size_t i = 0; i < values.size(); ++i) s[3 - (values.size() - i)] = values[i];
  return s;
}

// x (N, C, …), w (M, C/g, …), y (N, M, …). The upper pads are those that give exactly the size of y. `type`: of all
// three.
std::optional<ConvShape> convShape(const Op &op, const Shape &x, const Shape &w, const Shape &y, DataType type,
                                   std::string &reason) {
  if (x.size() < 3 || x.size() > 5) return reason = "it takes one to three spatial dimensions", std::nullopt;
  if (type != DataType::FLOAT && !isHalf(type)) return reason = "it takes no " + toText(type), std::nullopt;
  ConvShape s;
  s.type = type;
  s.anySumOrder = op.hasAttr(ops::kAnySumOrder);
  s.n = x[0], s.cin = x[1], s.cout = w[0];
  s.groups = op.attrInt("group");
  s.in = spatialOf(x), s.kernel = spatialOf(w);
  s.stride = spatialInts(op.attrInts("strides"), 1);
  s.dilation = spatialInts(op.attrInts("dilations"), 1);
  const auto &pads = op.attrInts("pads");
  s.padLow = spatialInts({pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2)}, 0);
  const Spatial out = spatialOf(y);
  for (size_t d = 0; d < 3; ++d)
    s.padHigh[d] = (out[d] - 1) * s.stride[d] + s.dilation[d] * (s.kernel[d] - 1) + 1 - s.in[d] - s.padLow[d];
  if (isHalf(type) && s.joinsGroups()) return reason = "with few channels in a group it takes FLOAT only", std::nullopt;
  return s;
}

bool requireWeights(const OperandDesc &w, const ConvShape &s, std::string &reason,
                    Transposed transposed = Transposed::kNo) {
  if (w.info.dataType() == s.type && w.layout == convPanels(w.info.shape(), s.groups, transposed)) return true;
  reason = "its weights must be " + toText(s.type) + " in convolution panels: got " + toText(w.info.dataType()) + " " +
           executable::layoutName(w.layout);
  return false;
}

// Of a convolution by Conv, the class of the plan.
template <class Conv>
std::string algorithmOf(const Conv &conv) {
  return conv.usesWinograd() ? " winograd" : "";
}

std::string kindOf(const ConvShape &s) {
  const std::string groups = s.isDepthwise() ? " depthwise" : s.groups > 1 ? " grouped" : "";
  return groups + (s.type == DataType::FLOAT16 ? " float16" : s.type == DataType::BFLOAT16 ? " bfloat16" : "");
}

// Sets the pixel strides of x and y if they are slices of channels, which not every plan supports.
bool takeSlices(ConvShape &s, const OperandDesc &x, const OperandDesc &y, std::string &reason) {
  s.xStride = strideOfSlice(x), s.yStride = strideOfSlice(y);
  if ((s.xStride == 0 && s.yStride == 0) || (s.type == DataType::FLOAT && !s.joinsGroups())) return true;
  return reason = "it takes slices of channels in FLOAT, and not where groups have few channels", false;
}

constexpr const char *kOfPlanes = " of plain memory";

// Whether the convolution reads and writes planes: activations in plain memory that is not also channels last.
bool takesPlanes(const ConvShape &s, std::initializer_list<const OperandDesc *> activations) {
  const auto isPlain = [](const OperandDesc *o) { return !o->layout; };
  const auto isEither = [](const OperandDesc *o) { return isChannelsLast(*o); };
  return s.type == DataType::FLOAT && s.groups > 1 && s.groups == s.cin && PlanePlan::fits(s) &&
         std::ranges::all_of(activations, isPlain) && !std::ranges::all_of(activations, isEither);
}

// Layout of a convolution's activations: planes, or channels last. Its operands and its only result may be slices of
// channels. The epilogue of such a result may not read tensors of the result's shape, because their pixels have another
// stride.
struct ActivationLayout {
  bool planes;
  DataType type;
  bool requireRead(const OperandDesc &o, std::string &reason) const {
    return planes ? requirePlain(o, type, reason) : requirePixels(o, reason, type);
  }
  // Checks the results, and the inputs from `first` to `end`, which are activations if they have the first result's
  // shape.
  bool requireAround(const KernelRequest &request, size_t first, size_t end, std::string &reason) const {
    const Shape &shape = request.outputs[0].info.shape();
    const bool writesSlice = request.outputs.size() == 1 && strideOfSlice(request.outputs[0]) > 0;
    for (const OperandDesc &o : request.outputs)
      if (o.connected && !(writesSlice ? requireRead(o, reason) : require(o, reason))) return false;
    for (size_t i = first; i < end && writesSlice; ++i)
      if (request.inputs[i].info.shape() == shape)
        return reason = "its epilogue reads operands with the pixels of y", false;
    return requireOperands(request, first, end, shape, reason);
  }
  bool requireOperands(const KernelRequest &request, size_t first, size_t end, const Shape &activation,
                       std::string &reason) const {
    for (size_t i = first; i < end; ++i) {
      const OperandDesc &o = request.inputs[i];
      if (o.info.shape() == activation ? !require(o, reason) : !requirePlain(o, type, reason)) return false;
    }
    return true;
  }

 private:
  bool require(const OperandDesc &o, std::string &reason) const {
    return planes ? requirePlain(o, type, reason) : requireChannelsLast(o, reason, type);
  }
};

// ---- forward and data gradient ------------------------------------------------------------------

enum class Bias { None, Given };

// Output `to`: the means of output `of` over the pixels of each image. Tasks compute channels of whole images.
struct ChannelMeans {
  size_t of, to;
  PixelReduction reduction;
};

// The prologue and epilogue of a convolution.
struct ConvEnds {
  Bias bias = Bias::None;
  MatchedEpilogue epilogue;
  std::shared_ptr<const CompiledPrologue> prologue;
  int firstOperand = 0;          // input of the op that is the epilogue's first operand
  int firstPrologueOperand = 0;  // the same for the prologue
  std::optional<ChannelMeans> means;
};

// Conv: class of the plan.
template <class Conv>
class ConvKernel final : public executable::HostKernel {
 public:
  ConvKernel(std::string name, ConvEnds ends, Conv conv)
      : name_(std::move(name)), ends_(std::move(ends)), conv_(std::move(conv)) {}
  std::string name() const override { return name_; }
  int tasks() const override { return conv_.tasks(); }
  double share(int task) const override { return conv_.share(task); }
  int64_t scratchBytes() const override {
    return static_cast<int64_t>(conv_.scratchFloats() * sizeof(float)) + ends_.epilogue.scratchBytes() +
           prologueBytes();
  }
  bool canOverwrite(int input, int output) const override {
    return input < ends_.firstPrologueOperand && ends_.epilogue.canOverwrite(input - ends_.firstOperand, output);
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    ends_.epilogue.bind(args, ends_.firstOperand, [&](Epilogue e, float *scratch) {
      if (ends_.bias == Bias::Given) e.bias = args.in[2], e.addsBiasExactly = true;
      runWith(e, args, task, scratch);
    });
  }

 private:
  int64_t prologueBytes() const { return ends_.prologue ? ends_.prologue->scratchBytes() : 0; }
  void runWith(const Epilogue &e, const KernelArgs &args, int task, float *scratch) const noexcept {
    void *y = args.out[ends_.epilogue.output];
    if constexpr (std::is_same_v<Conv, ConvForward>)
      if (ends_.prologue) {
        BoundPrologue rows(*ends_.prologue, args.in[0], args.in + ends_.firstPrologueOperand, scratch);
        float *rest = scratch + prologueBytes() / static_cast<int64_t>(sizeof(float));
        return conv_.run(task, args.in[0], args.in[1], y, e, rest, &rows);
      }
    conv_.run(task, args.in[0], args.in[1], y, e, scratch);
    if constexpr (std::is_same_v<Conv, ConvForward>)
      if (ends_.means) writeMeans(*ends_.means, args, task, scratch);
  }
  void writeMeans(const ChannelMeans &means, const KernelArgs &args, int task, float *scratch) const noexcept {
    const ImageChannels c = conv_.channelsOf(task);
    means.reduction.reduce(args.out[means.of], c.image, c.first, c.count, args.out[means.to], scratch);
  }

  std::string name_;
  ConvEnds ends_;
  Conv conv_;
};

// The graph that an attribute of the op refers to.
const Graph &bodyOf(const Op &op, const char *attribute) {
  return op.getIr().getGraph(op.attributes().getAttribute<GraphRef>(attribute).id);
}

// Compiles the op's epilogue, if it has one, for the product of `target`.
bool takeEpilogue(const KernelRequest &request, const EpilogueTarget &target, ConvEnds &ends, std::string &reason) {
  ends.epilogue.type = request.inputs[0].info.dataType();
  if (!request.op->hasAttr("epilogue")) return true;
  auto matched = matchEpilogue(bodyOf(*request.op, "epilogue"), target, reason);
  if (matched) ends.epilogue = std::move(*matched);
  return matched.has_value();
}

// `request`: without the means.
std::unique_ptr<executable::Kernel> createConv(const KernelRequest &request, const std::optional<ChannelMeans> &means,
                                               std::string &reason) {
  const Op &op = *request.op;
  const DataType type = request.inputs[0].info.dataType();
  auto shape = convShape(op, request.inputs[0].info.shape(), request.inputs[1].info.shape(),
                         request.outputs[0].info.shape(), type, reason);
  if (!shape || !requireWeights(request.inputs[1], *shape, reason)) return nullptr;
  if (!takeSlices(*shape, request.inputs[0], request.outputs[0], reason)) return nullptr;
  const bool planes = takesPlanes(*shape, {&request.inputs[0], &request.outputs[0]});
  const ActivationLayout layout{planes, type};
  const bool hasBias = request.inputs.size() > 2 && request.inputs[2].connected;
  if (!layout.requireRead(request.inputs[0], reason) || (hasBias && !requirePlain(request.inputs[2], type, reason)))
    return nullptr;
  ConvEnds ends;
  ends.bias = hasBias ? Bias::Given : Bias::None;
  ends.firstOperand = 3;
  const size_t inputs = request.inputs.size(),
               end = inputs - static_cast<size_t>(op.hasAttr("prologue") ? op.attrInt("prologue_operands") : 0);
  ends.firstPrologueOperand = static_cast<int>(end);
  if (!layout.requireAround(request, 3, end, reason) ||
      !layout.requireOperands(request, end, inputs, request.inputs[0].info.shape(), reason))
    return nullptr;
  const EpilogueTarget target{.columns = shape->cout,
                              .axis = RowAxis::Channels,
                              .hasBias = hasBias,
                              .rows = planes ? RowOperands::kOne : RowOperands::kByColumn};
  if (!takeEpilogue(request, target, ends, reason)) return nullptr;
  const std::string name = "conv" + kindOf(*shape) + (means ? " means" : "");
  if (planes && (op.hasAttr("prologue") || means))
    return reason = "convolutions of planes take no prologue and compute no means", nullptr;
  if (planes) return std::make_unique<ConvKernel<PlaneConv>>(name + kOfPlanes, std::move(ends), PlaneConv(*shape));
  shape->computesX = op.hasAttr("prologue");
  ConvForward conv(*shape, request.threads);
  if (shape->computesX) {
    if (!conv.takesRows())
      return reason =
                 "its prologue costs more there than in a pass of its own: several times for a pixel, for few "
                 "channels at a time, or in tasks that keep threads waiting",
             nullptr;
    ends.prologue = CompiledPrologue::compile(bodyOf(op, "prologue"), shape->pixelOfX(), reason);
    if (!ends.prologue) return nullptr;
  }
  if (means && !conv.takeWholeImages(request.threads))
    return reason = "means of its results cost more there than in a pass of their own", nullptr;
  ends.means = means;
  return std::make_unique<ConvKernel<ConvForward>>(name + algorithmOf(conv), std::move(ends), std::move(conv));
}

std::unique_ptr<executable::Kernel> createConv(const KernelRequest &request, std::string &reason) {
  if (!request.op->hasAttr("means_of")) return createConv(request, std::nullopt, reason);
  const auto of = static_cast<size_t>(request.op->attrInt("means_of"));
  const ChannelRows y = channelRows(request.outputs[of].info.shape());
  const DataType type = request.outputs[of].info.dataType();
  KernelRequest others = request;
  others.outputs.pop_back();
  if (others.outputs[of].layout != executable::channelsLast() || !requirePlain(request.outputs.back(), type, reason))
    return reason = "its means are of a tensor with channels last, as plain memory", nullptr;
  return createConv(others, ChannelMeans{of, others.outputs.size(), {y.n, y.places, y.channels, type, Reduction::Mean}},
                    reason);
}

// Each position within a stride needs a separate product, and a file may give any stride.
constexpr int64_t kMostPhases = 4096;

bool requireFewPhases(const ConvShape &shape, std::string &reason) {
  int64_t phases = 1;
  for (const int64_t stride : shape.stride)
    phases = std::min(phases, kMostPhases + 1) * std::min(stride, kMostPhases + 1);
  if (phases > kMostPhases) reason = "strides are too long";
  return phases <= kMostPhases;
}

std::unique_ptr<executable::Kernel> createDataGradient(const KernelRequest &request, std::string &reason) {
  const DataType type = request.inputs[0].info.dataType();
  auto shape = convShape(*request.op, request.outputs[0].info.shape(), request.inputs[1].info.shape(),
                         request.inputs[0].info.shape(), type, reason);
  if (!shape || !requireWeights(request.inputs[1], *shape, reason, Transposed::kYes)) return nullptr;
  if (!takeSlices(*shape, request.outputs[0], request.inputs[0], reason)) return nullptr;
  if (!requireFewPhases(*shape, reason)) return nullptr;
  const bool planes =
      PlaneConv::hasDataGradient(*shape) && takesPlanes(*shape, {&request.inputs[0], &request.outputs[0]});
  const ActivationLayout layout{planes, type};
  const size_t inputs = request.inputs.size();
  if (!layout.requireRead(request.inputs[0], reason) || !layout.requireAround(request, 2, inputs, reason))
    return nullptr;
  ConvEnds ends;
  ends.firstOperand = 2, ends.firstPrologueOperand = static_cast<int>(inputs);
  const EpilogueTarget target{
      .columns = shape->cin, .axis = RowAxis::Channels, .rows = planes ? RowOperands::kOne : RowOperands::kByColumn};
  if (!takeEpilogue(request, target, ends, reason)) return nullptr;
  // For gradients of normalisations and similar ops, a separate pass over whole vectors is faster (decision 0092).
  if (ends.epilogue.program && !ends.epilogue.program->matrices().empty())
    return reason = "its epilogue is a program that reads tensors of the product's shape", nullptr;
  const std::string name = "conv data gradient" + kindOf(*shape);
  if (planes)
    return std::make_unique<ConvKernel<PlaneConv>>(name + kOfPlanes, std::move(ends), PlaneConv::dataGradient(*shape));
  ConvDataGradient conv(*shape, request.threads);
  return std::make_unique<ConvKernel<ConvDataGradient>>(name + algorithmOf(conv), std::move(ends), std::move(conv));
}

// ---- weight gradient ----------------------------------------------------------------------------

template <class Conv>
class WeightGradientKernel final : public executable::HostKernel {
 public:
  WeightGradientKernel(std::string name, DataType type, std::optional<WeightUpdate> update, Conv conv)
      : name_(std::move(name)), type_(type), update_(std::move(update)), conv_(std::move(conv)) {}
  std::string name() const override { return name_ + (update_ ? " update" : ""); }
  int tasks() const override { return conv_.tasks(); }
  std::span<const int> roundEnds() const override { return conv_.rounds().ends(); }
  int64_t scratchBytes() const override {
    return static_cast<int64_t>(conv_.scratchFloats() * sizeof(float)) + (update_ ? update_->scratchBytes() : 0);
  }
  int64_t sharedBytes() const override { return static_cast<int64_t>(conv_.sharedFloats() * sizeof(float)); }
  double share(int task) const override { return conv_.rounds().share(task); }
  bool canOverwrite(int input, int output) const override { return update_ && update_->canOverwrite(input, output); }
  void run(const KernelArgs &args, int task) const noexcept override {
    auto *weights = static_cast<float *>(args.out[0]);
    const auto run = [&](const Update &update, float *scratch) {
      conv_.run(task, args.in[1], args.in[0], weights, update, scratch, static_cast<float *>(args.shared));
    };
    if (!update_) return run({.base = weights, .type = type_}, static_cast<float *>(args.scratch));
    update_->bind(args, run);
  }

 private:
  std::string name_;
  DataType type_;
  std::optional<WeightUpdate> update_;
  Conv conv_;
};

std::unique_ptr<executable::Kernel> createWeightGradient(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const DataType type = request.inputs[0].info.dataType();
  const auto shape = convShape(op, request.inputs[1].info.shape(), request.outputs[0].info.shape(),
                               request.inputs[0].info.shape(), type, reason);
  if (!shape || !requireWeights(request.outputs[0], *shape, reason)) return nullptr;
  const bool planes = shape->isDepthwise() && takesPlanes(*shape, {&request.inputs[0], &request.inputs[1]});
  if (!planes &&
      (!requireChannelsLast(request.inputs[0], reason, type) || !requireChannelsLast(request.inputs[1], reason, type)))
    return nullptr;
  std::optional<WeightUpdate> update;
  if (op.hasAttr("epilogue")) {
    update = WeightUpdate::descent(request, reason);
    if (!update) update = WeightUpdate::compiled(request, reason);
    if (!update) return nullptr;
  }
  const std::string name = "conv weight gradient" + kindOf(*shape);
  if (planes)
    return std::make_unique<WeightGradientKernel<PlaneWeightGradient>>(name + kOfPlanes, type, std::move(update),
                                                                       PlaneWeightGradient(*shape));
  ConvWeightGradient conv(*shape, request.threads);
  return std::make_unique<WeightGradientKernel<ConvWeightGradient>>(name + algorithmOf(conv), type, std::move(update),
                                                                    std::move(conv));
}

constexpr Entry kConvKernels[] = {{"FusedConv", createConv},
                                  {"ConvDataGrad", createDataGradient},
                                  {"FusedConvDataGrad", createDataGradient},
                                  {"ConvWeightsGrad", createWeightGradient},
                                  {"FusedConvWeightsGrad", createWeightGradient}};

}  // namespace

std::span<const Entry> convKernels() { return kConvKernels; }

}  // namespace popart::cpu
