// Weights and optimizer values between host and device. Random seeds are in session_random.cpp.
#include <algorithm>
#include <cstring>
#include <sstream>

#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>

#include "api/open_shapes.hpp"
#include "api/session_impl.hpp"
#include "base/hash.hpp"
#include "base/nearest.hpp"
#include "lower/stochastic_rounding.hpp"
#include "onnx/writer.hpp"
#include "ops/random/seed.hpp"
#include "transforms/variables.hpp"

namespace popart {
namespace {

// Throws runtime_error unless the array can hold the values of a variable of type `info`.
void checkFits(const char *what, const TensorId &id, const TensorInfo &array, const TensorInfo &info) {
  Shape ofOneGroup = info.shape();  // the array may have the dimension of groups
  ofOneGroup.insert(ofOneGroup.begin(), 1);
  if (array.dataType() != info.dataType() || (array.shape() != info.shape() && array.shape() != ofOneGroup))
    throw runtime_error("{} '{}': the array does not fit the variable: got {}, expected {}", what, id, array, info);
}

// Throws runtime_error unless the array of readWeights can hold the values.
void checkWritable(const IWeightsIO &weightsIO, const TensorId &id, const TensorInfo &info) {
  checkFits("readWeights", id, weightsIO.weight(id).info, info);
  if (weightsIO.isReadOnly(id))
    throw runtime_error("readWeights '{}': the array is read-only. Pass a writable one, for example a copy", id);
}

}  // namespace

// readWeights ignores initializers that are constants of the program or that it does not need. writeWeights refuses the
// constants, as their values cannot change.
void Session::Impl::checkKnown(const char *what, const IWeightsIO &weightsIO, bool writes) const {
  const std::set<TensorId> &initializers = sizes.weights;
  for (const TensorId &id : weightsIO.ids()) {
    if (hostWeights.count(id)) continue;
    if (writes && constantWeights.count(id))
      throw runtime_error(
          "{} '{}': the session has no variable of that name: the weight is a constant of its program. {}, or name the "
          "weight in updatableNamedBuffers",
          what, id,
          mode == Mode::Training ? "Name it in trainableTensors" : "Set SessionOptions::constantWeights to False");
    if (initializers.count(id)) {
      logging::session::debug("{} '{}': the program has no variable of that name; the array is not used", what, id);
      continue;
    }
    std::vector<std::string> names(initializers.begin(), initializers.end());
    for (const auto &entry : hostWeights)
      if (!initializers.count(entry.first)) names.push_back(entry.first);
    throw runtime_error("{} '{}': the session has no weight of that name. Rename the array, or leave it out{}", what,
                        id, nearestText(id, names));
  }
}

void Session::Impl::requireSpecificWeights(const Optimizer &given) const {
  if (!model) return;
  const std::vector<TensorId> names = model->initializerIds();
  for (const auto &[id, value] : given.learningRates().getSpecifics())
    check(std::ranges::find(names, id) != names.end(),
          "Optimizer: insertSpecific: '{}' is not a weight of the model. Rename or remove it{}", id,
          nearestText(id, names));
}

bool Session::Impl::isModelVariable(const TensorId &id) const {
  if (ops::isRandomSeed(id)) return false;
  for (const auto &scalar : prepared.optimizerScalars)
    if (scalar.id == id) return false;
  return true;
}

std::map<TensorId, TensorData> Session::Impl::constantsOf(const IWeightsIO &weightsIO) const {
  std::map<TensorId, TensorData> values;
  if (mode != Mode::Training || !model) return values;
  std::optional<onnx::Initializers> initializers;
  for (const TensorId &id : constantWeights) {
    if (!weightsIO.contains(id)) continue;
    if (!initializers) initializers.emplace(*model);
    const auto separate = trainable->separate.find(id);
    values[id] = initializers->value(separate == trainable->separate.end() ? id : separate->second);
  }
  return values;
}

bool Session::Impl::staysOnDevice(const TensorId &id) const {
  const Graph &main = ir().getMainGraph();
  const TensorIndex t = main.find(id);
  if (!t.valid() || !main.tensor(t).isOptimizerState) return false;
  return transforms::isAccumulator(main.tensor(t)) ? options.disableGradAccumulationTensorStreams
                                                   : options.disableOptimizerStateTensorStreams;
}

void Session::Impl::initialiseHostWeights() {
  const auto replicas = static_cast<unsigned>(options.getGlobalReplicationFactor());
  for (const Graph *graph : ir().getAllGraphs())
    for (const Tensor *tensor : graph->tensorsOfType(TensorType::Variable)) {
      if (tensor->isRemote && !tensor->hasTensorData()) continue;  // activations of a run
      const Shape shape = tensor->variableSettings.shapeOnHost(tensor->info.shape(), replicas);
      const TensorData values =
          tensor->hasTensorData() ? tensor->tensorData() : TensorData(TensorInfo(tensor->info.dataType(), shape));
      const transforms::Sharding *sharding = shardingOf(tensor->id);
      hostWeights[tensor->id] = sharding ? sharding->join(values) : values;
    }
  writeScalars();
}

const transforms::Sharding *Session::Impl::shardingOf(const TensorId &id) const {
  const auto found = prepared.shardings.find(id);
  return found == prepared.shardings.end() ? nullptr : &found->second;
}

void Session::Impl::writeToDevice(int variable, const TensorData &host) {
  const transforms::Sharding *sharding = shardingOf(program.executable()->variables[static_cast<size_t>(variable)].id);
  program.writeVariable(variable, sharding ? sharding->cut(host).data() : host.data());
}

int64_t Session::Impl::hostBytes() const {
  const onnx::Model::Memory message = model ? model->memory() : onnx::Model::Memory{};
  std::map<const void *, int64_t> values = message.values;
  int64_t bytes = message.bytes;
  for (const auto &[data, size] : message.values) bytes -= size;
  const auto count = [&](const TensorData &data) {
    if (!data.empty() && !data.isUntouchedZeros()) values[data.data()] = data.nbytes();
  };
  for (const Ir *program : {&ir(), &running()})
    for (const Graph *graph : program->getAllGraphs())
      for (const Tensor *tensor : graph->tensors()) count(tensor->tensorData());
  for (const auto &entry : hostWeights) count(entry.second);
  for (const auto &constant : program.executable()->constants) values.erase(constant.data.data());
  for (const auto &[data, size] : values) bytes += size;
  return bytes;
}

int64_t Session::Impl::programBytes() const {
  constexpr int64_t kBytesPerOp = 6144;
  int64_t ops = 0;
  for (const Graph *graph : ir().getAllGraphs()) ops += static_cast<int64_t>(graph->opCount());
  if (fitted)
    for (const Graph *graph : running().getAllGraphs()) ops += static_cast<int64_t>(graph->opCount());
  return ops * kBytesPerOp;
}

void Session::Impl::writeScalars() {
  for (const auto &scalar : prepared.optimizerScalars) {
    const double value = scalar.name == "lossScaling" ? optimizer->getFinalLossScalingVal()
                                                      : optimizer->scalar(scalar.name, scalar.weight).value.val();
    TensorData &host = hostWeights.at(scalar.id);
    host = TensorData::fromDoubles(host.info(), {&value, 1});
  }
}

TensorData Session::Impl::deviceValues(int variable) const {
  const executable::VariableSpec &spec = program.executable()->variables[static_cast<size_t>(variable)];
  if (const transforms::Sharding *sharding = shardingOf(spec.id)) {
    TensorData parts(TensorInfo(spec.info.dataType(), {program.replicas(), spec.info.nelms()}));
    program.readReplicas(variable, parts.mutableData());
    return sharding->join(parts);
  }
  TensorData values(hostWeights.at(spec.id).info());
  program.readVariable(variable, values.mutableData());
  return values;
}

void Session::Impl::readFromDevice(int variable) {
  const executable::VariableSpec &spec = program.executable()->variables[static_cast<size_t>(variable)];
  if (const transforms::Sharding *sharding = shardingOf(spec.id)) {
    TensorData parts(TensorInfo(spec.info.dataType(), {program.replicas(), spec.info.nelms()}));
    program.readReplicas(variable, parts.mutableData());
    streamBuffers[spec.id] = sharding->join(parts);
    if (sharding->settings.getRetrievalMode() == VariableRetrievalMode::AllReplicas)
      allReplicas[spec.id] = sharding->joinForEach(parts);
    return;
  }
  TensorData &buffer = streamBuffers[spec.id];
  if (buffer.empty()) buffer = TensorData(hostWeights.at(spec.id).info());
  program.readVariable(variable, buffer.mutableData());
  const auto replicas = static_cast<unsigned>(program.replicas());
  if (spec.replicas.numReplicasReturningVariable(replicas) == spec.replicas.getGroupCount(replicas)) return;
  TensorData &all = allReplicas[spec.id];
  if (all.empty()) {
    Shape shape = spec.info.shape();
    shape.insert(shape.begin(), program.replicas());
    all = TensorData(TensorInfo(spec.info.dataType(), shape));
  }
  program.readReplicas(variable, all.mutableData());
}

std::optional<Session::Impl::DeviceState> Session::Impl::deviceState() {
  if (!program.isLoaded()) return std::nullopt;
  if (const int state = program.findVariable(lower::kRngState); state >= 0)
    program.readVariable(state, rngState.data());
  DeviceState state{{}, weightsLoaded};
  for (const auto &entry : hostWeights)
    if (const int variable = program.findVariable(entry.first); variable >= 0)
      state.values.emplace(entry.first, deviceValues(variable));
  return state;
}

void Session::Impl::restore(const DeviceState &state) {
  writeRngState();
  for (const auto &[id, values] : state.values)
    if (const int variable = program.findVariable(id); variable >= 0) writeToDevice(variable, values);
  weightsLoaded = state.weightsLoaded;
}

void Session::weightsFromHost() {
  logging::session::trace("Session::weightsFromHost");
  if (open_ && !impl_.get()) {
    open_->sendsWeights = true;
    return;
  }
  session::CompiledProgram &program = impl_->program;
  program.requireLoaded("weightsFromHost");
  impl_->requireUnchangedFiles();
  logging::devicex::info("session '{}': weights go to the device: {} tensors", impl_->name, impl_->hostWeights.size());
  for (const auto &[id, host] : impl_->hostWeights)
    if (const int variable = program.findVariable(id);
        variable >= 0 && !ops::isRandomSeed(id) && !impl_->staysOnDevice(id))
      impl_->writeToDevice(variable, host);
  impl_->weightsLoaded = true;
  impl_->hostWeightsInSync = true;
  impl_->hasReadDevice = false;
}

void Session::buffersFromHost() {
  session::CompiledProgram &program = impl_->program;
  program.requireLoaded("buffersFromHost");
  if (impl_->options.updatableNamedBuffers.empty())
    throw runtime_error(
        "Session '{}': buffersFromHost: no buffers are named. Name them in SessionOptions::updatableNamedBuffers "
        "before the session is made, or call weightsFromHost",
        impl_->name);
  impl_->hasReadDevice = false;
  for (const TensorId &id : impl_->options.updatableNamedBuffers)
    if (const int variable = program.findVariable(id); variable >= 0)
      impl_->writeToDevice(variable, impl_->hostWeights.at(id));
}

void Session::weightsToHost() {
  logging::session::trace("Session::weightsToHost");  // compat: this message and the next one are documented
  const session::CompiledProgram &program = impl_->program;
  program.requireLoaded("weightsToHost");
  logging::devicex::debug("Writing weights to host");
  for (const auto &entry : impl_->hostWeights)
    if (const int variable = program.findVariable(entry.first);
        variable >= 0 && impl_->isModelVariable(entry.first) && !impl_->staysOnDevice(entry.first))
      impl_->readFromDevice(variable);
  impl_->hostWeightsInSync = true;
  impl_->hasReadDevice = true;
  logging::devicex::info("session '{}': weights have come back to the host", impl_->name);
}

void Session::markHostWeightsOutOfSync() { impl_->hostWeightsInSync = false; }
void Session::markHostWeightsInSync() { impl_->hostWeightsInSync = true; }
bool Session::areHostWeightsInSync() const { return impl_->hostWeightsInSync; }

void Session::readWeights(const IWeightsIO &weightsIO) {
  impl_->program.requireLoaded("readWeights");
  const std::map<TensorId, TensorData> constants = impl_->constantsOf(weightsIO);
  impl_->checkKnown("readWeights", weightsIO, false);
  for (const auto &[id, value] : constants) checkWritable(weightsIO, id, value.info());
  if (!impl_->hasReadDevice) weightsToHost();
  for (const auto &[id, host] : impl_->hostWeights) {
    if (!weightsIO.contains(id)) continue;
    const auto all = impl_->allReplicas.find(id);
    checkWritable(weightsIO, id, all == impl_->allReplicas.end() ? host.info() : all->second.info());
  }
  for (const auto &[id, value] : constants)
    if (value.nbytes() > 0) std::memcpy(weightsIO.weight(id).data, value.data(), static_cast<size_t>(value.nbytes()));
  for (const auto &[id, host] : impl_->hostWeights) {
    if (!weightsIO.contains(id)) continue;
    const auto read = impl_->streamBuffers.find(id), all = impl_->allReplicas.find(id);
    const TensorData &values = all != impl_->allReplicas.end()      ? all->second
                               : read != impl_->streamBuffers.end() ? read->second
                                                                    : host;
    if (values.nbytes() > 0)
      std::memcpy(weightsIO.weight(id).data, values.data(), static_cast<size_t>(values.nbytes()));
  }
}

void Session::writeWeights(const IWeightsIO &weightsIO) {
  if (impl_->mode == Impl::Mode::Inference && impl_->options.constantWeights && impl_->model &&
      impl_->options.updatableNamedBuffers.empty())
    throw runtime_error("Session '{}': writeWeights on constant weights. Set SessionOptions::constantWeights to False",
                        impl_->name);
  impl_->checkKnown("writeWeights", weightsIO, true);
  for (const auto &[id, host] : impl_->hostWeights)
    if (weightsIO.contains(id)) checkFits("writeWeights", id, weightsIO.weight(id).info, host.info());
  for (auto &[id, host] : impl_->hostWeights)
    if (weightsIO.contains(id)) host = TensorData(host.info(), weightsIO.weight(id).data);
}

void Session::broadcastWeights(int rootRank) {
  Impl &s = *impl_;
  s.join();
  const int processes = s.job ? s.job->layout().processes() : 1;
  if (rootRank < 0 || rootRank >= processes)
    throw runtime_error("Session '{}': broadcastWeights from rank {}: {}", s.name, rootRank,
                        processes == 1 ? "this process runs alone. Use rank 0"
                                       : formatText("expected 0 to {}", {toText(processes - 1)}));
  if (!s.job) return;
  Hasher form;
  for (const auto &[id, value] : s.hostWeights) form.addText(id).addText(toText(value.info()));
  if (const int odd = s.job->findOdd(toText(form.value())); odd >= 0)
    throw runtime_error("Session '{}': broadcastWeights: the variables of {} differ from those of most processes",
                        s.name, s.job->layout().describe(odd));
  std::vector<exchange::Piece> memory;
  for (auto &[id, host] : s.hostWeights) memory.push_back({host.mutableData(), host.nbytes()});
  s.job->broadcast(memory, rootRank);
  s.weightsLoaded = false;
}

const std::map<TensorId, TensorData> &Session::hostWeights() const { return impl_->hostWeights; }

std::vector<TensorId> Session::variableIds() const {
  std::vector<TensorId> ids;
  for (const auto &entry : impl_->hostWeights)
    if (impl_->isModelVariable(entry.first)) ids.push_back(entry.first);
  return ids;
}

const std::vector<TrainableTensor> &TrainingSession::trainableTensors() const {
  static const std::vector<TrainableTensor> kNone;
  const auto &all = impl_.get() ? impl_->trainable : open_->trainable;
  return all ? all->tensors : kNone;
}

void TrainingSession::updateOptimizerFromHost(const Optimizer *optimizer) {
  check(optimizer != nullptr, "updateOptimizerFromHost: the optimizer is a null pointer. Pass an optimizer");
  if (!impl_->optimizer)
    throw runtime_error("Session '{}': updateOptimizerFromHost: the session was made without an optimizer",
                        impl_->name);
  impl_->requireSpecificWeights(*optimizer);
  std::unique_ptr<Optimizer> replacement = optimizer->clone();
  replacement->resolveGroups(impl_->weightsOfGroups);
  if (impl_->chosenLossScaling) replacement->setLossScaling(*impl_->chosenLossScaling);
  const std::string problem = impl_->optimizer->replacementProblem(*replacement);
  if (!problem.empty()) throw runtime_error("New optimizer is not a valid replacement: {}", problem);
  impl_->optimizer = std::move(replacement);
  impl_->optimizer->setFactorsFromOptions(impl_->options);
  impl_->writeScalars();
  if (!impl_->program.isLoaded()) return;
  for (const auto &scalar : impl_->prepared.optimizerScalars)
    if (const int variable = impl_->program.findVariable(scalar.id); variable >= 0)
      impl_->program.writeVariable(variable, impl_->hostWeights.at(scalar.id).data());
}

}  // namespace popart
