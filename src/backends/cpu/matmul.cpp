// FusedMatMul (and plain MatMul) on the register-tile products of kernels/gemm.
#include <array>
#include <numeric>
#include <optional>

#include <popart/graph.hpp>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/gated_product.hpp"
#include "backends/cpu/kernels/gemm.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/cpu/matrices.hpp"
#include "backends/cpu/parted_kernel.hpp"
#include "backends/cpu/weight_update.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::Layout;
using executable::OperandDesc;

// The product as the kernels need it: batch dimensions are collapsed if strides allow.
struct MatmulProblem {
  MatmulShape shape;
  MatmulArgs args;  // strides; pointers are set at run time
  int aInput = 0, bInput = 1;
  bool packedOutput = false;
  PartOperands cut;  // operands whose memory is the batch, matrix by matrix
};

// Whether the memory of `m` is `batch` contiguous matrices, one after the other.
bool isStack(const Matrix &m, const Shape &batch) {
  int64_t stride = m.rows * m.columns;
  for (size_t i = m.batch.size(); i-- > 0; stride *= m.batch[i])
    if (m.batch[i] != 1 && m.batchStride[i] != stride) return false;
  return elementCount(m.batch) == elementCount(batch);
}

std::optional<MatmulProblem> plan(const KernelRequest &request, bool transA, bool transB, std::string &reason) {
  const Op &op = *request.op;
  const Matrix a = matrixOf(op, "perm_a", request.inputs[0].info.shape()),
               b = matrixOf(op, "perm_b", request.inputs[1].info.shape());
  const Matrix c = resultOf(op, "perm_out", request.outputs[0].info.shape());
  const bool isPermuted =
      op.is(Role::FusedMatMul) && (op.hasAttr("perm_a") || op.hasAttr("perm_b") || op.hasAttr("perm_out"));
  const Layout *bLayout = request.inputs[1].layout;
  if (request.inputs[0].layout != nullptr) return reason = "its left operand must be plain", std::nullopt;
  Shape batch = npOut(a.batch, b.batch);
  MatmulProblem p;
  MatmulShape &s = p.shape;
  s.m = transA ? a.columns : a.rows;
  s.k = transA ? a.rows : a.columns;
  s.n = transB ? b.rows : b.columns;
  p.args.aRowStride = transA ? a.columnStride : a.rowStride;
  p.args.aColStride = transA ? a.rowStride : a.columnStride;
  p.args.cRowStride = c.rowStride;
  if (c.columnStride != 1) return reason = "the rows of its result are not contiguous", std::nullopt;
  if (b.batch.empty() && !transA && !isPermuted) {  // one B for all: the batch becomes more rows of A
    s.m *= elementCount(a.batch);
    batch.clear();
  } else {
    if (batch.size() > kMaxBatchRank) return reason = "more than 4 batch dimensions", std::nullopt;
    for (size_t i = 0; i < batch.size(); ++i) s.batch[kMaxBatchRank - batch.size() + i] = batch[i];
    p.args.aBatchStride = batchStrides(a, batch);
    p.args.bBatchStride = batchStrides(b, batch);
    p.args.cBatchStride = batchStrides(c, batch);
    p.cut.inputs = (isStack(a, batch) ? 0b1u : 0u) | (isStack(b, batch) ? 0b10u : 0u);
    p.cut.outputs = isStack(c, batch) ? ~uint64_t{0} : 0;
  }
  const Layout *panels = matrixPanels(Transposed::kNo), *transposedPanels = matrixPanels(Transposed::kYes);
  if (bLayout == panels || bLayout == transposedPanels) {
    s.bLayout = (bLayout == transposedPanels) == transB ? BLayout::kPacked : BLayout::kPackedTransposed;
  } else if (!bLayout) {
    s.bLayout = BLayout::kStrided;
    p.args.bRowStride = transB ? b.columnStride : b.rowStride;
    p.args.bColStride = transB ? b.rowStride : b.columnStride;
  } else {
    return reason = "its right operand has layout " + bLayout->name(), std::nullopt;
  }
  const Layout *out = request.outputs[0].layout;
  if (out == panels || out == transposedPanels) {  // a weight gradient: W = update(W, Aᵀ·B), stored packed
    if (!transA || transB || !a.batch.empty() || !b.batch.empty() || bLayout)
      return reason = "only Aᵀ·B of plain matrices can be written packed", std::nullopt;
    p.packedOutput = true;
    if (out == transposedPanels) {  // store (Aᵀ·B)ᵀ = Bᵀ·A
      std::swap(s.m, s.n);
      std::swap(p.aInput, p.bInput);
      p.args.aRowStride = 1, p.args.aColStride = b.columns;
      p.args.bRowStride = a.columns, p.args.bColStride = 1;
    }
  } else if (out) {
    return reason = "its result has layout " + out->name(), std::nullopt;
  }
  s.gathersRows = p.args.aColStride != 1;
  return p;
}

class MatmulKernel final : public PartedKernel {
 public:
  // Results do not depend on `threads`; it only determines the sizes of tasks, so that any number of threads up to it
  // is kept busy.
  MatmulKernel(MatmulProblem problem, MatchedEpilogue epilogue, int threads)
      : problem_(std::move(problem)), epilogue_(std::move(epilogue)), matmul_(problem_.shape, threads) {}
  MatmulKernel(MatmulProblem problem, WeightUpdate update, int threads)
      : MatmulKernel(updatedBy(update, std::move(problem)), MatchedEpilogue(), threads) {
    update_ = std::move(update);
  }

  std::string name() const override {
    static const char *const kLayouts[] = {"strided", "packed", "packed_t"};
    const DataType factors = problem_.shape.factors;
    const char *type = factors == DataType::BFLOAT16 ? "bfloat16 " : factors == DataType::FLOAT16 ? "float16 " : "";
    return std::string("matmul ") + type + kLayouts[static_cast<int>(problem_.shape.bLayout)] +
           (update_ ? " update" : "");
  }
  int tasks() const override { return matmul_.tasks(); }
  double share(int task) const override { return matmul_.share(task); }
  int64_t scratchBytes() const override {
    return static_cast<int64_t>(matmul_.scratchFloats() * sizeof(float)) +
           (update_ ? update_->scratchBytes() : epilogue_.scratchBytes());
  }
  bool canOverwrite(int input, int output) const override {
    if (update_) return update_->canOverwrite(input, output);
    return epilogue_.canOverwrite(input - kExtras, output);
  }

  int64_t parts() const override {
    const auto &batch = problem_.shape.batch;
    return std::accumulate(batch.begin(), batch.end(), int64_t{1}, std::multiplies<>());
  }
  std::shared_ptr<const HostKernel> inParts(int64_t count, PartOperands &cut) const override {
    if (count != parts() || update_ || problem_.packedOutput) return nullptr;
    cut = problem_.cut;
    if (cut.outputs)
      for (int operand : epilogue_.matrices()) cut.inputs |= uint64_t{1} << (kExtras + operand);
    return std::make_shared<MatmulKernel>(problem_, epilogue_, 1);
  }

  void run(const KernelArgs &args, int task) const noexcept override {
    MatmulArgs a = problem_.args;
    const void *left = args.in[problem_.aInput], *right = args.in[problem_.bInput];
    if (isHalf(problem_.shape.factors))
      a.aHalves = static_cast<const uint16_t *>(left), a.bHalves = static_cast<const uint16_t *>(right);
    else
      a.a = static_cast<const float *>(left), a.b = static_cast<const float *>(right);
    a.c = args.out[epilogue_.output];
    if (update_) return runUpdate(a, args, task);
    const Update store{.base = static_cast<float *>(a.c), .type = epilogue_.type};
    if (problem_.packedOutput) a.update = &store;
    epilogue_.bind(args, kExtras, [&](const Epilogue &epilogue, float *scratch) {
      a.epilogue = epilogue;
      matmul_.run(task, a, scratch);
    });
  }

 private:
  static constexpr int kExtras = 2;  // operands of the product, before those of the epilogue
  static MatmulProblem updatedBy(const WeightUpdate &update, MatmulProblem problem) {
    problem.shape.updatesRows = update.isProgram() && !problem.packedOutput;
    return problem;
  }
  void runUpdate(MatmulArgs &a, const KernelArgs &args, int task) const noexcept {
    a.parameterLayout =
        problem_.packedOutput ? MatmulArgs::ParameterLayout::kPacked : MatmulArgs::ParameterLayout::kRows;
    update_->bind(args, [&](const Update &update, float *scratch) {
      a.update = &update;
      matmul_.run(task, a, scratch);
    });
  }

  MatmulProblem problem_;
  MatchedEpilogue epilogue_;
  std::optional<WeightUpdate> update_;
  Matmul matmul_;
};

// The type of both operands: FLOAT or a 16-bit type.
std::optional<DataType> factorsOf(const KernelRequest &request, std::string &reason) {
  const DataType a = request.inputs[0].info.dataType(), b = request.inputs[1].info.dataType();
  const bool isWidened = isHalf(a) && !(a == DataType::BFLOAT16 && bfloat16Kernels());
  if (isWidened && (request.inputs[0].constant || request.inputs[1].constant))
    return reason = "constants that must be widened are stored packed in FLOAT", std::nullopt;
  if (a == b && (a == DataType::FLOAT || (isHalf(a) && request.op->is(Role::FusedMatMul)))) return a;
  reason = "it takes FLOAT operands, or fused ones of 16 bits: got " + toText(a) + " and " + toText(b);
  return std::nullopt;
}

std::unique_ptr<executable::Kernel> createMatmul(const KernelRequest &request, std::string &reason) {
  const auto factors = factorsOf(request, reason);
  if (!factors) return nullptr;
  const Op &op = *request.op;
  const bool fused = op.is(Role::FusedMatMul);
  const bool transA = fused && op.attrInt("trans_a") != 0, transB = fused && op.attrInt("trans_b") != 0;
  if (request.inputs[0].info.rank() < 2 || request.inputs[1].info.rank() < 2)
    return reason = "an operand is a vector", nullptr;
  auto problem = plan(request, transA, transB, reason);
  if (!problem) return nullptr;
  problem->shape.factors = *factors;
  if (!fused || !op.hasAttr("epilogue")) {
    MatchedEpilogue store;
    store.type = request.outputs[0].info.dataType();
    if (store.type != DataType::FLOAT && store.type != *factors) return reason = "its result has another type", nullptr;
    return std::make_unique<MatmulKernel>(std::move(*problem), store, request.threads);
  }
  const auto withEpilogue = [&](EpilogueForm form) -> std::unique_ptr<executable::Kernel> {
    const EpilogueTarget target{.columns = request.outputs[0].info.shape().back(), .form = form};
    auto matched = problem->packedOutput ? std::nullopt : matchEpilogue(*op.getCalledGraphs().front(), target, reason);
    if (!matched) return nullptr;
    return std::make_unique<MatmulKernel>(std::move(*problem), std::move(*matched), request.threads);
  };
  if (auto kernel = withEpilogue(EpilogueForm::kRegisters)) return kernel;
  auto update = WeightUpdate::descent(request, reason);
  const bool isWeightGradient = transA && op.outRank(0) == 2 && !op.hasAttr("perm_out");
  if (!update && isWeightGradient) update = WeightUpdate::compiled(request, reason);
  if (!update) {
    if (auto kernel = createGatedProduct(request, reason)) return kernel;
    return withEpilogue(EpilogueForm::kAny);
  }
  return std::make_unique<MatmulKernel>(std::move(*problem), std::move(*update), request.threads);
}

constexpr Entry kMatmulKernels[] = {{"MatMul", createMatmul}, {"FusedMatMul", createMatmul}};

}  // namespace

std::span<const Entry> matmulKernels() { return kMatmulKernels; }

}  // namespace popart::cpu
