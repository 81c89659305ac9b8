// Session: its use of the session core, and queries about the program. Weights are in session_weights.cpp, creation in
// session_create.cpp.
#include <popart/session.hpp>

#include <algorithm>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "api/compile_options.hpp"
#include "api/open_shapes.hpp"
#include "api/session_impl.hpp"
#include "api/virtual_ipus.hpp"
#include "base/environment.hpp"
#include "executable/cost.hpp"
#include "ops/random/seed.hpp"
#include "patterns/pattern.hpp"
#include "pipeline/options.hpp"
#include "session/engine_options.hpp"
#include "session/host_streams.hpp"
#include "session/inplace_ambiguity.hpp"
#include "session/memory_limit.hpp"
#include "session/value_comparison.hpp"

namespace popart {

Session::Session(std::unique_ptr<Impl> impl, std::unique_ptr<OpenShapes> open)
    : impl_(std::move(impl)), open_(std::move(open)) {}
Session::Session(Session &&) noexcept = default;
Session::~Session() = default;

void Session::Impl::loadToRun() {
  program.requireCompiled("run");
  if (!options.compileEngine) program.requireLoaded("run");
  load();
}

// " MatMul '100' ([x, w] -> [MatMul:0]) has virtual graph 2."
static std::string placeText(const Op &op) {
  std::vector<TensorId> inputs, outputs;
  for (InIndex i = 0; i < op.inputCount(); ++i)
    if (op.hasInput(i)) inputs.push_back(op.inId(i));
  for (OutIndex o = 0; o < op.outputCount(); ++o)
    if (op.hasOutput(o)) outputs.push_back(op.outId(o));
  return formatText(" {} ({} -> {}) has virtual graph {}.",
                    {op.debugName(), toText(inputs), toText(outputs), toText(*op.settings.vgraphId)});
}

void Session::Impl::checkDeviceFits() const {
  if (device->getType() == DeviceType::Cpu) return;
  const Op *highest = nullptr;  // on the IPU with the highest number
  if (options.virtualGraphMode != VirtualGraphMode::Off)
    for (const Graph *graph : ir().getAllGraphs())
      for (const Op *op : graph->ops())
        if (op->settings.vgraphId && (!highest || *op->settings.vgraphId > *highest->settings.vgraphId)) highest = op;
  const int64_t ipusPerReplica = highest ? std::max<int64_t>(1, *highest->settings.vgraphId + 1) : 1;
  const int64_t replicas = options.getLocalReplicationFactor(), needed = ipusPerReplica * replicas;
  const bool enough = options.virtualGraphMode == VirtualGraphMode::Off ? device->getNumIpus() % replicas == 0
                                                                        : device->getNumIpus() >= needed;
  if (enough) return;
  throw error(
      "Session '{}': the device does not suit the program: got {} IPUs, expected {} = {} IPUs per replica x {} "
      "replicas.{} Acquire a device with that many IPUs",
      name, device->getNumIpus(), needed, ipusPerReplica, replicas, highest ? placeText(*highest) : "");
}

bool Session::Impl::isInJob() const {
  return options.getGlobalReplicationFactor() > options.getLocalReplicationFactor();
}

session::JobSettings Session::Impl::jobSettings() const {
  return {static_cast<int>(options.getGlobalReplicationFactor()), static_cast<int>(options.getLocalReplicationFactor()),
          static_cast<int>(options.globalReplicaOffset), session::replicasTimeout(options.engineOptions),
          session::replicasShareMemory(options.engineOptions)};
}

void Session::Impl::join() {
  if (!job && isInJob()) job = session::joinJob(jobSettings());
}

void Session::Impl::joinToRun() {
  if (device->getConnectionType() != DeviceConnectionType::Never) join();
}

int Session::Impl::threads() const {
  if (job) return computeThreadCount(options, job->placement().processors());
  return computeThreadCount(options,
                            isInJob() ? session::expectedPlacement(jobSettings()).processors() : processorLimits());
}

session::CompileOptions Session::Impl::compileOptions() const {
  const int locals = static_cast<int>(options.getLocalReplicationFactor());
  session::CompileOptions compiling = compileOptionsFor(device->getType(), threads(), locals);
  session::replicasTimeout(options.engineOptions);  // refuses a bad one, as the next one does
  session::replicasShareMemory(options.engineOptions);
  if (isInJob()) {
    compiling.replicas = static_cast<int>(options.getGlobalReplicationFactor());
    compiling.locals = locals;
    compiling.firstLocal = static_cast<int>(options.globalReplicaOffset);
    compiling.job = job;
    if (!job) compiling.expected = std::make_shared<session::Placement>(session::expectedPlacement(jobSettings()));
  }
  const std::shared_ptr<const session::Placement> placement = compiling.placement();
  compiling.broadcastInputs = broadcastInputs;
  compiling.ahead = ahead;
  compiling.timesRuns = options.instrumentWithHardwareCycleCounter || profile.timesRuns();
  compiling.timesSteps = profile.isOn();
  compiling.mostEvents = profile.mostEvents();
  compiling.times = compileTimes;
  compiling.maxMemoryBytes =
      session::memoryLimitBytes(options.engineOptions, placement ? placement->processesOnHost() : 1);
  compiling.lanes = session::laneRule(options.engineOptions);
  compiling.ignoreLabelsOutOfRange = session::ignoresLabelsOutOfRange(options.engineOptions);
  compiling.limits = session::runLimits(options.engineOptions);
  compiling.compared = session::comparedValues(options.engineOptions);
  compiling.passesOff = passesOff(options.engineOptions, device->getType());
  if (options.enableInplaceAmbiguityChecking) compiling.order = session::OrderRule::Refuse;
  compiling.checkFloats = options.enableFloatingPointChecks;
  compiling.roundStochastically = options.enableStochasticRounding;
  compiling.collectives = pipeline::collectiveRules(options);
  if (placement) placement->adapt(compiling.collectives);
  compiling.checkLog2Scales = options.throwIfLog2ScaleTensorNotInRange;
  if (options.enableEngineCaching) compiling.cacheFolder = options.cachePath;
  compiling.cacheVariables = options.enableVariablesCaching;
  compiling.program = loadedProgram;
  if (model) compiling.constants = &constantHashes;
  compiling.otherPrograms = otherPrograms;
  return compiling;
}

void Session::Impl::compile() {
  program.unload();
  fitted.reset();
  checkDeviceFits();
  requireUnchangedFiles();
  joinToRun();
  patterns::requireExpansions(ir(), patterns);
  session::CompileOptions compiling = compileOptions();
  session::CompileOptions first = compiling;
  if (prepareRequest) first.maxMemoryBytes = 0;  // a program that does not fit is not refused yet
  program.compile(ir(), first);
  const bool runsLanes =
      compiling.lanes == lower::LaneRule::Auto && executable::mostLanes(program.executable()->main) > 1;
  if (prepareRequest && !fits(compiling) && (runsLanes || compiling.replicas > 1)) {
    if (runsLanes) compiling.lanes = lower::LaneRule::Never;  // each lane has separate memory
    compiling.collectives.saveMemory();
    first.lanes = compiling.lanes, first.collectives = compiling.collectives;
    program.compile(ir(), first);
  }
  if (prepareRequest && !fits(compiling)) {
    fit(compiling);
    session::returnFreedMemory();  // of all programs that were tried
  }
  if (forward) {
    compiling.program.reset();
    compiling.constants = nullptr;
    if (compiling.maxMemoryBytes > 0)  // the memory that the training program leaves free
      compiling.maxMemoryBytes = std::max<int64_t>(1, compiling.maxMemoryBytes - deviceBytes() - exchangeBytes());
    forward->compile(compiling);
  }
  if (logging::shouldLog(logging::Module::session, logging::Level::Info))  // as it counts the size of the model
    logging::session::info("session '{}': {} bytes predicted peak with the host's copies", name, predictedPeakBytes());
}

bool Session::Impl::fits(const session::CompileOptions &compiling) const {
  const int64_t most = compiling.maxMemoryBytes / compiling.localReplicas();
  return most <= 0 || program.executable()->memory.total() <= most;
}

void Session::Impl::fit(session::CompileOptions compiling) {
  const lower::LowerOptions lowering = session::lowerOptions(compiling);
  const lower::Backends backends = lower::remember(lowering);
  fitting::FitRequest request{prepareRequest, constantWeights, lowering, &backends};
  request.mostBytes = compiling.maxMemoryBytes / compiling.localReplicas();
  request.replicas = compiling.localReplicas();
  request.movesOffChip = session::isRemoteMemoryUncounted(options.engineOptions);
  const lower::Program plain = program.lowered();
  const std::string what = "Session '" + name + "': fitting the program into memory";
  try {
    fitted = session::withinMemory(what, [&] { return fitting::fitIntoMemory(request, plain); });
  } catch (...) {
    program.drop();
    throw;
  }
  compiling.program = compiling.cacheFolder.empty() ? std::make_shared<const lower::Program>(fitted->program) : nullptr;
  program.compile(running(), compiling);
  fitted->program = {};  // the session makes its own program from it
}

void Session::Impl::fillSizes() {
  sizes = {};
  sizes.batchesPerStep = dataFlow.batchesPerStep();
  sizes.accumulationFactor = options.getAccumulationFactor();
  sizes.replicationFactor = options.getLocalReplicationFactor();
  sizes.modelInputs = modelInputs;
  if (model)
    for (const TensorId &id : model->initializerIds()) sizes.weights.insert(id);
  sizes.trains = mode == Mode::Training;
  const session::HostStreams host = session::hostStreams(ir());
  for (const auto &[id, info] : host.inputs) sizes.inputs[id] = {info, broadcastInputs.count(id) > 0};
  for (const auto &[id, info] : host.outputs)
    sizes.outputs[id] = {info, dataFlow.isAnchored(id) ? dataFlow.art(id) : AnchorReturnType("All")};
  sizes.fillWholeShapes();
}

void Session::Impl::load() {
  requireUnchangedFiles();
  program.load(*device);
  if (job)
    session::compareFirstValues(*job, name, hostWeights,
                                "Give all processes the same model, or call broadcastWeights before weightsFromHost");
  profile.reset(program);
  if (forward) forward->load(*device, options.syntheticDataMode);
  streams = std::make_unique<StepStreams>(program.executable());
  if (options.syntheticDataMode != SyntheticDataMode::Off)
    synthetic = std::make_unique<SyntheticStreams>(*program.executable(), options.syntheticDataMode);
  weightsLoaded = false;
  hasReadDevice = false;
  hasWeights = false;
  writeRngState();
  const auto &variables = program.executable()->variables;
  for (size_t i = 0; i < variables.size(); ++i) {
    const auto host = hostWeights.find(variables[i].id);
    if (host == hostWeights.end()) continue;  // the host has no value
    hasWeights |= !ops::isRandomSeed(variables[i].id);
    const void *data = host->second.data();  // the engine has already written the initial values
    if (variables[i].initial.data() != data) writeToDevice(static_cast<int>(i), host->second);
  }
}

void Session::prepareDevice(bool loadEngine) {
  logging::session::trace("Session::prepareDevice");
  if (open_ && open_->prepare(loadEngine, impl_)) return;
  if (!impl_->device) throw error("Session '{}': no device is set. Call setDeviceInfo", impl_->name);
  const SessionOptions &options = impl_->options;
  const auto report = [&options](int done) {
    if (options.compilationProgressLogger) options.compilationProgressLogger(done, options.compilationProgressTotal);
  };
  report(0);
  const std::optional<Impl::DeviceState> before = impl_->deviceState();
  impl_->compile();
  if (loadEngine && options.compileEngine) {
    report(std::max(options.compilationProgressTotal - 1, 0));
    impl_->load();
    if (before) impl_->restore(*before);
  }
  report(options.compilationProgressTotal);
}

void Session::loadEngineAndConnectStreams() {
  logging::session::trace("Session::loadEngineAndConnectStreams");
  impl_->program.requireCompiled("loadEngineAndConnectStreams");
  if (!impl_->program.isLoaded()) impl_->load();
}

bool Session::isPrepared() const { return open_ && !impl_.get() ? open_->prepared : impl_->program.isCompiled(); }

void Session::Impl::requireUnchangedFiles() const {
  if (model) model->requireUnchangedFiles();
}

void Session::Impl::requireWeights() const {
  if (mode == Mode::Training && !weightsLoaded && hasWeights) [[unlikely]]
    throw runtime_error("Session '{}': run before the weights are on the device. Call weightsFromHost first", name);
}

void Session::run(IStepIO &stepIO, std::string debugName) {
  if (open_) [[unlikely]]
    setInputShapes(stepIO);
  Impl &s = *impl_;
  if (!s.program.isLoaded()) [[unlikely]]
    s.loadToRun();
  s.requireWeights();
  bool connected = false;
  const auto connect = [&]() -> runtime::StreamSource & {
    if (s.synthetic) return *s.synthetic;
    s.streams->connect(stepIO, s.sizes);
    connected = true;
    return *s.streams;
  };
  try {
    s.hostWeightsInSync = s.hasReadDevice = false;
    s.program.run(connect);
  } catch (...) {
    if (connected) s.streams->rewind();  // values that the run has taken count as not taken
    throw;
  }
  if (s.profile.isOn()) [[unlikely]]
    s.profile.record(s.program, debugName);
}

void Session::run(std::string programHandle, IStepIO &stepIO, std::string) {
  if (open_) setInputShapes(stepIO);
  const bool hasBuffers = !impl_->options.updatableNamedBuffers.empty();
  if (hasBuffers && programHandle == "copyNamedBuffers") return buffersFromHost();
  if (impl_->forward && programHandle == ForwardProgram::kHandle) {
    if (!impl_->program.isLoaded()) impl_->loadToRun();
    impl_->requireWeights();
    return impl_->forward->run(impl_->program, stepIO);
  }
  throw runtime_error(
      "Session '{}': unknown program: got '{}', this session has the program that run(stepIO) runs{}{}. "
      "'copyNamedBuffers' needs SessionOptions::updatableNamedBuffers, '{}' createImplicitPipeliningFwdOnlyProgram",
      impl_->name, programHandle, hasBuffers ? ", 'copyNamedBuffers'" : "",
      impl_->forward ? std::string(", '") + ForwardProgram::kHandle + "'" : "", ForwardProgram::kHandle);
}

RunStatistics Session::statistics() const {
  RunStatistics all = impl_->program.statistics();
  if (impl_->synthetic) all = {.runs = all.runs, .seconds = all.seconds};
  return all;
}

TensorInfo Session::getInfo(TensorId id) const {
  // For an anchor: the value that one micro-batch of a replica returns. Transforms keep tensors with its name in other
  // forms.
  if (const auto anchor = impl_->sizes.outputs.find(id); anchor != impl_->sizes.outputs.end())
    return anchor->second.info;
  if (const transforms::Sharding *sharding = impl_->shardingOf(impl_->tensorId(id))) return sharding->whole;
  if (const auto whole = impl_->prepared.infos.find(impl_->tensorId(id)); whole != impl_->prepared.infos.end())
    return whole->second;
  // Tensors that transforms made later: with several batches, or micro-batches, they are in separate graphs.
  for (const Graph *graph : impl_->ir().getAllGraphs())
    if (const TensorIndex t = graph->find(impl_->tensorId(id)); t.valid()) return graph->info(t);
  if (const auto gone = impl_->prepared.outlined.find(impl_->tensorId(id)); gone != impl_->prepared.outlined.end())
    return gone->second;
  return impl_->ir().getMainGraph().getTensor(id)->info;  // throws with the nearest names
}

bool Session::hasInfo(TensorId id) const {
  const std::vector<Graph *> graphs = impl_->ir().getAllGraphs();
  return impl_->prepared.outlined.contains(impl_->tensorId(id)) ||
         std::any_of(graphs.begin(), graphs.end(),
                     [&](const Graph *graph) { return graph->contains(impl_->tensorId(id)); });
}

std::set<TensorId> Session::getAllTensorIds() const {
  std::set<TensorId> ids;
  for (const Graph *graph : impl_->ir().getAllGraphs())
    for (const Tensor *tensor : graph->tensors()) ids.insert(tensor->id);
  for (const auto &gone : impl_->prepared.outlined) ids.insert(gone.first);
  return ids;
}

int64_t Session::Impl::deviceBytes() const { return program.deviceBytes() + (forward ? forward->deviceBytes() : 0); }

int64_t Session::Impl::remoteBytes() const { return program.remoteBytes(); }

int64_t Session::Impl::exchangeBytes() const {
  return program.exchangeBytes() + (forward ? forward->exchangeBytes() : 0);
}

int64_t Session::Impl::predictedPeakBytes() const {
  return deviceBytes() + hostBytes() + program.aheadBytes() + exchangeBytes() + programBytes() +
         (environment::remoteMemory() ? 0 : remoteBytes());
}

std::string Session::getSummaryReport(bool resetProfile) const {
  impl_->program.requireLoaded("getSummaryReport");
  const auto &memory = impl_->program.executable()->memory;
  std::string report = "Memory\n";
  if (impl_->program.replicas() > 1) report += "  replicas: " + std::to_string(impl_->program.replicas()) + "\n";
  const std::pair<const char *, int64_t> rows[] = {{"activations", memory.arenaBytes},
                                                   {"largest live set", memory.largestLiveSetBytes},
                                                   {"variables", memory.variableBytes},
                                                   {"constants", memory.constantBytes},
                                                   {"scratch", memory.scratchBytes},
                                                   {"total", impl_->deviceBytes()},
                                                   {"host copies", impl_->hostBytes()},
                                                   {"program", impl_->programBytes()},
                                                   {"predicted peak", impl_->predictedPeakBytes()}};
  for (const auto &[what, bytes] : rows) report += "  " + std::string(what) + ": " + std::to_string(bytes) + " bytes\n";
  if (const int64_t bytes = impl_->exchangeBytes(); bytes > 0)
    report += "  exchange between processes: " + std::to_string(bytes) + " bytes\n";
  if (const int64_t bytes = impl_->program.aheadBytes(); bytes > 0)
    report += "  host data ahead: " + std::to_string(bytes) + " bytes\n";
  if (const int64_t bytes = impl_->remoteBytes(); bytes > 0)
    report += "  remote memory: " + std::to_string(bytes) + " bytes\n";
  if (impl_->fitted) report += "Memory limit\n" + fitting::toText(impl_->fitted->report);
  report += impl_->profile.summary();
  if (resetProfile) impl_->profile.reset(impl_->program);
  return report;
}

std::string Session::getReport() const {
  impl_->program.requireCompiled("getReport");
  const executable::Executable &program = *impl_->program.executable();
  const int threads = impl_->threads();
  const double cycles = totalCycles(program, *impl_->device, statistics(), threads);
  return profileJson({program, *impl_->program.lowered().ir, *impl_->device, impl_->profile, *impl_->compileTimes,
                      impl_->name, impl_->program.replicas(), impl_->program.localReplicas(), threads, cycles});
}

void Session::profileRuns(int runs, int before) {
  Impl &s = *impl_;
  s.program.requireLoaded("profileRuns");
  if (runs < 0 || before < 0)
    throw error("Session '{}': profileRuns: got {} runs after {}, expected 0 or more of both", s.name, runs, before);
  s.profile.ask(static_cast<size_t>(runs), static_cast<size_t>(before));
  Profile::resetTimes(s.program);
  // Processes of a job load together, and each may have been timed or not.
  if (!s.isInJob() && s.profile.isOn() == (s.program.stepTimes() != nullptr)) return;
  const std::optional<Impl::DeviceState> state = s.deviceState();
  s.program.timeSteps(s.profile.isOn(), s.profile.mostEvents());
  s.load();
  s.restore(*state);
}

void Session::endProfile() {
  if (!impl_->isInJob()) return profileRuns(0);
  impl_->profile.ask(0, 0);
  Profile::resetTimes(impl_->program);
}

std::pair<size_t, size_t> Session::runsToProfile() const { return impl_->profile.runsToCome(); }

std::string Session::getThreadReport() const {
  impl_->program.requireCompiled("getThreadReport");
  const int threads = impl_->threads();
  return executable::threadUseText(executable::threadUse(*impl_->program.executable(), threads), threads);
}

std::optional<MemoryFit> Session::memoryFit() const {
  if (!impl_->fitted) return std::nullopt;
  return impl_->fitted->report;
}

std::string Session::Impl::serialisedIr() const {
  const bool implicit = prepareRequest && !fitted && !options.enablePipelining;
  const std::string root = model ? model->graphName() : "";
  if (!implicit || options.enableExplicitMainLoops) return serialiseJson(running(), root);
  pipeline::PrepareRequest request = prepareRequest({});
  request.options.hostCopies = options.useHostCopyOps;
  request.options.stepLoops = false;
  request.options.recomputes = options.explicitRecomputation;
  return serialiseJson(*pipeline::prepare(std::move(request)).ir, root);
}

std::string Session::getSerializedGraph() const { return serialiseJson(impl_->running()); }

std::string Session::serializeIr(IrSerializationFormat) {
  if (impl_->loadedProgram) {
    logging::session::warn("session '{}': the IR of a program that was loaded from a file is not serialised",
                           impl_->name);
    return "";
  }
  return impl_->serialisedIr();
}

uint64_t Session::getCycleCount(std::string id) {
  if (!impl_->options.instrumentWithHardwareCycleCounter)
    throw runtime_error(
        "Session '{}': getCycleCount needs SessionOptions::instrumentWithHardwareCycleCounter. Turn it on before the "
        "session is made",
        impl_->name);
  if (!id.empty() || !impl_->options.hardwareInstrumentations.contains(Instrumentation::Outer))
    throw runtime_error(
        "Session '{}': getCycleCount('{}'): no such counter. Whole runs alone are counted, under the id '', where "
        "SessionOptions::hardwareInstrumentations has Instrumentation::Outer",
        impl_->name, id);
  if (impl_->program.statistics().runs == 0)
    throw runtime_error("Session '{}': getCycleCount before the first run. Call run first", impl_->name);
  if (const std::optional<double> cycles = modelCycles(*impl_->program.executable(), *impl_->device))
    return static_cast<uint64_t>(std::max(*cycles, 1.0));
  return static_cast<uint64_t>(std::max<int64_t>(impl_->program.lastRun().count(), 1));
}

void Session::checkInplacingAmbiguity() const {
  for (const Graph *graph : impl_->ir().getAllGraphs()) session::checkInplaceAmbiguity(*graph);
}

const Ir &Session::getIr() const { return impl_->ir(); }
std::shared_ptr<Ir> Session::getIrPtr() const { return impl_->prepared.ir; }
const DataFlow &Session::getDataFlow() const { return impl_->dataFlow; }
const SessionOptions &Session::getSessionOptions() const { return impl_->options; }
std::shared_ptr<DeviceInfo> Session::getDeviceInfo() const { return impl_->device; }

void Session::setDeviceInfo(std::shared_ptr<DeviceInfo> deviceInfo) {
  check(deviceInfo != nullptr, "Session::setDeviceInfo: the device is a null pointer. Acquire one from DeviceManager");
  if (open_) open_->setDevice(deviceInfo);
  if (open_ && !impl_.get()) return;
  impl_->device = std::move(deviceInfo);
  setEngineIsLoaded(false);
}

void Session::setEngineIsLoaded(bool isLoaded) {
  if (isLoaded) return;
  impl_->program.unload();
  if (impl_->forward) impl_->forward->unload();
}

}  // namespace popart
