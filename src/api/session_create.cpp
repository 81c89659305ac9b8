// Creation of sessions: from the model over the Ir to the pipeline, with the checks that come first.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/io.hpp>
#include <popart/ir.hpp>
#include <popart/logging.hpp>
#include <popart/tensornames.hpp>

#include "api/compile_options.hpp"
#include "api/host_ahead.hpp"
#include "api/open_shapes.hpp"
#include "api/session_creation.hpp"
#include "api/session_impl.hpp"
#include "backends/ref/ref.hpp"
#include "base/environment.hpp"
#include "base/nearest.hpp"
#include "onnx/result_name.hpp"
#include "pipeline/options.hpp"
#include "session/memory_limit.hpp"

namespace popart {
namespace {

transforms::ReturnType toReturnType(const AnchorReturnType &type) {
  using Kind = transforms::ReturnType::Kind;
  switch (type.id()) {
    case AnchorReturnTypeId::Final:
      return {Kind::Final};
    case AnchorReturnTypeId::EveryN:
      return {Kind::EveryN, type.rp()};
    case AnchorReturnTypeId::Sum:
      return {Kind::Sum};
    case AnchorReturnTypeId::All:
      break;
  }
  return {};
}

// The weights that groups of an optimizer may name: floating-point variables, and initializers that are not variables
// here.
std::vector<TensorId> namesForGroups(const Graph &main, const std::optional<onnx::Model> &model) {
  const auto isFloat = [&](const TensorId &id) {
    const TensorIndex t = main.find(id);
    return !t.valid() || (typeBit(main.info(t).dataType()) & kFloats) != 0;
  };
  std::set<TensorId> ids;
  for (const Tensor *variable : main.tensorsOfType(TensorType::Variable)) ids.insert(variable->id);
  if (model)
    for (const TensorId &id : model->initializerIds()) ids.insert(id);
  std::erase_if(ids, [&](const TensorId &id) { return !isFloat(id); });
  return {ids.begin(), ids.end()};
}

using TensorNames = std::map<TensorId, TensorId>;  // names of the program that differ from the model's

TensorId named(const TensorNames &names, const TensorId &id) {
  const auto found = names.find(id);
  return found == names.end() ? id : found->second;
}

std::vector<pipeline::Anchor> toAnchors(const DataFlow &dataFlow, const TensorNames &names) {
  std::vector<pipeline::Anchor> anchors;
  for (const auto &[id, type] : dataFlow.getAnchorReturnTypeMap())
    anchors.push_back({named(names, id), toReturnType(type), id});
  return anchors;
}

// Adds labels that only a loss object reads, as streams of the shapes in `infos`. Labels of an Nll loss without a shape
// are class numbers, one for each row of probabilities.
void addLossInputs(Graph &main, const LossObject &loss, const std::map<TensorId, TensorInfo> &infos) {
  for (size_t i = 0; i < loss.inputs.size(); ++i) {
    const TensorId &id = loss.inputs[i];
    if (main.contains(id)) continue;
    if (const auto info = infos.find(id); info != infos.end()) {
      main.addStream(id, info->second);
    } else if (loss.type == "Nll" && i == 1 && main.contains(loss.inputs[0])) {
      Shape rows = main.getTensor(loss.inputs[0])->info.shape();
      if (!rows.empty()) rows.pop_back();
      main.addStream(id, TensorInfo(DataType::INT32, rows));
    }
  }
}

pipeline::LossSpec toLossSpec(const LossObject &loss, const TensorNames &names) {
  pipeline::LossSpec spec{loss.type, {}, loss.output, {}, loss.virtualGraph, loss.pipelineStage};
  for (const TensorId &id : loss.inputs) spec.inputs.push_back(named(names, id));
  spec.attributes.set("reduction", toText(loss.reduction));
  if (loss.type == "L1") spec.attributes.set("lambda", loss.lambda);
  return spec;
}

// Records the versions that the model's operator sets imply; the catalog's rows state the newest versions.
void stateVersions(const Ir &ir, const std::map<std::string, int64_t> &opsets) {
  for (const Graph *graph : ir.getAllGraphs())
    for (Op *op : graph->ops()) {
      const auto opset = opsets.find(op->opid.domain);
      if (opset == opsets.end() || op->isUserOp()) continue;
      for (const OpVersion since : op->def().versions())
        if (since <= opset->second) op->opid.version = since;
    }
}

// Anchors, losses and inputs of losses whose names match no tensor but refer to the model's result.
TensorNames namesOfTheResult(const Creation &c, const onnx::Model &model, const Graph &main) {
  std::vector<TensorId> used = c.dataFlow.anchors();
  used.push_back(c.loss);
  std::set<TensorId> made;
  for (const LossObject &loss : c.losses) {
    used.insert(used.end(), loss.inputs.begin(), loss.inputs.end());
    made.insert(loss.output);
  }
  TensorNames names;
  for (const TensorId &id : used) {
    if (main.contains(id) || made.count(id) || names.count(id)) continue;
    const std::optional<TensorId> meant = onnx::tensorMeantBy(id, model.outputIds());
    if (!meant) continue;
    names[id] = *meant;
    logging::session::warn("session '{}': the model has no tensor '{}': taken as its only output, '{}'", c.name, id,
                           *meant);
  }
  return names;
}

}  // namespace

// Gives the static members access to Impl.
struct SessionCreation : Session {
  using ImplPtr = std::unique_ptr<Session::Impl>;

  // With open shapes there is no program yet. With fixed shapes and no choice between programs, `open` is null.
  struct Made {
    ImplPtr impl;
    std::unique_ptr<Session::OpenShapes> open;
  };

  static Made fromModel(std::string_view modelText, const Creation &given) {
    if (!given.device)
      throw error("Session '{}': deviceInfo must be specified: got null. Make a device with DeviceManager", given.name);
    onnx::Model model = onnx::Model::fromProtoOrFile(modelText);  // an invalid model is reported before anything else
    checkRequest(given);
    checkNames(model, given.inputShapeInfo);
    Creation c = given;
    c.trainable = trainableOf(model, c);
    auto open = std::make_unique<Session::OpenShapes>(c.name, c.options, model, c.dataFlow, c.inputShapeInfo);
    if (!c.optimizer) open->takeWeights(model);
    open->trainable = c.trainable;
    open->make = [model, c](const InputShapeInfo &shapes, const std::set<TensorId> &fed,
                            std::shared_ptr<DeviceInfo> device) {
      Creation with = c;
      with.inputShapeInfo = shapes;
      with.fed = fed;
      if (device) with.device = std::move(device);
      return build(model, with);
    };
    if (open->anyOpen()) return {nullptr, std::move(open)};
    ImplPtr program = build(model, c);
    if (!open->takesWeights()) open = nullptr;
    return {std::move(program), std::move(open)};
  }

  // Whether weights are folded into the program as constants. Every replica holds all constants in device memory.
  static bool weightsAreConstant(const Creation &c) {
    return !c.optimizer && c.options.constantWeights && !pipeline::offChipRules(c.options).any() &&
           !pipeline::shardRules(c.options).any();
  }

  // Warns of tensors that are uncertain: one warning for each if they are few, otherwise one for all.
  static void warnOfGuesses(const onnx::TrainableTensors &found, const std::string &session) {
    constexpr size_t kNamed = 3;
    for (const bool trains : {true, false}) {
      std::vector<const TrainableTensor *> guesses;
      for (const TrainableTensor &t : found.tensors)
        if (t.doubtful && t.trains == trains) guesses.push_back(&t);
      const std::string_view howToSay = "Say so with trainable or frozen (popart-inspect --training shows all)";
      if (guesses.size() <= kNamed) {
        for (const TrainableTensor *t : guesses)
          logging::session::warn("session '{}': '{}' {} {}, by a guess: {}. {}", session, t->name, t->info,
                                 trains ? "trains" : "stays as it is", t->reason, howToSay);
        continue;
      }
      logging::session::warn("session '{}': {} tensors {}, by guesses: '{}' ({}), '{}', '{}' and {} others. {}",
                             session, guesses.size(), trains ? "train" : "stay as they are", guesses[0]->name,
                             guesses[0]->reason, guesses[1]->name, guesses[2]->name, guesses.size() - kNamed, howToSay);
    }
  }

  // The tensors that train. A line in the log says how many, and warnings name the ones that were guessed.
  static std::shared_ptr<const onnx::TrainableTensors> trainableOf(const onnx::Model &model, const Creation &c) {
    if (weightsAreConstant(c)) return nullptr;
    if (!c.optimizer)  // what a caller trained may be a setting by classification
      return std::make_shared<const onnx::TrainableTensors>(
          onnx::trainableTensors(model, {c.options.trainableTensors, {}, {}}));
    onnx::TrainingWishes wishes{c.options.trainableTensors, c.options.frozenTensors};
    wishes.isFrozenByOptimizer = [&](const TensorId &id) { return c.optimizer->neverChanges(id); };
    auto found = std::make_shared<const onnx::TrainableTensors>(onnx::trainableTensors(model, wishes));
    int64_t elements = 0, all = 0;
    for (const TrainableTensor &t : found->tensors) {
      all += t.info.nelms();
      if (t.trains) elements += t.info.nelms();
    }
    warnOfGuesses(*found, c.name);
    for (const std::string &warning : found->warnings) logging::session::warn("session '{}': {}", c.name, warning);
    logging::session::info("session '{}': {} of {} floating-point initializers train, {} of {} numbers", c.name,
                           std::ranges::count_if(found->tensors, &TrainableTensor::trains), found->tensors.size(),
                           elements, all);
    warnIfNothingTrains(*found, c.name);
    return found;
  }

  // Warns if nothing trains, unless the caller froze the tensors that would.
  static void warnIfNothingTrains(const onnx::TrainableTensors &found, const std::string &session) {
    if (found.tensors.empty() || !found.trained.empty()) return;
    if (std::ranges::any_of(found.tensors, [](const TrainableTensor &t) { return t.reason.starts_with("frozen"); }))
      return;
    const TrainableTensor &first = found.tensors.front();
    logging::session::warn(
        "session '{}': nothing trains: got {} floating-point initializers, none of them a parameter ('{}' {}: {}). "
        "Name those that train with trainable (popart-inspect --training shows all)",
        session, found.tensors.size(), first.name, first.info, first.reason);
  }

  static void checkRequest(const Creation &c) {
    const bool training = c.optimizer != nullptr;
    pipeline::checkOptions(c.options, training ? pipeline::RunMode::Training : pipeline::RunMode::Inference);
    if (c.dataFlow.batchesPerStep() < 1)
      throw error(
          "Session '{}': the DataFlow has no batches per step. Construct it as DataFlow(batchesPerStep, anchors)",
          c.name);
    if (!training && c.dataFlow.nAnchors() == 0)
      throw error(
          "Session '{}': an inference session needs at least one anchor. Name the tensors to return in the DataFlow",
          c.name);
  }

  // `made`: the program, if Ir::prepare has already made it from the same model.
  static ImplPtr build(const onnx::Model &model, const Creation &c, std::shared_ptr<Ir> made = nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const bool training = c.optimizer != nullptr;
    auto impl = std::make_unique<Session::Impl>(c.name);
    impl->mode = training ? Session::Impl::Mode::Training : Session::Impl::Mode::Inference;
    impl->dataFlow = c.dataFlow;
    impl->options = c.options;
    impl->profile = Profile(c.options.engineOptions);
    impl->device = c.device;
    impl->model = model;
    impl->constantHashes.learn(impl->model->contentHashes());
    for (const TensorId &id : impl->model->inputIds()) impl->modelInputs.insert(id);
    impl->modelInputs.insert(c.fed.begin(), c.fed.end());
    const std::map<TensorId, InputSettings> inputSettings = impl->model->inputSettings();
    for (const auto &[id, settings] : inputSettings)
      if (settings.replicatedStreamMode() == ReplicatedStreamMode::Broadcast) impl->broadcastInputs.insert(id);
    prepare(*impl, c, std::move(made));
    impl->initialiseHostWeights();
    impl->fillSizes();
    impl->ahead = aheadRules({c.options, c.dataFlow, inputSettings}, session::hostStreams(impl->ir()));
    if (c.options.createImplicitPipeliningFwdOnlyProgram) prepareForward(*impl, c);
    startSeed(*impl);
    logging::session::info("session '{}': program of {} operations built in {} ms", c.name,
                           impl->ir().getMainGraph().opCount(),
                           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    return impl;
  }

  static ImplPtr fromIr(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> device, const std::string &name,
                        Session::Impl::Mode mode, int batchesPerStep) {
    check(ir != nullptr, "Session '{}': the Ir is a null pointer. Pass an Ir", name);
    if (!device)
      throw error("Session '{}': deviceInfo must be specified: got null. Make a device with DeviceManager", name);
    if (ir->isPrepared()) return fromPrepared(std::move(ir), std::move(device), name, mode, batchesPerStep);
    auto impl = std::make_unique<Session::Impl>(name);
    impl->mode = mode;
    impl->dataFlow = DataFlow(batchesPerStep);
    impl->device = std::move(device);
    impl->prepared.ir = std::move(ir);
    impl->initialiseHostWeights();
    impl->fillSizes();
    const std::map<TensorId, InputSettings> asUsual;
    impl->ahead = aheadRules({impl->options, impl->dataFlow, asUsual}, session::hostStreams(impl->ir()));
    startSeed(*impl);
    return impl;
  }

  static void prepareIr(Ir &ir, const onnx::Model &model, const Creation &c) {
    checkRequest(c);
    checkNames(model, c.inputShapeInfo);
    Creation with = c;
    with.trainable = trainableOf(model, c);
    const std::shared_ptr<Ir> made = build(model, with)->prepared.ir;
    ir.takeGraphs(*made);
    ir.origin_ = made->origin_;
  }

 private:
  // The program in its current state, including all changes since it was prepared.
  static ImplPtr fromPrepared(std::shared_ptr<Ir> ir, std::shared_ptr<DeviceInfo> device, const std::string &name,
                              Session::Impl::Mode mode, int batchesPerStep) {
    const bool training = mode == Session::Impl::Mode::Training;
    check(ir->isTraining() == training, "Session '{}': the Ir was prepared for {}: expected one for {}", name,
          ir->isTraining() ? "training" : "inference", training ? "training" : "inference");
    const int batches = ir->getDataFlow().batchesPerStep();
    check(batchesPerStep == 1 || batchesPerStep == batches,
          "Session '{}': batches per step: got {}, but the Ir was prepared for {}", name, batchesPerStep, batches);
    const std::shared_ptr<const Ir::Origin> origin = ir->origin_;
    Creation c = origin->request;
    c.device = std::move(device);
    c.name = name;
    return build(origin->model, c, std::move(ir));
  }

  // Initializers may have reserved names: saved models hold optimizer state under them.
  static void checkNames(const onnx::Model &model, const InputShapeInfo &inputShapeInfo) {
    for (const TensorId &id : model.inputIds()) checkNoReservedPrefix(id, "graph input");
    for (const TensorId &id : model.outputIds()) checkNoReservedPrefix(id, "graph output");
    for (const auto &entry : inputShapeInfo.getInfos()) checkNoReservedPrefix(entry.first, "InputShapeInfo");
  }

  static void checkUpdatableBuffers(const Graph &main, const std::vector<TensorId> &ids) {
    for (const TensorId &id : ids) {
      const TensorIndex t = main.find(id);
      if (t.valid() && main.tensor(t).tensorType() == TensorType::Variable) continue;
      std::vector<std::string> variables;
      for (const Tensor *tensor : main.tensorsOfType(TensorType::Variable)) variables.push_back(tensor->id);
      throw error("SessionOptions::updatableNamedBuffers: '{}' is not a weight or buffer of the model{}", id,
                  nearestText(id, variables, "existing names"));
    }
  }

  // The tensors whose gradients are anchored.
  static std::set<TensorId> differentiatedTensors(const DataFlow &dataFlow) {
    const std::string prefix = reservedGradientPrefix();
    std::set<TensorId> ids;
    for (const TensorId &anchor : dataFlow.anchors())
      if (anchor.starts_with(prefix)) ids.insert(anchor.substr(prefix.size()));
    return ids;
  }

  // The part that both programs of a session share: the forward pass as the model states it, and the requests to it.
  static pipeline::PrepareRequest requestFor(Session::Impl &impl, const Creation &c) {
    const bool training = c.optimizer != nullptr;
    onnx::BuildOptions build;
    build.purpose = training ? onnx::Purpose::Training : onnx::Purpose::Inference;
    const bool constant = weightsAreConstant(c);
    build.trainable = impl.trainable = c.trainable;
    build.weights = constant ? onnx::WeightRole::Constant : onnx::WeightRole::Variable;
    build.versions = c.options.strictOpVersions ? onnx::OpVersionRule::Strict : onnx::OpVersionRule::Lenient;
    const std::vector<TensorId> &buffers = c.options.updatableNamedBuffers;
    build.updatable.insert(buffers.begin(), buffers.end());
    if (c.options.followTrainingMode) build.trainingForm = onnx::TrainingForm::FromFile;
    build.fed = c.fed;
    for (const TensorId &id : c.dataFlow.anchors()) build.returned.insert(id);
    build.replicas = c.options.getGlobalReplicationFactor();
    build.inputShapeInfo = c.inputShapeInfo.getInfos();
    build.evaluate = ref::evaluate;
    build.foldsShared = c.options.enableConstantFoldingOfMultipleConsumers;
    build.stridesGroups = c.options.groupNormStridedChannelGrouping;
    const auto &engine = c.options.engineOptions;
    build.limitBytes = session::memoryLimitBytes(engine);
    if (const auto most = engine.find("max_stacked_iterations"); most != engine.end())
      build.mostStacked = environment::parsePositive(most->second, "engineOptions: max_stacked_iterations");
    if (training) build.differentiated = differentiatedTensors(c.dataFlow);
    if (constant)
      for (const TensorId &id : impl.model->initializerIds())
        if (!c.fed.contains(id)) impl.constantWeights.insert(id);
    impl.makeIr = [model = *impl.model, build, losses = c.losses](const std::set<TensorId> &variables) {
      onnx::BuildOptions with = build;
      with.updatable.insert(variables.begin(), variables.end());
      auto ir = std::make_unique<Ir>();
      onnx::buildGraph(model, with, *ir);
      for (const LossObject &loss : losses) addLossInputs(ir->getMainGraph(), loss, build.inputShapeInfo);
      stateVersions(*ir, model.opsets());
      return ir;
    };
    std::unique_ptr<Ir> ir = impl.makeIr({});
    for (const Tensor *stream : ir->getMainGraph().tensorsOfType(TensorType::Stream))
      impl.modelInputs.insert(stream->id);  // elements of sequences have separate names
    checkUpdatableBuffers(ir->getMainGraph(), buffers);
    for (const Tensor *variable : ir->getMainGraph().tensorsOfType(TensorType::Variable))
      impl.constantWeights.erase(variable->id);
    pipeline::warnAboutMarks(*ir);
    impl.tensorNames = namesOfTheResult(c, *impl.model, ir->getMainGraph());
    pipeline::PrepareSettings settings;
    settings.times = impl.compileTimes;
    settings.loss = named(impl.tensorNames, c.loss);
    if (!settings.loss.empty()) impl.losses.insert(settings.loss);
    for (const LossObject &loss : c.losses) impl.losses.insert(loss.output);
    for (const LossObject &loss : c.losses) settings.losses.push_back(toLossSpec(loss, impl.tensorNames));
    settings.anchors = toAnchors(c.dataFlow, impl.tensorNames);
    settings.batchesPerStep = c.dataFlow.batchesPerStep();
    settings.patterns = c.patterns;
    impl.patterns = c.patterns;
    if (training) {
      for (const TensorId &id : impl.model->initializerIds()) settings.initializers.insert(id);
      settings.trainable = c.trainable->trained;
      for (const TrainableTensor &t : c.trainable->tensors)
        if (!c.trainable->variables.contains(t.name) && !c.trainable->copies.contains(t.name) &&
            !build.updatable.contains(t.name))
          impl.constantWeights.insert(t.name);
    }
    settings.options = pipeline::pipelineOptions(c.options);
    settings.options.passesOff = passesOff(c.options.engineOptions, c.device->getType());
    for (auto *parts : {&settings.options.serialiseForward, &settings.options.serialiseWhole})
      if (*parts) (*parts)->axes = impl.model->batchAxes();
    settings.options.virtualGraphs.ipus =
        std::max<int64_t>(1, c.device->getNumIpus() / c.options.getLocalReplicationFactor());
    return {settings, std::move(ir)};
  }

  // For FLOAT16 gradients of a model that states no loss scale: the scale adapts to the gradients.
  static void scaleLossOfHalves(Session::Impl &impl, pipeline::PipelineOptions &options) {
    const OptimizerValue given = impl.optimizer->lossScaling();
    if (options.precision != DataType::FLOAT16 || options.automaticLossScale) return;
    if (!given.isConst() || given.val() != 1.0f) return;
    constexpr float kFirstScale = 1024;  // GradScaler: 65536; ours finds its value in a few updates, up or down
    impl.chosenLossScaling = OptimizerValue(kFirstScale, false);
    impl.optimizer->setLossScaling(*impl.chosenLossScaling);
    options.automaticLossScale = transforms::AutomaticLossScale{};
    options.automaticLossScale->tracked = transforms::AutomaticLossScale::Tracked::ProductGradients;
  }

  // Removes frozen tensors from the requests about weights: groups of clipped gradients, and parts on replicas.
  static void leaveOut(const std::set<TensorId> &frozen, pipeline::PrepareRequest &request) {
    const auto isFrozen = [&](const TensorId &id) { return frozen.contains(id); };
    for (ClipNormSettings &group : request.updates->clipping) std::erase_if(group.weightIds, isFrozen);
    std::erase_if(request.updates->clipping, [](const ClipNormSettings &group) {
      return group.getMode() == ClipNormSettings::Mode::ClipSpecifiedWeights && group.weightIds.empty();
    });
    std::erase_if(request.options.sharding.byTensor, [&](const auto &entry) { return isFrozen(entry.first); });
  }

  static void prepare(Session::Impl &impl, const Creation &c, std::shared_ptr<Ir> made) {
    pipeline::PrepareRequest request = requestFor(impl, c);
    if (c.optimizer) {
      impl.requireSpecificWeights(*c.optimizer);
      impl.optimizer = c.optimizer->clone();
      impl.weightsOfGroups = namesForGroups(request.ir->getMainGraph(), impl.model);
      impl.optimizer->resolveGroups(impl.weightsOfGroups);
      scaleLossOfHalves(impl, request.options);
      impl.optimizer->setFactors(request.options.factors);
      request.updates = impl.optimizer->updateRules(request.options.factors);
      leaveOut(impl.constantWeights, request);
    }
    if (made) {
      impl.prepared = made->origin_->facts;
      impl.prepared.ir = std::move(made);
      return;
    }
    impl.prepareRequest = [settings = pipeline::PrepareSettings(request),
                           makeIr = impl.makeIr](const std::set<TensorId> &variables) {
      return pipeline::PrepareRequest{settings, makeIr(variables)};
    };
    impl.prepared = pipeline::prepare(std::move(request));
    stateVersions(*impl.prepared.ir, impl.model->opsets());
    pipeline::Prepared facts = impl.prepared;
    facts.ir = nullptr;
    Creation asked = c;
    asked.device = nullptr;
    impl.prepared.ir->origin_ = std::make_shared<Ir::Origin>(*impl.model, std::move(asked), std::move(facts));
  }

  // The micro-batches of a step follow each other directly, as there is no update between them.
  static void prepareForward(Session::Impl &impl, const Creation &c) {
    pipeline::PrepareRequest request = requestFor(impl, c);
    const Graph &main = request.ir->getMainGraph();
    std::erase_if(request.anchors, [&](const pipeline::Anchor &anchor) {
      const auto isLoss = [&](const pipeline::LossSpec &spec) { return spec.output == anchor.id; };
      return !main.contains(anchor.id) && std::ranges::none_of(request.losses, isLoss);
    });
    check(!request.anchors.empty(),
          "SessionOptions::createImplicitPipeliningFwdOnlyProgram: no anchor is a tensor of the forward pass: got {}. "
          "Anchor the loss",
          c.dataFlow.anchors());
    request.batchesPerStep *= request.options.factors.accumulationFactor;
    request.options.factors.accumulates = false;
    request.options.factors.accumulationFactor = 1;
    impl.forward = std::make_unique<ForwardProgram>(impl.name, pipeline::prepare(std::move(request)), impl.sizes);
  }

  static void startSeed(Session::Impl &impl) {
    std::random_device source;
    for (uint32_t &word : impl.seed) word = source();
    impl.rngState = impl.seed;
    if (!impl.prepared.randomSeed) return;
    TensorData &seed = impl.hostWeights.at(*impl.prepared.randomSeed);
    std::memcpy(seed.mutableData(), impl.seed.data(), sizeof(impl.seed));
  }
};

void Ir::prepare(const IrBundle &bundle) {
  check(!origin_ && graphs_.size() == 1 && getMainGraph().tensorSlots() == 0 && getMainGraph().opSlots() == 0,
        "Ir::prepare '{}': the Ir is a program already: got {} graphs, the main graph has {} operations. Prepare a new "
        "Ir",
        bundle.sessionName, graphs_.size(), getMainGraph().opCount());
  check((bundle.optimizer != nullptr) == !bundle.loss.empty(),
        "Ir::prepare '{}': {}. Give both for training, none for inference", bundle.sessionName,
        bundle.optimizer ? "there is an optimizer but no loss" : "there is a loss but no optimizer");
  // Only the size of the device is used.
  const std::shared_ptr<DeviceInfo> device(std::shared_ptr<void>(), &bundle.deviceInfo);
  SessionCreation::prepareIr(*this, onnx::Model(bundle.modelProto.content()),
                             {bundle.dataFlow,
                              device,
                              bundle.inputShapeInfo,
                              pipeline::withEnvironment(bundle.userOptions),
                              bundle.patterns,
                              bundle.sessionName,
                              bundle.optimizer ? bundle.optimizer->clone() : nullptr,
                              bundle.loss,
                              {}});
}

InferenceSession::InferenceSession(InferenceSession &&) noexcept = default;
InferenceSession::~InferenceSession() = default;
TrainingSession::TrainingSession(TrainingSession &&) noexcept = default;
TrainingSession::~TrainingSession() = default;

std::unique_ptr<InferenceSession> InferenceSession::createFromOnnxModel(
    std::string_view model, const DataFlow &dataFlow, std::shared_ptr<DeviceInfo> deviceInfo,
    const InputShapeInfo &inputShapeInfo, const SessionOptions &userOptions, const Patterns &patterns,
    const std::string name) {
  auto made = SessionCreation::fromModel(model, {dataFlow,
                                                 std::move(deviceInfo),
                                                 inputShapeInfo,
                                                 pipeline::withEnvironment(userOptions),
                                                 patterns,
                                                 name,
                                                 nullptr,
                                                 {},
                                                 {}});
  return std::unique_ptr<InferenceSession>(new InferenceSession(std::move(made.impl), std::move(made.open)));
}

std::unique_ptr<InferenceSession> InferenceSession::createFromIr(std::shared_ptr<Ir> ir,
                                                                 std::shared_ptr<DeviceInfo> deviceInfo,
                                                                 const std::string name, int batchesPerStep) {
  auto impl = SessionCreation::fromIr(std::move(ir), std::move(deviceInfo), name, Session::Impl::Mode::Inference,
                                      batchesPerStep);
  return std::unique_ptr<InferenceSession>(new InferenceSession(std::move(impl), nullptr));
}

std::unique_ptr<TrainingSession> TrainingSession::createFromOnnxModel(
    std::string_view model, const DataFlow &dataFlow, const TensorId &loss, const Optimizer &optimizer,
    std::shared_ptr<DeviceInfo> deviceInfo, const InputShapeInfo &inputShapeInfo, const SessionOptions &userOptions,
    const Patterns &patterns, const std::string name) {
  auto made = SessionCreation::fromModel(model, {dataFlow,
                                                 std::move(deviceInfo),
                                                 inputShapeInfo,
                                                 pipeline::withEnvironment(userOptions),
                                                 patterns,
                                                 name,
                                                 optimizer.clone(),
                                                 loss,
                                                 {}});
  return std::unique_ptr<TrainingSession>(new TrainingSession(std::move(made.impl), std::move(made.open)));
}

std::unique_ptr<TrainingSession> TrainingSession::createFromOnnxModel(
    std::string_view model, const DataFlow &dataFlow, const std::vector<LossObject> &losses, const Optimizer &optimizer,
    std::shared_ptr<DeviceInfo> deviceInfo, const InputShapeInfo &inputShapeInfo, const SessionOptions &userOptions,
    const Patterns &patterns, const std::string name) {
  auto made = SessionCreation::fromModel(model, {dataFlow,
                                                 std::move(deviceInfo),
                                                 inputShapeInfo,
                                                 pipeline::withEnvironment(userOptions),
                                                 patterns,
                                                 name,
                                                 optimizer.clone(),
                                                 {},
                                                 losses});
  return std::unique_ptr<TrainingSession>(new TrainingSession(std::move(made.impl), std::move(made.open)));
}

std::unique_ptr<TrainingSession> TrainingSession::createFromIr(std::shared_ptr<Ir> ir,
                                                               std::shared_ptr<DeviceInfo> deviceInfo,
                                                               const std::string name) {
  auto impl = SessionCreation::fromIr(std::move(ir), std::move(deviceInfo), name, Session::Impl::Mode::Training, 1);
  return std::unique_ptr<TrainingSession>(new TrainingSession(std::move(impl), nullptr));
}

}  // namespace popart
