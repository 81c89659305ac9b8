// IrSession: the session core, with stream buffers for whole runs.
#include "api/ir_session.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>

#include <popart/error.hpp>
#include <popart/sessionoptions.hpp>

#include "api/compile_options.hpp"
#include "api/profile.hpp"
#include "api/virtual_ipus.hpp"
#include "base/environment.hpp"
#include "executable/cost.hpp"
#include "fitting/remedies.hpp"
#include "ir/operand_types.hpp"
#include "lower/stochastic_rounding.hpp"
#include "ops/control/loops.hpp"
#include "pipeline/options.hpp"
#include "pipeline/prepare.hpp"
#include "runtime/host_spans.hpp"
#include "session/engine_options.hpp"
#include "session/memory_limit.hpp"
#include "session/value_comparison.hpp"

namespace popart {
namespace {

// Streams over buffers that hold `slices` values each; after the last slice a stream starts again.
class SliceStreams : public runtime::StreamSource {
 public:
  void start(const executable::Executable &executable, int64_t slices) {
    slices_ = slices;
    inputBytes_.clear(), outputBytes_.clear();
    for (const auto &s : executable.inputs) inputBytes_.push_back(s.info.nbytes());
    for (const auto &s : executable.outputs) outputBytes_.push_back(s.info.nbytes());
  }
  void reset(std::span<const void *const> inputs, std::span<void *const> outputs) {
    inputs_ = inputs, outputs_ = outputs;
    inputCursor_.assign(inputs.size(), 0);
    outputCursor_.assign(outputs.size(), 0);
    chooseUsedInPlace();
  }
  const void *input(int stream, int64_t bytes) override {
    return static_cast<const char *>(inputs_[stream]) + bytes * advance(inputCursor_[stream]);
  }
  void *output(int stream, int64_t bytes) override {
    return static_cast<char *>(outputs_[stream]) + bytes * advance(outputCursor_[stream]);
  }
  bool inputStays(int stream) const override { return inputUsed_[static_cast<size_t>(stream)]; }
  void *outputAhead(int stream, int64_t bytes) override {
    if (!outputUsed_[static_cast<size_t>(stream)]) return nullptr;
    return static_cast<char *>(outputs_[stream]) + bytes * outputCursor_[stream];
  }

 private:
  void chooseUsedInPlace() {
    spans_.clear();
    const auto add = [&](const void *data, int64_t bytes, bool isOutput, size_t number) {
      spans_.push_back(
          {static_cast<const char *>(data), bytes * slices_, isOutput, number, runtime::isAligned(data, bytes)});
    };
    for (size_t i = 0; i < inputs_.size(); ++i) add(inputs_[i], inputBytes_[i], false, i);
    for (size_t i = 0; i < outputs_.size(); ++i) add(outputs_[i], outputBytes_[i], true, i);
    runtime::findUsable(spans_);
    inputUsed_.resize(inputs_.size()), outputUsed_.resize(outputs_.size());
    for (const runtime::HostSpan &s : spans_) (s.isWritten ? outputUsed_ : inputUsed_)[s.stream] = s.isUsable;
  }
  int64_t advance(int64_t &cursor) const {
    const int64_t slice = cursor;
    cursor = cursor + 1 == slices_ ? 0 : cursor + 1;
    return slice;
  }
  std::span<const void *const> inputs_;
  std::span<void *const> outputs_;
  int64_t slices_ = 1;
  std::vector<int64_t> inputCursor_, outputCursor_, inputBytes_, outputBytes_;
  std::vector<runtime::HostSpan> spans_;
  std::vector<bool> inputUsed_, outputUsed_;  // whether streams use the buffers in place
};

// Throws popart::error for content that a graph may have while it is built, but not in a program.
void refuseUnfinished(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops()) {
      ops::requireCalledInputs(*op);
      // compat: an accumulation that adds nothing (popxl.ops.var_updates.accumulate_)
      if (!op->hasAttr("accumulation_type") || op->attrString("accumulation_type") != "DampenedAdd") continue;
      const Tensor *f = op->hasInput(2) ? &graph->tensor(op->inputs()[2]) : nullptr;
      const bool isKnown = f && f->tensorType() == TensorType::Const && f->hasTensorData();
      const bool isZero = isKnown ? f->tensorData().asDoubles().at(0) == 0
                                  : !f && op->hasAttr("factor") && op->attrFloat("factor") == 0;
      check(!isZero,
            "{}: the factor is 0, so that nothing is accumulated: got f = 0, expected another number. Leave "
            "the op out, or use accumulator_scale_",
            op->debugName());
    }
}

}  // namespace

struct IrSession::Impl {
  std::shared_ptr<session::Job> job;  // null: all replicas are here, or the program is only compiled
  session::CompiledProgram program{"popxl"};
  Profile profile;
  CompileTimes times;
  DeviceInfo *device = nullptr;  // on which the program was loaded
  int threads = 1;
  std::vector<Stream> inputs, outputs;
  SliceStreams streams;
  int64_t slices = 1;
  int64_t ipus = 1;

  // The number of a variable of the loaded program.
  int variable(const TensorId &id) const {
    program.requireLoaded("access to a variable");
    const int found = program.findVariable(id);
    if (found < 0) throw error("Session: the compiled program has no variable '{}'", id);
    return found;
  }
  // The same for a variable that must have the row.
  int row(const TensorId &id, int64_t row) const {
    const int found = variable(id);
    const TensorInfo &info = program.executable()->variables[static_cast<size_t>(found)].info;
    const int64_t rows = info.rank() > 0 ? info.shape().front() : 0;
    check(row >= 0 && row < rows, "Session: variable '{}' has no row {}: expected 0 to {}", id, row, rows - 1);
    return found;
  }
  // Whether the compiled program fits within a limit of bytes for all replicas; 0: no limit.
  bool fits(const session::CompileOptions &compiling, int64_t limit) const {
    const int64_t most = limit / compiling.localReplicas();
    return most <= 0 || program.executable()->memory.total() <= most;
  }
  // Throws memory_allocation_err when the compiled program exceeds a limit of bytes for all replicas; 0: no limit.
  void requireFits(const Ir &ir, const session::CompileOptions &compiling, int64_t limit) const;
};

// The program itself states where values are and when ops run, so nothing can be chosen automatically. The remedies in
// the message are for its author.
void IrSession::Impl::requireFits(const Ir &ir, const session::CompileOptions &compiling, int64_t limit) const {
  if (fits(compiling, limit)) return;
  const int64_t most = limit / compiling.localReplicas();
  const lower::LowerOptions lowering = session::lowerOptions(compiling);
  const lower::Compiled plain = lower::compileInSteps(program.lowered(), lowering, lower::remember(lowering));
  const double milliseconds = executable::predictedRunNanoseconds(*plain.executable, lowering.threads) * 1e-6;
  fitting::throwDoesNotFit(
      {plain, milliseconds, most, compiling.localReplicas(), {ir, fitting::Asked::Words::Popxl}, {}, {}});
}

IrSession::IrSession(const Ir &ir, const IrSessionOptions &options) : impl_(std::make_unique<Impl>()) {
  SessionOptions given;
  given.engineOptions = options.engineOptions;
  given = pipeline::withEnvironment(std::move(given));
  const std::chrono::milliseconds timeout = session::replicasTimeout(given.engineOptions);
  const bool sharesMemory = session::replicasShareMemory(given.engineOptions);
  std::shared_ptr<const session::Placement> placement;  // null: all replicas are here
  if (options.total > options.replicas) {
    const session::JobSettings settings{options.total, options.replicas, options.firstLocal, timeout, sharesMemory};
    if (options.device == DeviceType::OfflineIpu) {
      placement = std::make_shared<session::Placement>(session::expectedPlacement(settings));
    } else {
      impl_->job = session::joinJob(settings);
      placement = {impl_->job, &impl_->job->placement()};
    }
  }
  const int threads = computeThreadCount(placement ? placement->processors() : processorLimits());
  session::CompileOptions compiling = compileOptionsFor(options.device, threads, options.replicas);
  if (placement) {
    compiling.replicas = options.total;
    compiling.locals = options.replicas;
    compiling.firstLocal = options.firstLocal;
    compiling.job = impl_->job;
    compiling.expected = placement;
    placement->adapt(compiling.collectives);
  }
  if (Profile asked(given.engineOptions); asked.mostEvents() > 0) impl_->profile = std::move(asked);
  impl_->threads = threads;
  compiling.timesSteps = impl_->profile.isOn();
  compiling.mostEvents = impl_->profile.mostEvents();
  compiling.times = std::shared_ptr<CompileTimes>(std::shared_ptr<CompileTimes>(), &impl_->times);
  compiling.lanes = session::laneRule(given.engineOptions);
  compiling.ignoreLabelsOutOfRange = session::ignoresLabelsOutOfRange(given.engineOptions);
  compiling.limits = session::runLimits(given.engineOptions);
  compiling.compared = session::comparedValues(given.engineOptions);
  compiling.passesOff = passesOff(given.engineOptions, options.device);
  compiling.order = options.checkOrder ? session::OrderRule::Refuse : session::OrderRule::Accept;
  compiling.timesRuns = true;
  compiling.roundStochastically = options.roundStochastically;
  compiling.checkLog2Scales = options.checkLog2Scales;
  compiling.cacheFolder = options.cacheFolder;
  refuseUnfinished(ir);
  verify(ir);  // checks that the program leaves nothing open that a pass cannot handle
  checkOperandTypes(ir);
  pipeline::logOperations(ir);
  impl_->program.compile(ir, compiling);
  const int64_t limit = session::memoryLimitBytes(given.engineOptions, placement ? placement->processesOnHost() : 1);
  if (compiling.lanes == lower::LaneRule::Auto && executable::mostLanes(impl_->program.executable()->main) > 1 &&
      !impl_->fits(compiling, limit)) {
    compiling.lanes = lower::LaneRule::Never;  // each lane has separate memory
    impl_->program.compile(ir, compiling);
  }
  impl_->requireFits(ir, compiling, limit);
  impl_->slices = options.transfers * options.replicas;
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops()) impl_->ipus = std::max(impl_->ipus, op->settings.vgraphId.value_or(0) + 1);
  for (const auto &s : impl_->program.executable()->inputs) impl_->inputs.push_back({s.id, s.info});
  for (const auto &s : impl_->program.executable()->outputs) impl_->outputs.push_back({s.id, s.info});
  impl_->streams.start(*impl_->program.executable(), impl_->slices);
}

IrSession::~IrSession() = default;

const std::vector<IrSession::Stream> &IrSession::inputs() const { return impl_->inputs; }
const std::vector<IrSession::Stream> &IrSession::outputs() const { return impl_->outputs; }
int64_t IrSession::ipus() const { return impl_->ipus; }
void IrSession::load(DeviceInfo &device) {
  impl_->device = &device;
  if (impl_->program.isLoaded()) return impl_->program.attach(device);
  impl_->program.load(device);
  if (impl_->job)
    session::compareFirstValues(*impl_->job, "popxl", impl_->program.firstValues(),
                                "Make them of the same numbers in all processes");
  std::random_device source;
  std::array<uint32_t, 2> state{source(), source()};
  if (impl_->job) {  // the state of the first process
    std::istringstream first(impl_->job->gather(toText(state[0]) + " " + toText(state[1]))[0]);
    first >> state[0] >> state[1];
  }
  setRngState(state);
}
std::array<uint32_t, 2> IrSession::rngState() const {
  impl_->program.requireLoaded("rngState");
  std::array<uint32_t, 2> state{};
  if (const int variable = impl_->program.findVariable(lower::kRngState); variable >= 0)
    impl_->program.readVariable(variable, state.data());
  return state;
}
void IrSession::setRngState(const std::array<uint32_t, 2> &state) {
  impl_->program.requireLoaded("setRngState");
  if (const int variable = impl_->program.findVariable(lower::kRngState); variable >= 0)
    impl_->program.writeVariable(variable, state.data());
}
bool IrSession::hasVariable(const TensorId &id) const { return impl_->program.findVariable(id) >= 0; }
void IrSession::writeVariable(const TensorId &id, const void *data) {
  impl_->program.writeVariable(impl_->variable(id), data);
}
void IrSession::readVariable(const TensorId &id, void *data) const {
  impl_->program.readVariable(impl_->variable(id), data);
}
void IrSession::readReplicas(const TensorId &id, void *data) const {
  impl_->program.readReplicas(impl_->variable(id), data);
}
void IrSession::writeRow(const TensorId &id, int64_t row, const void *data) {
  impl_->program.writeRow(impl_->row(id, row), row, data);
}
void IrSession::readRow(const TensorId &id, int64_t row, void *data) const {
  impl_->program.readRow(impl_->row(id, row), row, data);
}

void IrSession::run(std::span<const void *const> inputs, std::span<void *const> outputs) {
  check(inputs.size() == impl_->inputs.size() && outputs.size() == impl_->outputs.size(),
        "Session: wrong number of stream buffers: got {} inputs and {} outputs, expected {} and {}", inputs.size(),
        outputs.size(), impl_->inputs.size(), impl_->outputs.size());
  impl_->program.requireLoaded("run");
  impl_->program.run([&]() -> runtime::StreamSource & {
    impl_->streams.reset(inputs, outputs);
    return impl_->streams;
  });
  if (impl_->profile.isOn()) [[unlikely]]
    impl_->profile.record(impl_->program, "");
}

std::string IrSession::getLoweredModel(PrintData values) const { return impl_->program.loweredModel(values); }

std::string IrSession::getReport() const {
  impl_->program.requireLoaded("getReport");
  const executable::Executable &program = *impl_->program.executable();
  const double cycles = totalCycles(program, *impl_->device, statistics(), impl_->threads);
  return profileJson({program, *impl_->program.lowered().ir, *impl_->device, impl_->profile, impl_->times, "popxl",
                      impl_->program.replicas(), impl_->program.localReplicas(), impl_->threads, cycles});
}

std::pair<size_t, size_t> IrSession::runsToProfile() const { return impl_->profile.runsToCome(); }

void IrSession::profileRuns(int runs, int before) {
  session::CompiledProgram &program = impl_->program;
  program.requireLoaded("profileRuns");
  check(runs >= 0 && before >= 0, "Session: profileRuns: got {} runs after {}, expected 0 or more of both", runs,
        before);
  impl_->profile.ask(static_cast<size_t>(runs), static_cast<size_t>(before));
  Profile::resetTimes(program);
  // Processes of a job load together, and each may have been timed or not.
  if (!impl_->job && impl_->profile.isOn() == (program.stepTimes() != nullptr)) return;
  program.timeSteps(impl_->profile.isOn(), impl_->profile.mostEvents());
  program.reload(*impl_->device);
}

void IrSession::endProfile() {
  if (!impl_->job) return profileRuns(0, 0);
  impl_->profile.ask(0, 0);
  Profile::resetTimes(impl_->program);
}

RunStatistics IrSession::statistics() const { return impl_->program.statistics(); }

std::string IrSession::summary() const {
  const executable::Executable &e = *impl_->program.executable();
  std::string text = "arena " + std::to_string(e.memory.arenaBytes) + " bytes, variables " +
                     std::to_string(e.memory.variableBytes) + " bytes";
  if (const int64_t bytes = impl_->program.exchangeBytes(); bytes > 0)
    text += ", exchange between processes " + std::to_string(bytes) + " bytes";
  if (e.memory.remoteBytes > 0) text += ", remote " + std::to_string(e.memory.remoteBytes) + " bytes";
  for (const auto &f : e.fallbacks) text += "\n" + f.op + ": not on " + f.backend + ": " + f.reason;
  return text;
}

}  // namespace popart
