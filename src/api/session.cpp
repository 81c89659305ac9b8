// Session: compile, load and run. Weights are in session_weights.cpp, creation in session_create.cpp.
#include <popart/session.hpp>

#include <algorithm>
#include <chrono>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "api/ir_session.hpp"
#include "api/memory_limit.hpp"
#include "api/session_impl.hpp"
#include "api/virtual_ipus.hpp"
#include "backends/ref/ref.hpp"
#include "executable/cost.hpp"
#include "pipeline/passes.hpp"

namespace popart {
namespace {

double millisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session::~Session() = default;

void Session::Impl::requireEngine(const char *what) const {
  if (!executable)
    throw runtime_error("Session '{}': {} before the program is compiled. Try calling Session::prepareDevice first",
                        name, what);
  if (!engine)
    throw runtime_error(
        "Session '{}': {} before the program is loaded. Call prepareDevice(), or loadEngineAndConnectStreams() after "
        "prepareDevice(false)",
        name, what);
}

void Session::Impl::checkDeviceFits() const {
  if (device->getType() == DeviceType::Cpu) return;
  int64_t ipusPerReplica = 1;
  if (options.virtualGraphMode != VirtualGraphMode::Off)
    for (const Graph *graph : ir().getAllGraphs())
      for (const Op *op : graph->ops())
        ipusPerReplica = std::max(ipusPerReplica, op->settings.vgraphId.value_or(0) + 1);
  const int64_t needed = ipusPerReplica * options.getLocalReplicationFactor();
  const bool enough = options.virtualGraphMode == VirtualGraphMode::Off
                          ? device->getNumIpus() % options.getLocalReplicationFactor() == 0
                          : device->getNumIpus() >= needed;
  if (!enough)
    throw error(
        "Session '{}': the device does not suit the program: got {} IPUs, expected {} = {} IPUs per replica x {} "
        "replicas. "
        "Acquire a device with that many IPUs",
        name, device->getNumIpus(), needed, ipusPerReplica, options.getLocalReplicationFactor());
}

void Session::Impl::compile() {
  checkDeviceFits();
  const auto start = std::chrono::steady_clock::now();
  lower::LowerOptions lowering;
  lowering.backends = backendsFor(device->getType());
  lowering.evaluate = ref::evaluate;
  lowering.threads = computeThreadCount(options);
  lowering.iterations = iterations();  // micro-batches of one update are a loop of the program
  const auto limit = options.engineOptions.find("max_memory");
  lowering.maxMemoryBytes = memoryLimitBytes(limit == options.engineOptions.end() ? nullptr : &limit->second);
  checkTensorsFit(ir());
  if (options.enableInplaceAmbiguityChecking)
    for (const Graph *graph : ir().getAllGraphs()) checkInplaceAmbiguity(*graph);
  executable.reset();  // a failure leaves no program of an earlier call behind
  executable = pipeline::lower(ir(), lowering);
  for (const auto &fallback : executable->fallbacks)
    logging::devicex::info("{} runs on the reference backend: {}: {}", fallback.op, fallback.backend, fallback.reason);
  variableIndex.clear();
  for (size_t i = 0; i < executable->variables.size(); ++i)
    variableIndex[executable->variables[i].id] = static_cast<int>(i);
  fillSizes();
  logging::session::info(
      "session '{}': compiled {} steps in {} ms; memory: {} bytes arena, {} bytes variables, {} bytes constants, {} "
      "bytes "
      "predicted peak with the host's copies",
      name, executable->main.steps.size(), millisecondsSince(start), executable->memory.arenaBytes,
      executable->memory.variableBytes, executable->memory.constantBytes, predictedPeakBytes());
}

void Session::Impl::fillSizes() {
  sizes = {};
  sizes.batchesPerStep = dataFlow.batchesPerStep();
  sizes.accumulationFactor = options.getAccumulationFactor();
  sizes.replicationFactor = options.getLocalReplicationFactor();
  sizes.modelInputs = modelInputs;
  for (const auto &stream : executable->inputs) {
    sizes.inputs[stream.id] = {stream.info, false};
  }
  for (const auto &stream : executable->outputs)
    sizes.outputs[stream.id] = {stream.info,
                                dataFlow.isAnchored(stream.id) ? dataFlow.art(stream.id) : AnchorReturnType("All")};
}

void Session::Impl::load() {
  if (device->getConnectionType() == DeviceConnectionType::Never)
    throw runtime_error(
        "Session '{}': an offline device cannot run programs. Use a device of connection type Always or OnDemand",
        name);
  if (!device->isAttached() && !device->tryAttachUntilTimeout())
    throw error(
        "Session '{}': the device {} is in use. Detach it elsewhere, or set DeviceManager::setOnDemandAttachTimeout",
        name, device->toString());
  const auto start = std::chrono::steady_clock::now();
  engine = std::make_unique<runtime::Engine>(executable, computeThreadCount(options));
  streams = std::make_unique<StepStreams>(executable);
  weightsLoaded = false;
  firstRun = true;
  for (const auto &[id, index] : variableIndex) {
    const void *host = hostWeights.at(id).data();  // the engine has written the first values itself
    if (executable->variables[static_cast<size_t>(index)].initial.data() != host) engine->writeVariable(index, host);
  }
  logging::session::info("session '{}': loaded on {} with {} threads in {} ms", name, device->toString(),
                         engine->threads(), millisecondsSince(start));
}

void Session::prepareDevice(bool loadEngine) {
  if (!impl_->device) throw error("Session '{}': no device is set. Call setDeviceInfo", impl_->name);
  const SessionOptions &options = impl_->options;
  const auto report = [&options](int done) {
    if (options.compilationProgressLogger) options.compilationProgressLogger(done, options.compilationProgressTotal);
  };
  report(0);
  impl_->engine.reset();
  withinMemory("Session '" + impl_->name + "': compiling", [&] { impl_->compile(); });
  if (loadEngine && options.compileEngine) {
    report(std::max(options.compilationProgressTotal - 1, 0));
    withinMemory("Session '" + impl_->name + "': loading", [&] { impl_->load(); });
  }
  report(options.compilationProgressTotal);
}

void Session::loadEngineAndConnectStreams() {
  if (!impl_->executable)
    throw runtime_error("Session '{}': there is nothing to load. Try calling Session::prepareDevice first",
                        impl_->name);
  if (!impl_->engine) withinMemory("Session '" + impl_->name + "': loading", [&] { impl_->load(); });
}

bool Session::isPrepared() const { return impl_->executable != nullptr; }

void Session::run(IStepIO &stepIO, std::string debugName) {
  Impl &s = *impl_;
  if (!s.engine) [[unlikely]]
    s.requireEngine("run");
  if (s.mode == Impl::Mode::Training && !s.weightsLoaded && !s.variableIndex.empty()) [[unlikely]]
    throw runtime_error("Session '{}': run before the weights are on the device. Call weightsFromHost first", s.name);
  if (s.running.exchange(true, std::memory_order_acquire))
    throw runtime_error("Session '{}': run is called while another run is going on. Use one session per thread",
                        s.name);
  struct Running {
    std::atomic<bool> &flag;
    ~Running() { flag.store(false, std::memory_order_release); }
  } running{s.running};
  if (s.firstRun) {
    if (stepIO.runtimeAssertsEnabled()) stepIO.assertNumElements(s.sizes);
    s.firstRun = false;
    logging::session::debug("session '{}': first run {}", s.name, debugName);
  }
  s.streams->connect(stepIO);
  try {
    s.engine->run(*s.streams);
  } catch (...) {
    s.streams->rewind();
    throw;
  }
}

void Session::run(std::string programHandle, IStepIO &, std::string) {
  throw runtime_error(
      "Session '{}': unknown program: got '{}', this session has only the program that run(stepIO) runs", impl_->name,
      programHandle);
}

TensorInfo Session::getInfo(TensorId id) const {
  if (!impl_->executable)
    throw runtime_error(
        "Session '{}': getInfo('{}') before the program is compiled. Try calling Session::prepareDevice first",
        impl_->name, id);
  // With gradient accumulation the tensors of a micro-batch are in a graph of their own, under the same ids.
  for (const Graph *graph : impl_->ir().getAllGraphs())
    if (const TensorIndex t = graph->find(impl_->tensorId(id)); t.valid()) return graph->info(t);
  return impl_->ir().getMainGraph().getTensor(id)->info;  // throws with the nearest names
}

bool Session::hasInfo(TensorId id) const {
  if (!impl_->executable) return false;
  const std::vector<Graph *> graphs = impl_->ir().getAllGraphs();
  return std::any_of(graphs.begin(), graphs.end(),
                     [&](const Graph *graph) { return graph->contains(impl_->tensorId(id)); });
}

std::set<TensorId> Session::getAllTensorIds() const {
  if (!impl_->executable)
    throw runtime_error(
        "Session '{}': getAllTensorIds before the program is compiled. Try calling Session::prepareDevice first",
        impl_->name);
  std::set<TensorId> ids;
  for (const Graph *graph : impl_->ir().getAllGraphs())
    for (const Tensor *tensor : graph->tensors()) ids.insert(tensor->id);
  return ids;
}

std::string Session::getSummaryReport(bool) const {
  impl_->requireEngine("getSummaryReport");
  const auto &memory = impl_->executable->memory;
  std::string report = "Memory\n";
  const std::pair<const char *, int64_t> rows[] = {{"activations", memory.arenaBytes},
                                                   {"largest live set", memory.largestLiveSetBytes},
                                                   {"variables", memory.variableBytes},
                                                   {"constants", memory.constantBytes},
                                                   {"scratch", memory.scratchBytes},
                                                   {"total", memory.total()},
                                                   {"host copies", impl_->hostBytes()},
                                                   {"program", impl_->programBytes()},
                                                   {"predicted peak", impl_->predictedPeakBytes()}};
  for (const auto &[what, bytes] : rows) report += "  " + std::string(what) + ": " + std::to_string(bytes) + " bytes\n";
  return report + "Execution profiling not enabled\n";
}

std::string Session::getThreadReport() const {
  if (!impl_->executable)
    throw runtime_error(
        "Session '{}': getThreadReport before the program is compiled. Try calling Session::prepareDevice first",
        impl_->name);
  const int threads = computeThreadCount(impl_->options);
  return executable::threadUseText(executable::threadUse(*impl_->executable, threads), threads);
}

std::string Session::getSerializedGraph() const {
  if (!impl_->executable)
    throw runtime_error(
        "Session '{}': getSerializedGraph before the program is compiled. Try calling Session::prepareDevice first",
        impl_->name);
  return serialiseJson(impl_->ir());
}

std::string Session::serializeIr(IrSerializationFormat) { return serialiseJson(impl_->ir()); }

uint64_t Session::getCycleCount(std::string id) {
  if (!impl_->options.instrumentWithHardwareCycleCounter)
    throw runtime_error(
        "Session '{}': getCycleCount needs SessionOptions::instrumentWithHardwareCycleCounter. Turn it on before the "
        "session is made",
        impl_->name);
  throw runtime_error("Session '{}': getCycleCount('{}'): this device counts no cycles. Time session.run instead",
                      impl_->name, id);
}

void Session::checkInplacingAmbiguity() const {
  for (const Graph *graph : impl_->ir().getAllGraphs()) checkInplaceAmbiguity(*graph);
}

const Ir &Session::getIr() const { return impl_->ir(); }
std::shared_ptr<Ir> Session::getIrPtr() const { return impl_->prepared.ir; }
const DataFlow &Session::getDataFlow() const { return impl_->dataFlow; }
const SessionOptions &Session::getSessionOptions() const { return impl_->options; }
std::shared_ptr<DeviceInfo> Session::getDeviceInfo() const { return impl_->device; }

void Session::setDeviceInfo(std::shared_ptr<DeviceInfo> deviceInfo) {
  check(deviceInfo != nullptr, "Session '{}': the device is a null pointer. Acquire one from DeviceManager",
        impl_->name);
  impl_->device = std::move(deviceInfo);
  impl_->engine.reset();
}

void Session::setEngineIsLoaded(bool isLoaded) {
  if (!isLoaded) impl_->engine.reset();
}

void Session::broadcastWeights(int rootRank) {
  if (rootRank != 0)
    throw runtime_error("Session '{}': broadcastWeights from rank {}, but this process runs alone. Use rank 0",
                        impl_->name, rootRank);
}

}  // namespace popart
