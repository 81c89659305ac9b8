// Registry of the CPU backend: one table per family, searched by op type when an executable is compiled.
#include "backends/cpu/cpu.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <popart/graph.hpp>

#include "backends/cpu/depth_first.hpp"
#include "backends/cpu/integer_products.hpp"
#include "backends/cpu/kernels/instruction_sets.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/layouts/quad_panels.hpp"
#include "backends/cpu/layouts/word_panels.hpp"
#include "backends/cpu/spatial.hpp"

namespace popart::cpu {
namespace {

using executable::Kernel;
using executable::KernelRequest;
using executable::OperandDesc;

class CpuBackend final : public executable::Backend {
 public:
  CpuBackend() {
    requireInstructionSet();
    for (auto table : {matmulKernels(),       elementwiseKernels(),
                       reduceKernels(),       rowwiseKernels(),
                       lossKernels(),         convKernels(),
                       poolKernels(),         normKernels(),
                       lrnKernels(),          spatialMoveKernels(),
                       moveKernels(),         indexKernels(),
                       orderKernels(),        randomKernels(),
                       scatterKernels(),      dynamicKernels(),
                       classLossKernels(),    padKernels(),
                       generalPoolKernels(),  productKernels(),
                       foldKernels(),         depthFirstKernels(),
                       nonFiniteKernels(),    histogramKernels(),
                       smallTypeKernels(),    collectiveUpdateKernels(),
                       resizeKernels(),       integerProductKernels(),
                       attentionKernels(),    selectionKernels(),
                       medianKernels(),       bucketKernels(),
                       roiAlignKernels(),     roiPoolKernels(),
                       ctcKernels(),          packedWeightKernels(),
                       packedProductKernels()})
      for (const Entry &e : table) entries_[e.type].push_back(&e);
    for (const Entry &e : elementwiseKernels()) takeSlices_.insert(e.type);
  }

  std::string name() const override { return "cpu"; }

  std::string variant() const override { return microKernels().instructionSet; }

  const executable::Layout *wantedLayout(const Op &op, Side side, int index) const override {
    if (op.is(Role::FusedMatMul)) return side == Side::In && index == 1 ? weightPanels(op) : nullptr;
    if (op.is(Role::PackedMatMul)) {
      if (side != Side::In || index < 1 || index > 3) return nullptr;
      return index == 1 ? wordPanels() : matrixPanels(Transposed::kYes);
    }
    if (op.is(Role::Conv) || op.is(Role::FusedConv))
      return side == Side::In && index == 1 ? filterPanels(op, op.inShape(1), Transposed::kNo)
                                            : executable::channelsLast();
    if (op.is(Role::ConvDataGrad) || op.is(Role::FusedConvDataGrad))
      return side == Side::In && index == 1 ? filterPanels(op, op.inShape(1), Transposed::kYes)
                                            : executable::channelsLast();
    if (op.is(Role::ConvWeightsGrad) || op.is(Role::FusedConvWeightsGrad))
      return side == Side::In && index < 2 ? executable::channelsLast()
                                           : filterPanels(op, op.outShape(0), Transposed::kNo);
    if (op.has(Trait::Spatial)) return hasByteOperands(op) ? bytesOfConvolution(op, side, index) : nullptr;
    return side == Side::In && index == 1 ? quadsOf(op) : nullptr;
  }

  std::span<const executable::BackendPass> passes() const override {
    static constexpr executable::BackendPass kPasses[] = {
        {"chainDepthFirst", "run kernels with the same independent parts part by part", chainDepthFirst}};
    return kPasses;
  }

  std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const override {
    reason.clear();
    if (request.op->isUserOp()) return reason = "user operators run on the kernel their author registered", nullptr;
    const auto it = entries_.find(request.op->def().base().type());
    if (it == entries_.end()) return reason = "there is no vectorised kernel for " + request.op->opType(), nullptr;
    if (!takeSlices_.contains(it->first) && hasSlices(request))
      return reason = "it takes no slices of channels", nullptr;
    for (const Entry *e : it->second)
      if (auto kernel = e->create(request, reason)) return withCost(std::move(kernel), request);
    return nullptr;
  }

  bool supports(const Op &op, std::string &reason) const override {
    return createKernel(executable::requestOf(op), reason) != nullptr;
  }

 private:
  static const executable::Layout *weightPanels(const Op &product) {
    const TensorInfo &weights = product.inInfo(1);
    if (weights.rank() != 2 || weights.dataType() != DataType::FLOAT || weights.nelms() == 1) return nullptr;
    return matrixPanels(product.attrInt("trans_b") != 0 ? Transposed::kYes : Transposed::kNo);
  }
  static bool hasByteOperands(const Op &op) {
    const auto isByte = [&](int i) {
      return op.hasInput(i) &&
             (op.inInfo(i).dataType() == DataType::INT8 || op.inInfo(i).dataType() == DataType::UINT8);
    };
    return isByte(0) && isByte(1);
  }
  // The layout of the right operand of a product of 8-bit integers.
  static const executable::Layout *quadsOf(const Op &op) {
    return hasByteOperands(op) && op.inRank(1) == 2 ? quadPanels() : nullptr;
  }
  // INT32 sums are written in C order, because no reader of them has a kernel for channels last.
  static const executable::Layout *bytesOfConvolution(const Op &op, Side side, int index) {
    if (side == Side::Out) return op.outInfo(0).dataType() == DataType::INT32 ? nullptr : executable::channelsLast();
    if (index == 0) return executable::channelsLast();
    return index == 1 ? integerConvWeights(op) : nullptr;
  }
  static const executable::Layout *filterPanels(const Op &convolution, const Shape &weights, Transposed transposed) {
    return convPanels(weights, convolution.attrInt("group"), transposed);
  }

  static bool hasSlices(const KernelRequest &request) {
    const auto isSlice = [](const OperandDesc &o) { return strideOfSlice(o) > 0; };
    return std::ranges::any_of(request.inputs, isSlice) || std::ranges::any_of(request.outputs, isSlice);
  }

  std::unordered_map<std::string_view, std::vector<const Entry *>> entries_;
  // Operators whose kernels use the stride between pixels; others may get any layout that is contiguous.
  std::unordered_set<std::string_view> takeSlices_{"AveragePool",       "Concat",  "ConvDataGrad", "FusedConv",
                                                   "FusedConvDataGrad", "MaxPool", "Slice"};
};

template <class Check>
bool everyOperand(const KernelRequest &request, Check &&check) {
  for (const auto *list : {&request.inputs, &request.outputs})
    for (const OperandDesc &o : *list)
      if (o.connected && !check(o)) return false;
  return true;
}

}  // namespace

bool allPlain(const KernelRequest &request, std::string &reason) {
  return everyOperand(request, [&](const OperandDesc &o) {
    if (o.layout == nullptr) return true;
    reason = "it takes plain layout only: got " + executable::layoutName(o.layout);
    return false;
  });
}

bool allOfType(const KernelRequest &request, DataType type, std::string &reason) {
  return everyOperand(request, [&](const OperandDesc &o) {
    if (o.info.dataType() == type) return true;
    reason = "it takes " + toText(type) + " only: got " + toText(o.info.dataType());
    return false;
  });
}

int64_t movedBytes(const KernelRequest &request, std::string &reason, int64_t most) {
  if (!allPlain(request, reason)) return 0;
  const DataType type = request.outputs[0].info.dataType();
  const int64_t bytes = getDataTypeInfo(type).nbytes;
  if (bytes > 0 && bytes <= most) return bytes;
  return reason = "it moves no elements of type " + toText(type), 0;
}

const executable::Backend &backend() {
  static const CpuBackend instance;
  return instance;
}

}  // namespace popart::cpu
