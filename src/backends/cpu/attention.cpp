// FusedAttention and its gradient on kernels/attention: geometry, the element-wise operations on scores, and which keys
// constant masks exclude.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <popart/graph.hpp>

#include "backends/cpu/attention_masks.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/kernels/attention.hpp"
#include "backends/cpu/kernels/cache_sizes.hpp"
#include "backends/cpu/kernels/ceil_div.hpp"
#include "backends/cpu/matrices.hpp"
#include "backends/cpu/rounds.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

constexpr size_t kMostExtras = 24;
constexpr int64_t kFloat = sizeof(float);
// With fewer queries, the scores of a head are a few rows, so there is no matrix to save, and packing K and V costs
// more than it gains.
constexpr int64_t kFewestQueries = 4;

// The graphs of element-wise ops between the products and the softmax, compiled for pieces of rows.
class CompiledSteps {
 public:
  // `firstExtra`: the input of the op at which the inputs of `body` after its first `given` ones begin.
  static std::optional<CompiledSteps> compile(const KernelRequest &request, size_t firstExtra, int64_t piece,
                                              std::string &reason) {
    CompiledSteps steps;
    if (!request.op->hasAttr("scores")) return steps;
    if (request.inputs.size() - firstExtra > kMostExtras) return reason = "it has too many operands", std::nullopt;
    const Graph &scores = graphOf(*request.op, "scores");
    steps.firstExtra_ = firstExtra;
    for (size_t i = firstExtra; i < request.inputs.size(); ++i) {
      const TensorInfo &info = request.inputs[i].info;
      steps.extras_.push_back(rowsOf(info.shape(), scores.info(scores.outputs()[0]).shape()));
      steps.bytes_.push_back(getDataTypeInfo(info.dataType()).nbytes);
    }
    steps.forward_ = steps.program(request, scores, 1, piece, reason);
    if (!steps.forward_) return std::nullopt;
    if (!request.op->hasAttr("gradient")) return steps;
    steps.backward_ = steps.program(request, graphOf(*request.op, "gradient"), 2, piece, reason);
    if (!steps.backward_) return std::nullopt;
    return steps;
  }

  bool isEmpty() const { return !forward_; }
  bool hasBackward() const { return backward_.has_value(); }
  int64_t scratchBytes() const {
    return std::max(forward_ ? forward_->scratchBytes() : 0, backward_ ? backward_->scratchBytes() : 0);
  }

  // The steps of one run of the kernel; `scratch`: scratchBytes().
  class Bound final : public ScoreSteps {
   public:
    Bound(const CompiledSteps &steps, const KernelArgs &args, void *scratch)
        : steps_(steps), args_(args), scratch_(scratch) {}
    void forward(const float *s, float *to, int64_t row, int64_t key, int64_t count) const noexcept override {
      run(*steps_.forward_, {s}, to, row, key, count);
    }
    void backward(const float *s, float *gradient, int64_t row, int64_t key, int64_t count) const noexcept override {
      run(*steps_.backward_, {s, gradient}, gradient, row, key, count);
    }

   private:
    void run(const ElementProgram &program, std::initializer_list<const float *> given, float *to, int64_t row,
             int64_t key, int64_t count) const noexcept {
      std::array<const void *, kMostExtras + 2> in;
      size_t n = 0;
      for (const float *g : given) in[n++] = g;
      for (size_t i = 0; i < steps_.extras_.size(); ++i) {
        const ScoreRows &extra = steps_.extras_[i];
        in[n++] = static_cast<const char *>(args_.in[steps_.firstExtra_ + i]) +
                  (extra.offset(row) + key * extra.keyStride) * steps_.bytes_[i];
      }
      void *out[] = {to};
      program.runSpan(in.data(), out, scratch_, args_.context, count);
    }
    const CompiledSteps &steps_;
    const KernelArgs &args_;
    void *scratch_;
  };

 private:
  // A program for rows of `piece` scores: an operand has one value per score, or one for all.
  std::optional<ElementProgram> program(const KernelRequest &request, const Graph &body, size_t given, int64_t piece,
                                        std::string &reason) const {
    const OperandDesc row{TensorInfo(DataType::FLOAT, Shape{piece})};
    std::vector<OperandDesc> inputs(given, row);
    for (size_t i = 0; i < extras_.size(); ++i)
      inputs.push_back(
          {TensorInfo(request.inputs[firstExtra_ + i].info.dataType(), Shape{extras_[i].keyStride == 0 ? 1 : piece})});
    return makeElementProgram(elementSource(body), inputs, {row}, reason);
  }

  size_t firstExtra_ = 0;
  std::vector<ScoreRows> extras_;
  std::vector<int> bytes_;
  std::optional<ElementProgram> forward_, backward_;
};

// Rounds up the floats of a kernel's own scratch memory, so that the memory after it begins at a cache line.
int64_t wholeLines(int64_t floats) { return ceilDiv(floats, kCacheLineFloats) * kCacheLineFloats; }

// Where q, k and v begin in their memory.
struct Operands {
  DataType type = DataType::FLOAT;  // of operands and results, except largest scores and sums of rows
  std::array<int64_t, 3> firstElement = {};
  const void *at(size_t i, const KernelArgs &args) const { return elementAt(args.in[i], firstElement[i], type); }
};

// The fields that both ops share.
struct AttentionProblem {
  AttentionShape shape;
  AttentionStrides strides;
  std::vector<KeyRange> ranges;
  Operands operands;
};

MatrixStack stackOf(const Matrix &m, const Shape &batch) {
  return {batchStrides(m, batch), m.rowStride, m.columnStride};
}

std::optional<AttentionProblem> plan(const KernelRequest &request, size_t firstExtra, std::string &reason) {
  if (!allPlain(request, reason)) return std::nullopt;
  const DataType type = request.inputs[0].info.dataType();
  if (type != DataType::FLOAT && !isHalf(type)) return reason = "it takes no " + toText(type), std::nullopt;
  const Op &op = *request.op;
  const Matrix q = matrixOf(op, "perm_q", "view_q", request.inputs[0].info.shape()),
               k = matrixOf(op, "perm_k", "view_k", request.inputs[1].info.shape()),
               v = matrixOf(op, "perm_v", "view_v", request.inputs[2].info.shape());
  const Shape batch = npOut(q.batch, k.batch);
  if (batch.size() > kMaxBatchRank) return reason = "more than 4 batch dimensions", std::nullopt;
  if (q.rows < kFewestQueries) return reason = "it has few queries", std::nullopt;
  AttentionProblem p;
  p.shape = {q.rows, k.columns, q.columns, v.columns, {1, 1, 1, 1}};
  for (size_t i = 0; i < batch.size(); ++i) p.shape.batch[kMaxBatchRank - batch.size() + i] = batch[i];
  for (size_t i = 0; i < 3; ++i)
    if (request.inputs[i].info.nelms() == 0) return reason = "an operand is empty", std::nullopt;
  const AttentionPlan rows(p.shape, {});
  if (rows.batches() >= std::numeric_limits<int>::max() / (rows.rowTiles() + 1))
    return reason = "it has more tasks than are counted", std::nullopt;
  p.strides.scale = op.attrFloat("scale");
  p.strides.q = stackOf(q, batch), p.strides.k = stackOf(k, batch), p.strides.v = stackOf(v, batch);
  p.operands = {type, {q.offset, k.offset, v.offset}};
  p.ranges = neededKeys(request, firstExtra, p.shape);
  return p;
}

class AttentionKernel final : public executable::HostKernel {
 public:
  AttentionKernel(AttentionProblem problem, CompiledSteps steps, std::array<bool, 2> ofRows, int threads)
      : strides_(problem.strides),
        operands_(problem.operands),
        attention_(problem.shape, std::move(problem.ranges), threads),
        steps_(std::move(steps)),
        ofRows_(ofRows) {}
  std::string name() const override { return "attention"; }
  int tasks() const override { return attention_.tasks(); }
  double share(int task) const override { return attention_.share(task); }
  int64_t scratchBytes() const override {
    return wholeLines(attention_.scratchFloats()) * kFloat + steps_.scratchBytes();
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    auto *scratch = static_cast<float *>(args.scratch);
    const CompiledSteps::Bound steps(steps_, args, scratch + wholeLines(attention_.scratchFloats()));
    AttentionArgs a{};
    a.q = operands_.at(0, args), a.k = operands_.at(1, args), a.v = operands_.at(2, args), a.y = args.out[0];
    a.type = operands_.type;
    a.largest = ofRows_[0] ? static_cast<float *>(args.out[1]) : nullptr;
    a.total = ofRows_[1] ? static_cast<float *>(args.out[2]) : nullptr;
    a.steps = steps_.isEmpty() ? nullptr : &steps;
    attention_.run(task, strides_, a, scratch);
  }

 private:
  AttentionStrides strides_;
  Operands operands_;
  AttentionForward attention_;
  CompiledSteps steps_;
  std::array<bool, 2> ofRows_;  // whether largest scores and sums are results
};

constexpr size_t kJoint = 3;  // the output of which results may be parts

// Where dq, dk and dv are: the number of the output and the first element in it; no output: not computed.
struct GradientResults {
  std::array<int, 3> output = {-1, -1, -1};
  std::array<int64_t, 3> firstElement = {};
  void *at(size_t o, const KernelArgs &args, DataType type) const {
    return output[o] < 0 ? nullptr : elementAt(args.out[output[o]], firstElement[o], type);
  }
};

class AttentionGradientKernel final : public executable::HostKernel {
 public:
  AttentionGradientKernel(AttentionProblem problem, CompiledSteps steps, GradientResults results)
      : strides_(problem.strides),
        operands_(problem.operands),
        attention_(problem.shape, std::move(problem.ranges)),
        steps_(std::move(steps)),
        results_(results) {
    rounds_.add(attention_.rangeTasks(), 1);
    if (attention_.sumTasks() > 0) rounds_.add(attention_.sumTasks(), 0.02);
  }
  std::string name() const override { return "attention gradient"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override {
    return wholeLines(attention_.scratchFloats()) * kFloat + steps_.scratchBytes();
  }
  int64_t sharedBytes() const override { return attention_.sharedFloats() * kFloat; }
  void run(const KernelArgs &args, int index) const noexcept override {
    auto *scratch = static_cast<float *>(args.scratch);
    const CompiledSteps::Bound steps(steps_, args, scratch + wholeLines(attention_.scratchFloats()));
    const AttentionGradientArgs a{operands_.at(0, args),
                                  operands_.at(1, args),
                                  operands_.at(2, args),
                                  args.in[3],
                                  args.in[6],
                                  static_cast<const float *>(args.in[4]),
                                  static_cast<const float *>(args.in[5]),
                                  results_.at(0, args, operands_.type),
                                  results_.at(1, args, operands_.type),
                                  results_.at(2, args, operands_.type),
                                  operands_.type,
                                  steps_.isEmpty() ? nullptr : &steps,
                                  steps_.hasBackward(),
                                  static_cast<float *>(args.shared)};
    const auto [round, task] = rounds_.place(index);
    if (round == 0) return attention_.runRange(task, strides_, a, scratch);
    attention_.runSum(task, strides_, a);
  }

 private:
  AttentionStrides strides_;
  Operands operands_;
  AttentionBackward attention_;
  CompiledSteps steps_;
  GradientResults results_;
  Rounds rounds_;
};

std::unique_ptr<executable::Kernel> createAttention(const KernelRequest &request, std::string &reason) {
  auto problem = plan(request, 3, reason);
  if (!problem) return nullptr;
  const Shape &y = request.outputs[0].info.shape();
  const Matrix result = resultOf(*request.op, "perm_y", y);
  problem->strides.y = stackOf(result, result.batch);
  auto steps = CompiledSteps::compile(request, 3, AttentionPlan(problem->shape, {}).keyBlock(), reason);
  if (!steps) return nullptr;
  const auto isWanted = [&](size_t o) { return request.outputs.size() > o && request.outputs[o].connected; };
  return std::make_unique<AttentionKernel>(std::move(*problem), std::move(*steps), std::array{isWanted(1), isWanted(2)},
                                           request.threads);
}

std::unique_ptr<executable::Kernel> createAttentionGradient(const KernelRequest &request, std::string &reason) {
  constexpr size_t kExtras = 7;
  auto problem = plan(request, kExtras, reason);
  if (!problem) return nullptr;
  const Op &op = *request.op;
  AttentionStrides &s = problem->strides;
  const auto operand = [&](size_t i, const char *perm) {
    const Matrix m = matrixOf(op, perm, request.inputs[i].info.shape());
    return stackOf(m, m.batch);
  };
  s.y = operand(3, "perm_out"), s.dy = operand(6, "perm_g");
  MatrixStack *stacks[] = {&s.dq, &s.dk, &s.dv};
  const char *const perms[] = {"perm_dq", "perm_dk", "perm_dv"}, *const views[] = {"view_dq", "view_dk", "view_dv"};
  GradientResults results;
  for (size_t o = 0; o < 3; ++o) {
    const bool isPart = op.hasAttr(views[o]);
    const size_t output = isPart ? kJoint : o;
    if (output >= request.outputs.size() || !request.outputs[output].connected) continue;
    const Shape &shape = request.outputs[output].info.shape();
    const Matrix m = isPart ? matrixOf(op, perms[o], views[o], shape) : resultOf(op, perms[o], shape);
    *stacks[o] = stackOf(m, m.batch);
    results.output[o] = static_cast<int>(output), results.firstElement[o] = m.offset;
  }
  // dK is a product with the copy of Q, which is already scaled.
  if (s.scale == 0) return reason = "it needs a scale that is not 0", nullptr;
  s.dqScale = op.attrFloat("dq_scale"), s.dkScale = op.attrFloat("dk_scale") / s.scale;
  auto steps = CompiledSteps::compile(request, kExtras, AttentionPlan(problem->shape, {}).keyBlock(), reason);
  if (!steps) return nullptr;
  return std::make_unique<AttentionGradientKernel>(std::move(*problem), std::move(*steps), results);
}

constexpr Entry kAttentionKernels[] = {{"FusedAttention", createAttention},
                                       {"FusedAttentionGrad", createAttentionGradient}};

}  // namespace

std::span<const Entry> attentionKernels() { return kAttentionKernels; }

}  // namespace popart::cpu
