// See compiled_program.hpp. Errors of the program appear in compile and load; a run fails only because of its input.
#include "session/compiled_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <ranges>

#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popart/version.hpp>

#include "base/hash.hpp"
#include "executable/join_tree.hpp"
#include "ir/layer_names.hpp"
#include "pipeline/passes.hpp"
#include "session/inplace_ambiguity.hpp"
#include "session/lowered_view.hpp"
#include "session/memory_limit.hpp"
#include "session/program_cache.hpp"
#include "session/shared_constants.hpp"

namespace popart::session {
namespace {

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

TensorData firstValue(const Ir &ir, const TensorId &variable) {
  for (const Graph *graph : ir.getAllGraphs())
    if (const TensorIndex t = graph->find(variable); t.valid() && graph->tensor(t).hasTensorData())
      return graph->tensor(t).tensorData();
  return {};
}

// Replaces `value`, that of the first of `members`, by the mean of all. If all are equal, its bits do not change. The
// differences of the others are added in the order in which collectives add.
void averageInto(char *value, const TensorInfo &info, unsigned members, const auto &read) {
  using Values = std::vector<double>;
  TensorData other(info);
  Values means = TensorData(info, value).asDoubles(), sums;
  const auto add = [](Values &sum, const Values &values) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  };
  const auto differences = [&](unsigned member) {
    read(member, other.mutableData());
    Values values = other.asDoubles();
    for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] == means[i] ? 0 : values[i] - means[i];
    return values;
  };
  const auto leaf = [&](unsigned first, unsigned count, Values &sum) {
    sum = differences(first);
    if (count == 2) add(sum, differences(first + 1));
  };
  executable::joinInTree(0, members, leaf, add, sums);
  for (size_t i = 0; i < means.size(); ++i)
    if (sums[i] != 0) means[i] += sums[i] / members;
  std::memcpy(value, TensorData::fromDoubles(info, means).data(), static_cast<size_t>(info.nbytes()));
}

// Groups of collectives consist of whole replicas.
void checkGroups(const Ir &ir, int replicas) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops()) {
      if (!op->hasAttr("group_size") || !op->hasAttr("stride")) continue;
      const int64_t size = op->attrInt("group_size"), stride = size == 1 ? 1 : op->attrInt("stride");
      if (size < 1 || stride < 1 || size > replicas || stride > replicas || replicas % (size * stride) != 0)
        throw error(
            "{}: its groups do not fit the replicas: got groups of {} with stride {}, expected stride x size to divide "
            "{} replicas",
            op->debugName(), size, stride, replicas);
    }
}

// The constants whose hashes are worth keeping, in program order.
std::vector<TensorData> largeConstants(const Ir &ir) {
  std::vector<TensorData> constants;
  for (const Graph *graph : ir.getAllGraphs())
    for (const Tensor *t : graph->tensorsOfType(TensorType::Const))
      if (t->tensorData().nbytes() >= kLargeConstantBytes) constants.push_back(t->tensorData());
  return constants;
}

// The rules as text, without those that have their default.
std::string textOf(const lower::CollectiveRules &rules) {
  if (rules == lower::CollectiveRules()) return "";
  std::string text = "collectives";
  for (const auto &merging : {rules.reduce, rules.scatter, rules.gather})
    text += " " + toText(merging.together) + "/" + toText(merging.waiting);
  return text + " ahead " + toText(rules.ahead) + "\n";
}

VariableValues variablesOf(const lower::Program &program) {
  VariableValues values;
  for (const Tensor *variable : program.ir->getMainGraph().tensorsOfType(TensorType::Variable))
    if (variable->hasTensorData()) values[variable->id] = variable->tensorData();
  return values;
}

}  // namespace

std::string targetOf(const CompileOptions &options) {
  std::string text;
  for (const executable::Backend *backend : options.device->backends()) {
    text += (text.empty() ? "" : ", ") + backend->name();
    if (const std::string variant = backend->variant(); !variant.empty()) text += " " + variant;
  }
  return options.device->name() + " (" + text + ")";
}

lower::LowerOptions lowerOptions(const CompileOptions &options) {
  lower::LowerOptions lowering;
  lowering.backends = options.device->backends();
  lowering.evaluate = options.evaluate;
  lowering.threads = options.threads;
  lowering.sharesScratch = options.device->sharesScratch();
  lowering.checkFloats = options.checkFloats;
  lowering.roundStochastically = options.roundStochastically;
  lowering.checkLog2Scales = options.checkLog2Scales;
  lowering.ignoreLabelsOutOfRange = options.ignoreLabelsOutOfRange;
  lowering.lanes = options.lanes;
  lowering.collectives = options.collectives;
  lowering.replicas = options.replicas;
  lowering.passesOff = options.passesOff;
  lowering.times = options.times;
  lowering.locals = options.localReplicas();
  lowering.maxMemoryBytes = options.maxMemoryBytes / options.localReplicas();
  if (const auto placement = options.placement())
    lowering.exchangeBytes = [placement](const executable::Executable &executable) {
      return runtime::RankCollectives::mostBytesOf(executable::collectivesOf(executable), placement->layout,
                                                   {.sharesMemory = placement->sharesMemory});
    };
  return lowering;
}

ProgramDescription describeProgram(const Ir &ir, const CompileOptions &options, ValueTable *held) {
  ProgramDescription d{"", targetOf(options), options.threads};
  const std::vector<TensorData> large = largeConstants(ir);
  ValueNumbers numbers;
  for (const TensorData &constant : large) numbers.try_emplace({constant.data(), constant.nbytes()}, numbers.size());
  std::string program;
  const auto print = [&] {
    ValueTable values;
    program = printWithTable(ir, values, false, &numbers);
  };
  ConstantHashes fresh;
  const std::vector<uint64_t> hashes =
      (options.constants ? *options.constants : fresh).of(large, options.threads, print);
  const std::string replicas =
      options.replicas == 1 ? ""
                            : toText(options.replicas) + " replicas, " + toText(options.localReplicas()) + " here\n";
  std::string text = "popart " + core::versionString() + "\n" + d.target + "\n" + toText(d.threads) + " threads\n" +
                     replicas + (options.checkFloats ? "floating point checks\n" : "") +
                     (options.roundStochastically ? "stochastic rounding\n" : "") +
                     (options.checkLog2Scales ? "" : "unchecked scales\n") +
                     (options.ignoreLabelsOutOfRange ? "labels out of range ignored\n" : "") +
                     textOf(options.collectives);
  for (const std::string &pass : options.passesOff) text += "without " + pass + "\n";
  for (const uint64_t hash : hashes) text += toText(hash) + "\n";
  d.key = fingerprintOf(text + program);
  if (held)
    for (size_t i = 0; i < large.size(); ++i) held->emplace(hashes[i], large[i]);
  return d;
}

lower::Program CompiledProgram::obtain(const Ir &ir, const CompileOptions &options, const lower::LowerOptions &lowering,
                                       const lower::Backends &backends) const {
  if (options.program) return *options.program;
  const auto build = [&] {
    logging::session::debug("session '{}': compilation begins", name_);
    return pipeline::lowerProgram(ir, lowering, backends);
  };
  if (options.cacheFolder.empty()) return build();
  const ProgramCache cache(options.cacheFolder);
  ValueTable held;
  const ProgramDescription description = describeProgram(ir, options, &held);
  auto kept = cache.find(description, held, [&ir](const TensorId &variable) { return firstValue(ir, variable); });
  if (kept) {
    logging::session::debug("session '{}': the program comes from '{}'", name_, cache.path(description.key));
    return std::move(*kept);
  }
  lower::Program program = build();
  cache.store(description, program, options.cacheVariables ? variablesOf(program) : VariableValues());
  return program;
}

void CompiledProgram::unload() {
  replicas_.reset();
  collectives_.reset();
  transport_.reset();
}

void CompiledProgram::drop() {
  unload();
  ahead_.reset();
  streams_.reset();
  comparison_.reset();
  executable_.reset();
  schedule_ = {};
  lowered_.reset();
  variables_.clear();
}

void CompiledProgram::compile(const Ir &ir, const CompileOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  drop();
  const lower::LowerOptions lowering = lowerOptions(options);
  checkTensorsFit(ir);
  checkGroups(ir, options.replicas);
  if (options.order == OrderRule::Refuse)
    for (const Graph *graph : ir.getAllGraphs()) checkInplaceAmbiguity(*graph);
  withinMemory("Session '" + name_ + "': compiling", [&] {
    const lower::Backends backends = lower::remember(lowering);
    lowered_ = shareConstants(obtain(ir, options, lowering, backends), options.otherPrograms);
    lower::Compiled compiled = lower::compileInSteps(*lowered_, lowering, backends);
    schedule_ = std::move(compiled.schedule);
    executable_ = std::move(compiled.executable);
  });
  device_ = options.device;
  settings_ = {options.threads, options.wakePolicy};
  settings_.replica = options.firstLocal;
  settings_.replicas = options.replicas;
  settings_.locals = options.localReplicas();
  settings_.collectives = options.communicator;
  job_ = options.job;
  if (job_) {
    settings_.sharers = job_->placement().sharers;
    settings_.sharer = job_->placement().sharer;
    settings_.process = job_->process();
    CompileOptions common = options;
    common.threads = 1;  // processes may have different numbers of cores and replicas
    common.locals = 0;
    key_ = describeProgram(ir, common).key;
  }
  settings_.timesSteps = options.timesSteps;
  settings_.mostEvents = options.mostEvents;
  settings_.mostIterations = options.limits.iterations;
  settings_.longest = options.limits.time;
  timesRuns_ = options.timesRuns;
  std::vector<bool> broadcast;
  for (const auto &input : executable_->inputs) broadcast.push_back(options.broadcastInputs.count(input.id) > 0);
  ahead_ = AheadStreams::make(*executable_, options.ahead, settings_.locals, broadcast);
  if (job_ && options.compared != Compared::Nothing)
    comparison_ = std::make_unique<ValueComparison>(job_, name_, options.compared, executable_, broadcast);
  if (settings_.locals > 1)
    streams_ = std::make_unique<ReplicaStreams>(settings_.locals, std::move(broadcast), executable_->outputs.size());
  for (size_t i = 0; i < executable_->variables.size(); ++i)
    variables_.emplace(executable_->variables[i].id, static_cast<int>(i));
  for (const auto &fallback : executable_->fallbacks)
    logging::devicex::info("{} runs on the reference backend: {}: {}", stepTitle(fallback.op, fallback.layer),
                           fallback.backend, fallback.reason);
  logging::session::info(
      "session '{}': compiled {} steps in {} ms; memory: {} bytes arena, {} bytes variables, {} bytes constants", name_,
      executable_->main.steps.size(), millisecondsSince(start), executable_->memory.arenaBytes,
      executable_->memory.variableBytes, executable_->memory.constantBytes);
}

void CompiledProgram::attach(DeviceInfo &device) const {
  if (device.getConnectionType() == DeviceConnectionType::Never)
    throw runtime_error(
        "Session '{}': an offline device cannot run programs. Use a device of connection type Always or OnDemand",
        name_);
  if (!device.isAttached() && !device.tryAttachUntilTimeout())
    throw error(
        "Session '{}': the device {} is in use. Detach it elsewhere, or set DeviceManager::setOnDemandAttachTimeout",
        name_, device.toString());
}

void CompiledProgram::load(DeviceInfo &device) {
  requireCompiled("load");
  attach(device);
  const auto start = std::chrono::steady_clock::now();
  unload();
  if (job_) joinOthers();
  try {
    replicas_ = withinMemory("Session '" + name_ + "': loading",
                             [&] { return std::make_unique<runtime::Replicas>(executable_, *device_, settings_); });
  } catch (const std::exception &e) {
    if (transport_) transport_->abort(e.what());  // the other processes wait
    throw;
  }
  runs_ = 0;
  lastRun_ = inRuns_ = {};
  const std::string replicas = settings_.locals == 1 ? "" : toText(settings_.locals) + " replicas, each ";
  logging::session::info("session '{}': loaded on {} with {}{} threads in {} ms", name_, device.toString(), replicas,
                         replicas_->engine(0).threads(), millisecondsSince(start));
}

void CompiledProgram::reload(DeviceInfo &device) {
  requireLoaded("reload");
  const auto count = static_cast<int>(executable_->variables.size());
  std::vector<std::vector<char>> values;  // of all variables of one replica, then of the next
  forEachLocal([&](const runtime::Engine &engine, int) {
    for (int i = 0; i < count; ++i) {
      values.emplace_back(static_cast<size_t>(executable_->variables[static_cast<size_t>(i)].info.nbytes()));
      engine.readVariable(i, values.back().data());
    }
  });
  load(device);
  auto value = values.cbegin();
  forEachLocal([&](runtime::Engine &engine, int) {
    for (int i = 0; i < count; ++i) engine.writeVariable(i, (value++)->data());
  });
}

void CompiledProgram::joinOthers() {
  if (const int odd = job_->findOdd(key_); odd >= 0)
    throw runtime_error(
        "Session '{}': the program of {} differs from that of most processes. All processes need the same model, "
        "options, data flow and version, and processors with the same instructions",
        name_, job_->layout().describe(odd));
  transport_ = job_->transport();
  collectives_ = std::make_unique<runtime::RankCollectives>(*transport_, job_->layout(), [&] {
    exchange::ExchangeSettings exchanging = job_->exchangeSettings();
    exchanging.spin = settings_.locals * settings_.threads < settings_.processors().threads();
    return exchanging;
  }());
  settings_.collectives = collectives_.get();
}

void CompiledProgram::timeSteps(bool times, int64_t mostEvents) {
  settings_.timesSteps = times;
  settings_.mostEvents = mostEvents;
  timesRuns_ = timesRuns_ || times;
}

runtime::StepTimes *CompiledProgram::stepTimes(int local) {
  return replicas_ ? replicas_->engine(local).stepTimes() : nullptr;
}

void CompiledProgram::requireCompiled(const std::string &what) const {
  if (!executable_)
    throw runtime_error("Session '{}': {} before the program is compiled. Try calling Session::prepareDevice first",
                        name_, what);
}

void CompiledProgram::requireLoaded(const std::string &what) const {
  requireCompiled(what);
  if (!replicas_)
    throw runtime_error(
        "Session '{}': {} before the program is loaded. Call prepareDevice(), or loadEngineAndConnectStreams() after "
        "prepareDevice(false)",
        name_, what);
}

int CompiledProgram::findVariable(const TensorId &id) const {
  const auto found = variables_.find(id);
  return found == variables_.end() ? -1 : found->second;
}

std::string CompiledProgram::loweredModel(PrintData values) const {
  requireCompiled("getLoweredModel");
  return loweredView(*lowered_->ir, schedule_, *executable_, values);
}

VariableValues CompiledProgram::firstValues() const { return variablesOf(*lowered_); }

int64_t CompiledProgram::deviceBytes() const {
  return executable::totalBytes(*executable_, {settings_.replica, settings_.locals});
}

void CompiledProgram::writeVariable(int variable, const void *data) {
  const executable::VariableSpec &v = executable_->variables[static_cast<size_t>(variable)];
  const ReplicaGrouping groups = v.replicas.getReplicaGrouping(static_cast<unsigned>(settings_.replicas));
  forEachLocal([&](runtime::Engine &engine, int replica) {
    const unsigned group = groups.getGroupAt(static_cast<unsigned>(replica));
    engine.writeVariable(variable, static_cast<const char *>(data) + group * v.info.nbytes());
  });
}

void CompiledProgram::complete(void *data, int64_t valueBytes, std::span<const int> replicas) const {
  if (settings_.locals == settings_.replicas) return;
  if (!job_)
    throw runtime_error("Session '{}': values of replica {} are in another process: here are replicas {} to {}", name_,
                        *std::ranges::find_if_not(replicas, [&](int replica) { return isHere(replica); }),
                        settings_.replica, settings_.replica + settings_.locals - 1);
  job_->complete(data, valueBytes, replicas);
}

std::vector<int> CompiledProgram::allReplicas() const {
  std::vector<int> all(static_cast<size_t>(settings_.replicas));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void CompiledProgram::readVariable(int variable, void *data) const {
  const executable::VariableSpec &v = executable_->variables[static_cast<size_t>(variable)];
  const ReplicaGrouping groups = v.replicas.getReplicaGrouping(static_cast<unsigned>(settings_.replicas));
  const auto valueOf = [&](unsigned group) { return static_cast<char *>(data) + group * v.info.nbytes(); };
  if (v.replicas.getRetrievalMode() == VariableRetrievalMode::AllReduceReplicas && isFloatingPoint(v.info.dataType()) &&
      groups.getGroupSize() > 1) {
    std::vector<char> elsewhere;  // values of all replicas
    if (settings_.locals < settings_.replicas) {
      elsewhere.resize(static_cast<size_t>(settings_.replicas * v.info.nbytes()));
      readReplicas(variable, elsewhere.data());
    }
    for (unsigned g = 0; g < groups.getNumGroups(); ++g) {
      const auto read = [&](unsigned member, void *to) {
        const auto replica = static_cast<int>(groups.getReplicaAt(g, member));
        if (elsewhere.empty()) return engineOf(replica).readVariable(variable, to);
        std::memcpy(to, elsewhere.data() + replica * v.info.nbytes(), static_cast<size_t>(v.info.nbytes()));
      };
      read(0, valueOf(g));
      averageInto(valueOf(g), v.info, groups.getGroupSize(), read);
    }
    return;
  }
  // If every process has replicas of a group, each reads the value from its own.
  const auto isInEachProcess = [&](unsigned g) {
    return exchange::membersOf(job_->layout(), groups, static_cast<int>(g)).size() ==
           static_cast<size_t>(job_->layout().processes());
  };
  const bool areAllHere = settings_.locals == settings_.replicas ||
                          (job_ && std::ranges::all_of(std::views::iota(0U, groups.getNumGroups()), isInEachProcess));
  std::vector<int> readers;  // the replica to read, by group
  for (unsigned g = 0; g < groups.getNumGroups(); ++g) {
    unsigned member = 0;
    const auto reader = [&] { return static_cast<int>(groups.getReplicaAt(g, member)); };
    while (areAllHere && !isHere(reader())) ++member;
    readers.push_back(reader());
    if (isHere(reader())) engineOf(reader()).readVariable(variable, valueOf(g));
  }
  if (!areAllHere) complete(data, v.info.nbytes(), readers);
}

void CompiledProgram::readReplicas(int variable, void *data) const {
  const int64_t bytes = executable_->variables[static_cast<size_t>(variable)].info.nbytes();
  forEachLocal([&](const runtime::Engine &engine, int replica) {
    engine.readVariable(variable, static_cast<char *>(data) + replica * bytes);
  });
  complete(data, bytes, allReplicas());
}

void CompiledProgram::writeRow(int variable, int64_t row, const void *data) {
  const TensorInfo &info = executable_->variables[static_cast<size_t>(variable)].info;
  const int64_t bytes = info.nbytes() / info.shape().front();
  forEachLocal([&](runtime::Engine &engine, int replica) {
    engine.writeRow(variable, row, static_cast<const char *>(data) + replica * bytes);
  });
}

void CompiledProgram::readRow(int variable, int64_t row, void *data) const {
  const TensorInfo &info = executable_->variables[static_cast<size_t>(variable)].info;
  const int64_t bytes = info.nbytes() / info.shape().front();
  forEachLocal([&](const runtime::Engine &engine, int replica) {
    engine.readRow(variable, row, static_cast<char *>(data) + replica * bytes);
  });
  complete(data, bytes, allReplicas());
}

RunStatistics CompiledProgram::statistics() const {
  RunStatistics all;
  if (!replicas_) return all;
  forEachLocal([&](const runtime::Engine &engine, int) {
    const RunStatistics &own = engine.transfers();
    all.transfersFromHost += own.transfersFromHost;
    all.bytesFromHost += own.bytesFromHost;
    all.transfersToHost += own.transfersToHost;
    all.bytesToHost += own.bytesToHost;
  });
  all.runs = runs_;
  if (timesRuns_) all.seconds = std::chrono::duration<double>(inRuns_).count();
  return all;
}

CompiledProgram::OneRun::OneRun(CompiledProgram &program) : running(program.running_) {
  if (running.exchange(true, std::memory_order_acquire))
    throw runtime_error("Session '{}': run is called while another run is going on. Use one session per thread",
                        program.name_);
}

}  // namespace popart::session
