// Connectionist temporal classification of FLOAT and 16-bit numbers: the loss and its gradient. Definitions:
// src/ops/loss/ctc.cpp. A task computes samples of the batch; a last task adds their losses in order. Lengths and
// labels out of range are reported; a sample with one counts as a sample without steps.
#include <algorithm>
#include <cmath>
#include <utility>

#include <popart/op.hpp>

#include "backends/cpu/axis.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/rounds.hpp"
#include "backends/cpu/task_count.hpp"
#include "backends/cpu/vector/ctc_steps.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::cpu {
namespace {

using executable::KernelArgs;
using executable::KernelRequest;
using ops::LossReduction;

struct CtcForm {
  int64_t steps = 0, batch = 0, classes = 0, targets = 0, blank = 0;  // largest steps and targets of a sample
  DataType type = DataType::FLOAT;                                    // type of the logarithms
  DataType numbers[4] = {};                                           // types of inputs 1 to 3: targets, lengths
  LossReduction reduction = LossReduction::Mean;
  bool zeroesInfinity = false, ignoresOutOfRange = false;  // ignoresOutOfRange: labels

  int64_t mostStates() const { return 2 * targets + 1; }
  int64_t tasks() const { return taskCount(steps * mostStates() * batch, 1 << 12, batch); }
  double factor(int64_t count) const {
    return reduction == LossReduction::Mean ? 1.0 / static_cast<double>(std::max<int64_t>(count, 1) * batch) : 1.0;
  }
};

// One sample in the scratch memory of its task: the labels of the states, which states may follow the state two before
// them, values of one step, and rows of the lattice with two zeros before and after the states.
class CtcSample {
 public:
  static constexpr int64_t kAround = 2;
  static int64_t bytes(const CtcForm &form, int64_t rows) {
    const int64_t states = form.mostStates(), pitch = states + 2 * kAround;
    return states * static_cast<int64_t>(sizeof(int64_t)) +
           (2 * states + kAround + 2 * rows * pitch) * static_cast<int64_t>(sizeof(float));
  }

  CtcSample(const CtcForm &form, const KernelArgs &args, int64_t sample) noexcept
      : form_(form), args_(args), sample_(sample) {
    const int64_t most = form.mostStates();
    labels_ = static_cast<int64_t *>(args.scratch);
    skips_ = reinterpret_cast<float *>(labels_ + most);
    numbers_ = skips_ + most + kAround;
    rows_ = numbers_ + most;
    labels_[0] = form.blank;
    skips_[0] = kCtcNoSkip;
    if (!read()) steps_ = targets_ = 0;
    std::fill_n(skips_ + states().count, kAround, kCtcNoSkip);
  }

  int64_t steps() const { return steps_; }
  int64_t targets() const { return targets_; }
  int64_t label(int64_t state) const { return labels_[state]; }
  CtcStates states() const { return {2 * targets_ + 1, skips_}; }
  CtcRow row(int64_t i) const {
    const int64_t pitch = form_.mostStates() + 2 * kAround;
    float *first = rows_ + 2 * i * pitch + kAround;
    return {first, first + pitch};
  }

  // Row (t + 1) modulo `rows` becomes the row of step t. Returns the last one.
  CtcRow forward(int64_t rows) const noexcept {
    CtcRow last = startAt(0, 0);
    for (int64_t t = 0; t < steps_; ++t) {
      const CtcRow next = closed((t + 1) % rows);
      ctcForward(states(), last, logProbs(t), next);
      last = next;
    }
    return last;
  }
  CtcLikelihood likelihood(const CtcRow &last) const noexcept {
    const int64_t end = states().count - 1;
    const float greatest = std::max(last.exponents[end], last.exponents[end - 1]);
    float sum = 0;
    for (const int64_t s : {end, end - 1}) {
      const float distance = std::max(last.exponents[s] - greatest, -1000.0f);
      sum += std::ldexp(last.mantissas[s], static_cast<int>(distance));
    }
    return {sum, greatest};
  }
  // The negative logarithm of the likelihood.
  static double loss(const CtcLikelihood &l) noexcept {
    constexpr double kLogTwo = 0.693147180559945309;
    return -(std::log(static_cast<double>(l.mantissa)) + static_cast<double>(l.exponent) * kLogTwo);
  }

  // Calls f(t, expected[states]) for every step, the last one first. forward() has filled rows 0 to form.steps; two
  // more rows follow.
  template <class F>
  void backward(const CtcLikelihood &likelihood, F &&f) const noexcept {
    int64_t before = form_.steps + 2;
    CtcRow following = startAt(form_.steps + 1, states().count - 1);
    for (int64_t t = steps_; t-- > 0;) {
      const CtcRow next = closed(before);
      float *numbers = logProbs(t);
      ctcBackward(states(), following, numbers, row(t + 1), likelihood, next, numbers);
      f(t, numbers);
      following = next;
      before = 2 * form_.steps + 3 - before;
    }
  }

 private:
  // The value at `i` of input `operand` if it is in [0, most]. Otherwise reports it and returns -1.
  int64_t number(int operand, int64_t i, int64_t most) const noexcept {
    const int64_t value = indexAt(args_.in[operand], form_.numbers[operand], i);
    if (value >= 0 && value <= most) [[likely]]
      return value;
    if (operand != 1 || !form_.ignoresOutOfRange)
      args_.context.report({executable::FailureKind::Label, operand, i, value, 0, most});
    return -1;
  }
  bool read() noexcept {
    steps_ = number(2, sample_, form_.steps);
    targets_ = number(3, sample_, form_.targets);
    if (steps_ < 0 || targets_ < 0) return false;
    for (int64_t k = 0; k < targets_; ++k) {
      const int64_t found = number(1, sample_ * form_.targets + k, form_.classes - 1), s = 2 * k + 1;
      if (found < 0) return false;
      labels_[s] = found;
      labels_[s + 1] = form_.blank;
      skips_[s] = k > 0 && found != labels_[s - 2] ? 0.0f : kCtcNoSkip;
      skips_[s + 1] = kCtcNoSkip;
    }
    return true;
  }
  // Row i, with the entries around its states set.
  CtcRow closed(int64_t i) const noexcept {
    const CtcRow made = row(i);
    for (const int64_t s : {-kAround, states().count}) {
      std::fill_n(made.mantissas + s, kAround, 0.0f);
      std::fill_n(made.exponents + s, kAround, kCtcNever);
    }
    return made;
  }
  // Row i, with all the probability in one state.
  CtcRow startAt(int64_t i, int64_t state) const noexcept {
    const CtcRow made = closed(i);
    std::fill_n(made.mantissas, states().count, 0.0f);
    std::fill_n(made.exponents, states().count, kCtcNever);
    made.mantissas[state] = 1;
    made.exponents[state] = 0;
    return made;
  }
  // Logarithms of step t, by state.
  float *logProbs(int64_t t) const noexcept {
    const int64_t first = (t * form_.batch + sample_) * form_.classes, count = states().count;
    const void *step = elementAt(args_.in[0], first, form_.type);
    if (form_.type == DataType::FLOAT)
      for (int64_t s = 0; s < count; ++s) numbers_[s] = static_cast<const float *>(step)[labels_[s]];
    else
      for (int64_t s = 0; s < count; ++s) numbers_[s] = numberAt(step, labels_[s], form_.type);
    return numbers_;
  }

  const CtcForm &form_;
  const KernelArgs &args_;
  int64_t sample_, steps_ = 0, targets_ = 0;
  int64_t *labels_;
  float *skips_, *numbers_, *rows_;
};

class CtcKernel final : public executable::HostKernel {
 public:
  CtcKernel(const CtcForm &form, DataType lossType) : form_(form), lossType_(lossType) {
    rounds_.add(form.tasks(), static_cast<double>(form.steps * form.mostStates() * form.batch));
    if (reduces()) rounds_.add(1, static_cast<double>(form.batch));
  }
  std::string name() const override { return "ctc"; }
  int tasks() const override { return rounds_.tasks(); }
  std::span<const int> roundEnds() const override { return rounds_.ends(); }
  double share(int task) const override { return rounds_.share(task); }
  int64_t scratchBytes() const override { return CtcSample::bytes(form_, kRows); }
  int64_t sharedBytes() const override { return reduces() ? form_.batch * static_cast<int64_t>(sizeof(double)) : 0; }
  void run(const KernelArgs &args, int task) const noexcept override {
    const Rounds::Place place = rounds_.place(task);
    auto *losses = static_cast<double *>(args.shared);
    if (place.round == 1) {
      double total = 0;
      for (int64_t n = 0; n < form_.batch; ++n) total += losses[n];
      return setNumberAt(args.out[0], 0, lossType_, static_cast<float>(total));
    }
    const int64_t tasks = rounds_.size(0);
    for (int64_t n = form_.batch * place.task / tasks; n < form_.batch * (place.task + 1) / tasks; ++n) {
      const double loss = lossOf(args, n);
      if (reduces())
        losses[n] = loss;
      else
        setNumberAt(args.out[0], n, lossType_, static_cast<float>(loss));
    }
  }

 private:
  static constexpr int64_t kRows = 2;  // of this step and the step before it
  bool reduces() const { return form_.reduction != LossReduction::None; }
  double lossOf(const KernelArgs &args, int64_t n) const noexcept {
    const CtcSample sample(form_, args, n);
    const double loss = CtcSample::loss(sample.likelihood(sample.forward(kRows)));
    return form_.zeroesInfinity && std::isinf(loss) ? 0.0 : loss * form_.factor(sample.targets());
  }

  CtcForm form_;
  DataType lossType_;
  Rounds rounds_;
};

// d loss / d logarithm: minus the expected number of times that a step emits a class.
class CtcGradientKernel final : public executable::HostKernel {
 public:
  CtcGradientKernel(const CtcForm &form, const TensorInfo &incoming)
      : form_(form),
        incoming_(incoming.dataType()),
        isPerSample_(incoming.nelms() != 1 || incoming.rank() == 1),
        tasks_(form.tasks()) {}
  std::string name() const override { return "ctc gradient"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  bool canOverwrite(int input, int) const override { return input == 0; }
  int64_t scratchBytes() const override {
    return latticeBytes() + (isHalf(form_.type) ? form_.classes * static_cast<int64_t>(sizeof(float)) : 0);
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    for (int64_t n = form_.batch * task / tasks_; n < form_.batch * (task + 1) / tasks_; ++n) gradient(args, n);
  }

 private:
  int64_t latticeBytes() const { return CtcSample::bytes(form_, form_.steps + 3); }

  void gradient(const KernelArgs &args, int64_t n) const noexcept {
    const CtcSample sample(form_, args, n);
    const CtcLikelihood likelihood = sample.likelihood(sample.forward(form_.steps + 1));
    const bool isZero = form_.zeroesInfinity && std::isinf(CtcSample::loss(likelihood));
    for (int64_t t = isZero ? 0 : sample.steps(); t < form_.steps; ++t) writeRow(args, n, t, [](float *) {});
    if (isZero) return;
    const auto factor = static_cast<float>(-form_.factor(sample.targets()) *
                                           static_cast<double>(numberAt(args.in[4], isPerSample_ ? n : 0, incoming_)));
    sample.backward(likelihood, [&](int64_t t, const float *expected) {
      writeRow(args, n, t, [&](float *row) {
        float blanks = 0;
        for (int64_t s = 0; s < sample.states().count; s += 2) blanks += expected[s];
        row[form_.blank] = factor * blanks;
        for (int64_t s = 1; s < sample.states().count; s += 2) row[sample.label(s)] += factor * expected[s];
      });
    });
  }
  // Writes zeros, and then the values of `fill`.
  template <class F>
  void writeRow(const KernelArgs &args, int64_t n, int64_t t, F &&fill) const noexcept {
    const int64_t first = (t * form_.batch + n) * form_.classes;
    float *row = placeAt(args.out[0], first, form_.type,
                         reinterpret_cast<float *>(static_cast<char *>(args.scratch) + latticeBytes()));
    std::fill_n(row, form_.classes, 0.0f);
    fill(row);
    keepFloats(row, args.out[0], first, form_.classes, form_.type);
  }

  CtcForm form_;
  DataType incoming_;
  bool isPerSample_;
  int64_t tasks_;
};

// Whether the logarithms and `other`, the loss or its gradient, have types that these kernels support.
bool takesCtc(const KernelRequest &request, const executable::OperandDesc &other, std::string &reason) {
  if (!allPlain(request, reason)) return false;
  for (const DataType type : {request.inputs[0].info.dataType(), other.info.dataType()})
    if (type != DataType::FLOAT && !isHalf(type)) return reason = "it takes no " + toText(type), false;
  return true;
}

CtcForm ctcFormOf(const KernelRequest &request) {
  const Shape &x = request.inputs[0].info.shape();
  CtcForm form;
  form.steps = x[0], form.batch = x[1], form.classes = x[2];
  form.targets = request.inputs[1].info.shape()[1];
  form.blank = request.op->attrInt("blank");
  form.type = request.inputs[0].info.dataType();
  for (size_t i : {1, 2, 3}) form.numbers[i] = request.inputs[i].info.dataType();
  form.reduction = ops::lossReduction(request.op->attrString("reduction"));
  form.ignoresOutOfRange = request.op->hasAttr(ops::kIgnoreOutOfRange);
  form.zeroesInfinity = request.op->attrInt("zeroInfinity") != 0;
  return form;
}

std::unique_ptr<executable::Kernel> createCtc(const KernelRequest &request, std::string &reason) {
  if (!takesCtc(request, request.outputs[0], reason)) return nullptr;
  return std::make_unique<CtcKernel>(ctcFormOf(request), request.outputs[0].info.dataType());
}
std::unique_ptr<executable::Kernel> createCtcGradient(const KernelRequest &request, std::string &reason) {
  if (!takesCtc(request, request.inputs[4], reason)) return nullptr;
  return std::make_unique<CtcGradientKernel>(ctcFormOf(request), request.inputs[4].info);
}

constexpr Entry kCtcKernels[] = {{"Ctc", createCtc}, {"CtcGrad", createCtcGradient}};

}  // namespace

std::span<const Entry> ctcKernels() { return kCtcKernels; }

}  // namespace popart::cpu
