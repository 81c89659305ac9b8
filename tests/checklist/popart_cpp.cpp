// Section by section what popart-cpp.md says a C++ program may write. It must compile, link and end well; lines that
// begin with "wrong" are values other than the documented ones.
#include <iostream>
#include <popart/adam.hpp>
#include <popart/adaptive.hpp>
#include <popart/attributes.hpp>
#include <popart/builder.hpp>
#include <popart/clipnormsettings.hpp>
#include <popart/commgroup.hpp>
#include <popart/dataflow.hpp>
#include <popart/datatype.hpp>
#include <popart/debugcontext.hpp>
#include <popart/devicemanager.hpp>
#include <popart/domainopset.hpp>
#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/graphtransformer.hpp>
#include <popart/half.hpp>
#include <popart/iarray.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/ir.hpp>
#include <popart/istepio.hpp>
#include <popart/logging.hpp>
#include <popart/names.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/numerics.hpp>
#include <popart/op.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/opmanager.hpp>
#include <popart/opserialiser.hpp>
#include <popart/optimizer.hpp>
#include <popart/optimizervalue.hpp>
#include <popart/optimizervaluemap.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/replicagrouping.hpp>
#include <popart/replicatedstreammode.hpp>
#include <popart/session.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/sgd.hpp>
#include <popart/shapeinference.hpp>
#include <popart/stepio.hpp>
#include <popart/stepio_generic.hpp>
#include <popart/tensor.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/tensorlocation.hpp>
#include <popart/tensornames.hpp>
#include <popart/variablesettings.hpp>
#include <popart/version.hpp>
#include <popart/voiddata.hpp>
#include <sstream>

using namespace popart;

namespace {

void expect(bool ok, const char *what) {
  if (!ok) std::cout << "wrong: " << what << "\n";
}

template <class Call>
void refuses(Call &&call, const char *what) {
  try {
    call();
    expect(false, what);
  } catch (const error &) {
  }
}

struct Aliases {  // section 1
  Shape s1;
  Rank r1 = 1;
  TensorId t1;
  OpId o1 = 0;
  OpName on;
  OpDomain od;
  OpType ot;
  OpVersion ov = 1;
  InIndex ii = 0;
  OutIndex oi = 0;
  VGraphId vg = 0;
  PipelineStage ps = 0;
  ExecutionPhase ep = 0;
  BatchSerializedPhase bp = 0;
  ConvInputs ci;
  ConvDilations cd;
  ConvPads cp;
  ConvStrides cs;
  ConvTruncs ct;
  MultiConvInputs mi;
};

float values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
const ConstVoidData data{values, TensorInfo(DataType::FLOAT, {3, 3})};

void tensorsAndNodes(Builder *builder) {  // section 2
  auto opset = builder->aiOnnxOpset9();
  TensorId x = builder->addInputTensor(TensorInfo(DataType::FLOAT, {2, 3}), DebugContext("x"));
  TensorId x2 = builder->addInputTensor("FLOAT", {2, 3});
  TensorId x3 = builder->addInputTensor(TensorInfo("FLOAT", "(2,3)"), InputSettings(), "named");
  TensorId x4 = builder->addInputTensor("FLOAT", Shape{2, 3}, InputSettings(), "named");
  TensorId w = builder->addInitializedInputTensor(data, "w");
  TensorId w2 = builder->addInitializedInputTensor(data, VariableSettings(), "w2");
  TensorId y = opset.matmul({x, w}, "mm");
  TensorId z = opset.relu({y});
  TensorId r = builder->reshape_const(opset, {z}, {3, 2}, "rs");
  TensorId sc = builder->aiGraphcoreOpset1().scale({z}, 2.0f);
  TensorId l = builder->aiGraphcoreOpset1().identityloss({z}, ReductionType::Sum);
  auto c = builder->customOp({"my.domain", "Foo", 1}, 1, {x}, 1, {{"alpha", 0.5f}, {"n", int64_t(3)}}, "foo");
  builder->customOp({"my.domain", "Foo", 1}, 1, {x}, std::vector<TensorId>{"bar"}, {}, "foo");
  expect(y == "MatMul:0" && w == "w" && builder->isInitializer(w) && builder->getTensorShape(r) == Shape{3, 2},
         "ids and shapes");
  expect(c.size() == 1 && x2 == "input" && x3 == "named" && x4 == "named/1" && w2 == "w2" && !sc.empty() && !l.empty(),
         "names");
}

void placement(Builder *builder, const TensorId &y, const TensorId &z) {  // section 2
  builder->virtualGraph(y, 1);
  builder->virtualGraph(std::set<TensorId>{z}, 1);
  builder->virtualGraph(y);
  builder->executionPhase(y, 1);
  builder->pipelineStage(y, 1);
  builder->recomputeOutput(y, RecomputeType::Recompute);
  builder->recomputeOutputInBackwardPass(z);
  builder->recomputeOutputInBackwardPass(std::set<TensorId>{z}, RecomputeType::Checkpoint);
  (void)builder->getRecomputeOutputInBackwardPass(z);
  auto cpnt = builder->checkpointOutput({z});
  builder->outputTensorLocation(z, TensorLocation(TensorStorage::OffChip));
  builder->excludePatterns(z, {"PreUniRepl"});
  builder->setSerializeMatMul({y}, "none", 0, false);
  builder->setPartialsType(y, "HALF");
  (void)builder->getPartialsType(y);
  builder->setAvailableMemoryProportion(y, 0.5f);
  builder->setAvailableMemoryProportion(std::set<TensorId>{y}, 0.5f);
  builder->setInplacePreferences(z, {{"ReluInplace", 1.0f}});
  builder->setAttribute("__ipu_number", int64_t(2));
  (void)builder->hasAttribute("__ipu_number");
  (void)builder->getAttribute("__ipu_number");
  (void)builder->getVirtualGraph();
  builder->clearAttribute("__ipu_number");
  builder->pushNameScope("a");
  (void)builder->getNameScope("q");
  (void)builder->getNameScope();
  builder->popNameScope();
  builder->setGraphName("g");
}

void attributesAndQueries(Builder *builder, const TensorId &w, const TensorId &z) {  // section 2
  (void)builder->hasParent();
  (void)builder->getParent();
  builder->embedReplicationFactor(2);
  std::set<TensorId> S{z};
  builder->addNodeAttribute("i", int64_t(1), S);
  builder->addNodeAttribute("il", std::vector<int64_t>{1}, S);
  builder->addNodeAttribute("f", 1.0f, S);
  builder->addNodeAttribute("fl", std::vector<float>{1}, S);
  builder->addNodeAttribute("s", std::string("a"), S);
  builder->addNodeAttribute("cs", "a", S);
  builder->addNodeAttribute("sl", std::vector<std::string>{"a"}, S);
  builder->addNodeAttribute("b", true, S);
  builder->addNodeAttribute("t", data, S);
  (void)builder->getInt64NodeAttribute("i", S);
  (void)builder->getBoolNodeAttribute("b", S);
  (void)builder->getInt64VectorNodeAttribute("il", S);
  (void)builder->getFloatNodeAttribute("f", S);
  (void)builder->getFloatVectorNodeAttribute("fl", S);
  (void)builder->getStringNodeAttribute("s", S);
  (void)builder->getStringVectorNodeAttribute("sl", S);
  (void)builder->nodeHasAttribute("i", S);
  builder->removeNodeAttribute("i", S);
  (void)builder->getAllNodeAttributeNames(S);
  builder->getInputTensorIds();
  builder->getOutputTensorIds();
  builder->getValueTensorIds();
  builder->getTrainableTensorIds();
  (void)builder->hasValueInfo(z);
  builder->getTensorShape(z);
  (void)builder->isInitializer(w);
  builder->getTensorDtypeString(z);
  (void)builder->getTensorDataType(z);
  Builder &sub = builder->createSubgraphBuilder();
  sub.addUntypedInputTensor();
  sub.addInputTensorFromParentGraph(w);
  expect(builder->getModelProto().size() > 0 && builder->getModelProto(true).size() > 0, "models");
}

void otherDefaults() {  // section 2
  auto b3 = Builder::create();
  auto g1 = b3->aiGraphcoreOpset1();
  auto o10 = b3->aiOnnxOpset10();
  (void)b3->aiOnnxMlOpset1();
  TensorId q = b3->addInputTensor("FLOAT", {4, 4});
  static_cast<void>(b3->addInitializedInputTensor(ConstVoidData(values, TensorInfo("FLOAT", Shape{2, 4})), "w"));
  (void)g1.scaledadd({q, q}, 1.0f, 2.0f);
  (void)g1.reshape(q, {16});
  (void)g1.slice({q}, {2}, {0});
  (void)g1.slice({q}, {2}, {0}, {0});
  (void)g1.replicatedallreduce({q});
  (void)g1.depthtospace({b3->addInputTensor("FLOAT", {1, 4, 2, 2})}, 2);
  (void)g1.replicatedallreduce({q}, std::vector<int64_t>{1, 2}, "group");
  refuses([&] { (void)g1.replicatedallreduce({q}, std::vector<int64_t>{1}); }, "a group without size");
  const TensorId l1 = b3->addInputTensor("UINT32", {4, 2}), lengths = b3->addInputTensor("UINT32", {4});
  const TensorId logs = b3->addInputTensor("FLOAT", {5, 4, 3});
  expect(g1._ctcloss({logs, l1, lengths, lengths}, ReductionType::Sum).size() == 2, "outputs of _ctcloss");
  (void)o10.topk({q, b3->addInputTensor("INT64", {1})});
  (void)o10.softmax({q}, 1);
  const TensorId c = b3->addInputTensor("FLOAT", {4});
  (void)o10.batchnormalization({q, c, c, c, c}, 1);
  (void)o10.reducesum({q}, nonstd::optional<std::vector<int64_t>>());
  (void)o10.reducesum({q}, std::vector<int64_t>{0}, 1, DebugContext("a"));
  (void)o10.constant(data);
}

struct Network {
  std::unique_ptr<Builder> builder = Builder::create();
  TensorId x = builder->addInputTensor("FLOAT", {2, 3}, "x"), w = builder->addInitializedInputTensor(data, "w");
  TensorId y, loss;
  Network() {
    auto opset = builder->aiOnnxOpset10();
    y = opset.relu({opset.matmul({x, w})});
    loss = builder->aiGraphcoreOpset1().identityloss({y}, ReductionType::Sum);
    builder->addOutputTensor(y);
  }
};

std::shared_ptr<DeviceInfo> devices() {  // section 6
  auto &dm = DeviceManager::createDeviceManager();
  std::shared_ptr<DeviceInfo> dev = dm.createCpuDevice();
  std::map<std::string, std::string> dopt{{"numIPUs", "2"}};
  static_cast<void>(dm.createIpuModelDevice(dopt));
  (void)dm.createHostDevice(DeviceType::IpuModel, dopt);
  std::vector<std::shared_ptr<DeviceInfo>> devs;
  dm.enumerate(devs, 1, SyncPattern::Full, DeviceType::Cpu, DeviceConnectionType::Always, 0);
  static_cast<void>(dm.getDevice());
  (void)dm.enumerateDevices();
  (void)dev->attach();
  (void)dev->isAttached();
  (void)dev->getType();
  (void)dev->getConnectionType();
  (void)dev->toString();
  (void)dev->getId();
  (void)dev->getChildIds();
  (void)dev->getVersion();
  (void)dev->getNumIpus();
  (void)dev->getTilesPerIPU();
  (void)dev->getNumWorkerContexts();
  (void)dev->getIpuVersion();
  (void)dev->getDriverIds();
  (void)dev->canCompileOffline();
  (void)dev->getOptionFlags();
  dev->setOnDemandAttachTimeout(1);
  (void)dev->getOnDemandAttachTimeout();
  (void)dev->tryAttachUntilTimeout();
  (void)dev->isHwCompatible();
  return dev;
}

SessionOptions options() {  // sections 3 and 6
  SessionOptions opts;
  opts.enableOutlining = true;
  opts.looseThresholdAtPeak = 8000;
  static_cast<void>(opts.autodiffSettings);
  opts.enableSerializedMatmuls = true;
  static_cast<void>(opts.developerSettings);
  opts.compilationProgressLogger = [](int, int) {};
  opts.compilationProgressTotal = 100;
  (void)opts.explicitPipeliningEnabled();
  (void)opts.implicitPipeliningEnabled();
  (void)opts.getAccumulationFactor();
  (void)opts.autoRecomputationEnabled();
  (void)opts.shouldDelayVarUpdates();
  (void)opts.getGlobalReplicationFactor();
  opts.engineOptions["a"] = "b";
  opts.engineOptions.clear();
  return opts;
}

const std::map<std::string, std::pair<float, bool>> rates = {{"defaultLearningRate", {0.1f, false}},
                                                             {"defaultMomentum", {0.9f, true}}};

void sessions(const Network &net, const std::string &path) {  // sections 3 and 4
  auto dev = devices();
  const SessionOptions opts = options();
  const TensorId &xi = net.x, &yi = net.y, &li = net.loss, &wi = net.w;
  DataFlow df(1, {{yi, AnchorReturnType("All")}, {li, AnchorReturnType("Final")}});
  DataFlow df2(1, {yi}, AnchorReturnType("All"));
  static_cast<void>(DataFlow(2));
  static_cast<void>(DataFlow());
  static_cast<void>(AnchorReturnType());
  (void)df.isBatchCountingRequired();
  (void)df.rps();
  (void)df.hash();
  (void)df.getAnchorReturnTypeMap();
  auto s = InferenceSession::createFromOnnxModel(net.builder->getModelProto(), df2, dev, InputShapeInfo(), opts,
                                                 Patterns(PatternsLevel::Default), "inf");
  s->prepareDevice();
  s->weightsFromHost();
  std::vector<float> xin{1, 2, 3, 4, 5, 6}, out(6);
  NDArrayWrapper<float> in(xin.data(), {2, 3}), outw(out.data(), TensorInfo(DataType::FLOAT, {2, 3}));
  std::map<TensorId, IArray &> inputs{{xi, in}}, outputs{{yi, outw}};
  StepIO io(inputs, outputs);
  s->run(io);
  s->run(io, "dbg");
  expect(out == std::vector<float>{30, 36, 42, 66, 81, 96} && outw[0] == 30 && outw[std::vector<int64_t>{1, 2}] == 96 &&
             in.flatten({1, 1}) == 4,
         "values of inference");
  std::ostringstream text;
  text << outw;
  expect(text.str() == "{30, 36, 42, 66, 81, 96}", "printed array");
  (void)in.unflatten(3);
  float loss = 0;
  NDArrayWrapper<float> lw(&loss, TensorInfo(DataType::FLOAT, {}));
  const SGD sgd(rates);
  auto t = TrainingSession::createFromOnnxModel(net.builder->getModelProto(), df, li, sgd, dev, InputShapeInfo(), opts,
                                                Patterns(), "train");
  t->prepareDevice(true);
  t->weightsFromHost();
  outputs.emplace(li, lw);
  StepIO io2(inputs, outputs);
  t->run(io2);
  expect(loss == 351, "loss");
  t->weightsToHost();
  std::vector<float> wout(9);
  WeightsIO wio;
  wio.insert(wi, MutableVoidData{wout.data(), TensorInfo(DataType::FLOAT, {3, 3})});
  t->readWeights(wio);
  expect(wout[0] == 0.5f, "weight");
  auto sgd2 = SGD({{"defaultLearningRate", {0.2f, false}}, {"defaultMomentum", {0.9f, true}}});
  t->updateOptimizerFromHost(&sgd2);
  t->modelToHost(path);
  t->resetHostWeights(path);
  t->writeWeights(wio);
  (void)t->getInfo(wi);
  (void)t->hasInfo(wi);
  (void)t->getAllTensorIds();
  (void)t->getSummaryReport(true);
  (void)t->getSerializedGraph();
  (void)t->serializeIr(IrSerializationFormat::JSON);
  (void)t->getIr();
  t->broadcastWeights(0);
  std::ostringstream executable;
  t->compileAndExport(executable);
  expect(!executable.str().empty() && &t->getDevice() == dev.get(), "an executable in memory");
  t->setDeviceInfo(dev);
  StepIOCallback cb(
      [&](TensorId, bool) {
        return ConstVoidData(xin.data(), TensorInfo(DataType::FLOAT, {2, 3}));
      },
      [](TensorId) {},
      [&](TensorId) {
        return MutableVoidData{out.data(), TensorInfo(DataType::FLOAT, {2, 3})};
      },
      [](TensorId) {});
  s->run(cb);
}

void errorsAndLogs() {  // section 7
  expect(std::string(error("a {} b {}", 1, "x").what()) == "a 1 b x", "text of an error");
  refuses([] { throw error("{} {}", 1); }, "a wrong format");
  expect(error(ErrorUid(7), "a {}", 1).uid() == ErrorUid(7) &&
             std::string(error(ErrorUid(7), "a {}", 1).what()) == "a 1" && error("a").uid() == ErrorUid(0) &&
             runtime_error(ErrorUid(2), "a").uid() == ErrorUid(2),
         "numbers of errors");
  expect(getErrorSource(runtime_error("x")) == ErrorSource::popart &&
             getErrorSource(internal_error("x")) == ErrorSource::popart_internal,
         "sources");
  logging::session::info("x {}", 1);
  logging::warn("abc");
  logging::configure({{"all", "OFF"}});
  logging::setLogLevel(logging::Module::session, logging::Level::Trace);
  (void)logging::getLogLevel(logging::Module::ir);
  (void)logging::shouldLog(logging::Module::ir, logging::Level::Info);
  logging::log(logging::Module::ir, logging::Level::Info, "x");
  logging::flush(logging::Module::ir);
  (void)logging::format("{}", 1);
}

void optimizers(const SessionOptions &opts) {  // section 6
  OptimizerValue v1(0.1f), v2(0.1f, false);
  (void)v1.val();
  (void)v1.isConst();
  (void)v1.validReplacement(v2);
  (void)(v1 == v2);
  OptimizerValueMap vm(v1);
  vm.insertSpecific("w", v2);
  (void)vm.get("w");
  (void)vm.hasSpecific("w");
  (void)vm.hasSpecific();
  (void)vm.getDefault();
  (void)vm.getSpecifics();
  (void)vm.validReplacement(vm);
  static_cast<void>(OptimizerValue());
  static_cast<void>(OptimizerValue(std::pair<float, bool>{0.1f, true}));
  SGD a1(v1, v1, v1, v1, v1, v1);
  static_cast<void>(SGD());
  (void)SGD::getUnsetLearningRate();
  (void)SGD::getUnsetWeightDecay();
  (void)SGD::getUnsetMomentum();
  (void)SGD::getUnsetLossScaling();
  auto a3 = SGD::fromDefaultMap({{"defaultLearningRate", OptimizerValue(0.1f)}});
  a3.insertSpecific("w", {{"learningRate", {0.2f, true}}});
  Adam ad2({{"defaultLearningRate", {0.1f, true}}}, AdamMode::Adam, WeightDecayMode::Decay, DataType::FLOAT,
           DataType::FLOAT, DataType::FLOAT);
  SGD named(v1, v1, v1, v1, v1, v1, {}, SGDAccumulatorAndMomentum::Combined, DataType::UNDEFINED, DataType::UNDEFINED,
            "sgd");
  const Adam short1(v1, v1, v1, v1, v1, v1, AdamMode::AdaMax, DataType::FLOAT, DataType::FLOAT, DataType::FLOAT);
  const Adam short2(v1, v1, v1, v1, v1, v1, v1, AdamMode::Lamb, DataType::FLOAT, DataType::FLOAT, DataType::FLOAT, {},
                    false, "adam");
  expect(short1.getWeightDecayMode() == WeightDecayMode::Decay && short1.getMode() == AdamMode::AdaMax &&
             short2.isLamb() && short2.maxWeightNorms().getDefault().val() == 0.1f,
         "forms of Adam");
  Adaptive ap({{"defaultLearningRate", {0.1f, true}}}, AdaptiveMode::RMSProp, WeightDecayMode::Decay, DataType::FLOAT,
              DataType::FLOAT, DataType::FLOAT, DataType::FLOAT);
  const Optimizer &ob = a1;
  (void)ob.type();
  (void)ob.type_s();
  (void)ob.clone();
  (void)ob.validReplacement(a1);
  (void)ob.lossScaling();
  (void)ob.getLossScalingVal();
  (void)ob.hash();
  (void)ob.getClipNormSettings();
  refuses([&] { static_cast<void>(ob.getAccumulationFactor()); }, "factors before they are set");
  a1.setFactorsFromOptions(opts);
  (void)a1.gradientAccumulationEnabled();
  (void)a1.meanReductionEnabled();
  (void)a1.postMeanAccumulationEnabled();
  (void)a1.postMeanReplicationEnabled();
  (void)a1.getReplicatedGraphCount();
  (void)a1.getAccumulationFactor();
  (void)a1.getFinalLossScalingVal();
  const ClipNormSettings all = ClipNormSettings::clipAllWeights(1.0f);
  refuses([&] { all.getWeightIds(); }, "weights of clipping all");
  expect(all.getMode() == ClipNormSettings::Mode::ClipAllWeights && all.getMaxNorm() == 1.0f, "clipping");

  (void)std::hash<OptimizerValue>()(v1);
  (void)std::hash<OptimizerValueMap>()(vm);
  (void)std::hash<ClipNormSettings>()(all);
  (void)std::hash<Optimizer *>()(&a1);
}

void otherValues(const SessionOptions &opts, const std::string &model) {  // sections 5 and 6
  ReplicaGrouping rg(4, 1, 2);
  (void)rg.getNumReplicas();
  (void)rg.getStride();
  (void)rg.getGroupSize();
  (void)rg.getNumGroups();
  (void)rg.getGroupAt(1);
  (void)rg.getIndexInGroupAt(1);
  (void)rg.getReplicaAt(0, 1);
  (void)rg.getReplicasAt(0);
  (void)rg.getTranspose();
  expect(
      rg.str() == "ReplicaGrouping(numReplicas=4, stride=1, groupSize=2)" && ReplicaGrouping(4, 3, 1).getStride() == 1,
      "grouping");
  Patterns pt(std::vector<std::string>{"PreUniRepl"});
  (void)Patterns::create({"PreUniRepl"});
  pt.enablePattern("PostNRepl", true);
  (void)Patterns::getAllPreAliasPatternNames();
  (void)Patterns::isMandatory("MatMulOp");
  std::set<std::string> switches;
#define POPART_SWITCH_OF(NAME) \
  if (pt.enable##NAME(true).is##NAME##Enabled() && pt.isPatternEnabled(#NAME)) switches.insert(#NAME);
  POPART_PATTERNS(POPART_SWITCH_OF)
#undef POPART_SWITCH_OF
  const std::vector<std::string> patterns = Patterns::getAllPreAliasPatternNames();
  expect(switches == std::set<std::string>(patterns.begin(), patterns.end()), "a switch for every pattern");
  pt.enablePostNRepl(false);
  expect(!pt.isPostNReplEnabled() && !pt.isPatternEnabled("PostNRepl"), "a pattern that is off");
  pt.enableInPlace(true);
  pt.enableUpdateInplacePrioritiesForIpu(true);
  pt.enableRuntimeAsserts(false);
  (void)std::hash<SessionOptions>()(opts);
  (void)std::hash<DataFlow>()(DataFlow(1));
  (void)std::hash<AnchorReturnType>()(AnchorReturnType());
  (void)std::hash<Patterns>()(pt);
  TensorInfo ti(DataType::FLOAT, {2, 3}, {4, 3});
  (void)ti.metaShape();
  (void)ti.shape_szt();
  (void)ti.rank();
  (void)ti.nelms();
  (void)ti.nbytes();
  (void)ti.dim(0);
  (void)ti.strides({2, 3});
  (void)ti.data_type();
  (void)ti.data_type_lcase();
  (void)ti.getDataTypeInfo();
  (void)ti.isSet();
  (void)getDataType<float>();
  (void)getDataType<Half>();
  (void)getDataType<float16_t>();
  (void)npOut(Shape{2, 1}, Shape{3}, "");
  (void)npOut(Shape{2, 1}, Shape{3});
  (void)npBroadcastable(Shape{2}, Shape{3});
  (void)npReductionAxis(Shape{1, 2}, Shape{3, 2});
  (void)getCompatibleDataType(DataType::INT64);
  (void)dataTypeFromString("FLOAT");
  std::ostringstream text;
  ti.append(text);
  expect(text.str() == ti.str(), "text of an info");
  expect(squeeze({1, 3, 1}, {}) == Shape{3} && squeeze({1, 3, 1}, {-1}) == Shape{1, 3} &&
             unsqueeze({3}, {0, -1}) == Shape{1, 3, 1} && unsqueeze({}, {0}) == Shape{1},
         "axes of size 1");
  refuses([] { (void)squeeze({1, 3}, {1}); }, "an axis of size 3");
  refuses([] { (void)unsqueeze({3}, {1, -2}); }, "an axis twice");
  InputSettings is;
  is.setTileSet(TileSet::IO);
  is.setExchangeStrategy(ExchangeStrategy::JustInTime);
  is.setReplicatedStreamMode(ReplicatedStreamMode::Broadcast);
  TensorLocation tl(TensorStorage::OffChip);
  expect(tl.serialize().size() == 6, "numbers of a location");
  GraphTransformer gt(model);
  gt.convertFloatsToHalfs();
  (void)gt.getModelProto();
  gt.convertINT64ToINT32(true);
  gt.removeUnusedInputs();
  gt.prepareNodesForTraining();
  gt.convertInitializersToConstants({});
  gt.convertAllFixedPointInitializersToConstants();
}

}  // namespace

int main(int, char **argv) {
  std::cout << POPART_VERSION_STRING << " " << core::packageHash() << "\n";
  expect(core::versionString() == POPART_VERSION_STRING && std::get<0>(core::versionNumber()) == POPART_VERSION_MAJOR,
         "version");
  auto builder = Builder::create();
  tensorsAndNodes(builder.get());
  placement(builder.get(), "MatMul:0", "Relu:0");
  attributesAndQueries(builder.get(), "w", "Relu:0");
  otherDefaults();
  const Network net;
  const std::string file = std::string(argv[1]) + "/model.onnx";
  net.builder->saveModelProto(file);
  static_cast<void>(Builder::createFromOnnxModel(file));
  sessions(net, std::string(argv[1]) + "/trained.onnx");
  errorsAndLogs();
  optimizers(options());
  otherValues(options(), net.builder->getModelProto());
}
