// Section 9 of popart-cpp.md as programs write it: a program is prepared from a model, asked for its graphs, changed
// and run. Ends well; lines that begin with "wrong" are values other than the documented ones.
#include <algorithm>
#include <iostream>
#include <popart/builder.hpp>
#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/io.hpp>
#include <popart/ir.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/op.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/opmanager.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/session.hpp>
#include <popart/sessionoptions.hpp>
#include <popart/sgd.hpp>
#include <popart/stepio.hpp>
#include <popart/tensor.hpp>
#include <popart/tensorinfo.hpp>
#include <popart/tensors.hpp>
#include <sstream>

using namespace popart;

namespace {

void expect(bool ok, const std::string &what) {
  if (!ok) std::cout << "wrong: " << what << "\n";
}

// The call is refused, and the message has the text.
template <class Call>
void refuses(Call &&call, const std::string &text) {
  try {
    call();
    expect(false, "not refused: " + text);
  } catch (const error &e) {
    expect(std::string(e.what()).find(text) != std::string::npos, text + ": " + e.what());
  }
}

// y = relu(x w + b), loss = sum(y)
struct Network {
  std::vector<float> weights{1, 2, 3, 4}, bias{1, -100};
  std::unique_ptr<Builder> builder = Builder::create();
  TensorId x, w, b, sum, y, loss;
  std::shared_ptr<DeviceInfo> device = DeviceManager::createDeviceManager().createCpuDevice();

  Network() {
    auto opset = builder->aiOnnxOpset9();
    x = builder->addInputTensor("FLOAT", {1, 2}, "x");
    w = builder->addInitializedInputTensor({weights.data(), TensorInfo("FLOAT", Shape{2, 2})}, "w");
    b = builder->addInitializedInputTensor({bias.data(), TensorInfo("FLOAT", Shape{2})}, "b");
    sum = opset.add({opset.matmul({x, w}), b});
    y = opset.relu({sum});
    loss = builder->aiGraphcoreOpset1().identityloss({y}, ReductionType::Sum);
    builder->addOutputTensor(y);
  }
  onnx::ModelProto model() const { return io::getModelFromString(builder->getModelProto()); }
};

Patterns plain() { return Patterns().enableInPlace(false); }

void inference(const Network &net) {
  Ir ir;
  expect(!ir.isPrepared() && ir.getMainGraph().getOps().empty() && ir.getAllGraphs().size() == 1 && !ir.isTraining() &&
             ir.getTensors().n() == 0 && ir.getDataFlow().nAnchors() == 0 && !ir.tensorExistsInInitialisers(net.w),
         "an Ir before it is prepared");
  SessionOptions opts;
  opts.constantWeights = false;
  DataFlow dataFlow(1, {{net.y, AnchorReturnType("All")}});
  ir.prepare({net.model(), InputShapeInfo(), dataFlow, {}, nullptr, *net.device, opts, plain(), "asked"});

  int additions = 0;
  for (Op *op : ir.opsOfType(Onnx::Operators::Add_7)) {
    ++additions;
    expect(op->opid == Onnx::AiOnnx::OpSet9::Add && op->opid != Onnx::Operators::Add_13, "identifier");
    expect(op->outId(0) == net.sum && op->inShape(0) == Shape{1, 2}, "operands");
  }
  expect(additions == 1 && ir.opsOfType(Onnx::Operators::Add_13).empty(), "operations by type");
  expect(ir.opsOfType(Onnx::AiOnnx::OpSet9::MatMul).size() == 1 && ir.opsOfType(Onnx::Operators::Relu_6).size() == 1 &&
             ir.opsOfType(Onnx::GradOperators::ReluGrad).empty(),
         "other types");
  expect(!ir.isTraining() && !ir.canTrain() && ir.canInfer() && ir.isPrepared(), "mode");
  expect(!ir.getSessionOptions().constantWeights && ir.getDataFlow() == dataFlow, "what it was asked for");
  expect(ir.getAllRemainingAnchors() == std::vector<TensorId>{net.y}, "anchors");
  expect(ir.tensorExistsInInitialisers(net.w) && !ir.tensorExistsInInitialisers(net.x), "initializers");
  expect(ir.getTensorIds(TensorType::Stream) == std::vector<TensorId>{net.x}, "streams");
  std::vector<TensorId> variables = ir.getTensorIds(TensorType::Variable);
  std::ranges::sort(variables);
  expect(variables == std::vector<TensorId>{net.b, net.w}, "variables");

  Tensor *w = ir.getTensors().get(net.w), *y = ir.getTensors().get(net.y);
  expect(w->tensorType() == TensorType::Variable && !w->hasProducer() && w->hasTensorData() &&
             static_cast<const float *>(w->tensorData()->data())[3] == 4 && w->tensorData()->info() == w->info,
         "a variable");
  expect(w->consumers.getTotal() == 1 && w->consumers.getOps() == ir.opsOfType(Onnx::Operators::MatMul_9) &&
             w->consumers.n(w->consumers.getOps()[0]) == 1,
         "what reads it");
  expect(y->tensorType() == TensorType::ActGrad && y->getProducer()->opid == Onnx::Operators::Relu_6, "a result");
  expect(!ir.getTensors().contains("nothing"), "no such tensor");
  refuses([&] { ir.getTensors().get("ww"); }, "no tensor 'ww'");
}

size_t placeOf(const std::vector<Op *> &order, const OperatorIdentifier &type) {
  const auto found = std::ranges::find(order, type, &Op::opid);
  expect(found != order.end(), "in the schedule: " + type.str());
  return static_cast<size_t>(found - order.begin());
}

void order(const Network &net) {
  Ir ir;
  ir.prepare({net.model(), InputShapeInfo(), DataFlow(1, {net.y}), {}, nullptr, *net.device, {}, plain()});
  const std::vector<Op *> all = ir.getOpSchedule({}, RequireOptimalSchedule::Yes);
  const Graph &main = ir.getMainGraph();
  expect(all == main.getOpSchedule() && all.size() == main.getOps().size(), "one order");
  expect(placeOf(all, Onnx::Operators::MatMul_9) < placeOf(all, Onnx::Operators::Add_7) &&
             placeOf(all, Onnx::Operators::Add_7) < placeOf(all, Onnx::Operators::Relu_6),
         "the order of data");
  Op *first = all.front(), *last = all.back();
  refuses([&] { ir.getOpSchedule({{first, {last}}}, RequireOptimalSchedule::No); }, "cannot be ordered");
  for (auto &id_op : main.getOps()) {
    Op *op = id_op.second.get();
    expect(op->id == id_op.first && &op->getGraph() == &main && id_op.second->id == op->id, "operations by number");
  }
  std::stringstream text;
  ir.serialise(Ir::SerialiseFormat::JSON, text);
  const std::string json = text.str();
  expect(json.find("\"MatMul\"") < json.find("\"Add\"") && json.find("\"Add\"") < json.find("\"Relu\"") &&
             json.find("\"Relu\"") != std::string::npos,
         "serialised: " + json);
  expect(std::hash<Ir>()(ir) == std::hash<Ir>()(*ir.clone()) && ir.clone()->getDataFlow() == ir.getDataFlow(),
         "a copy");
}

struct Run {
  std::vector<float> y = std::vector<float>(2), w = std::vector<float>(4);
  bool operator==(const Run &) const = default;
};

// One step of training from the weights of the model, or of the Ir.
Run trained(const Network &net, TrainingSession &session) {
  Run run;
  std::vector<float> input{1, 2};
  NDArrayWrapper<float> in(input.data(), Shape{1, 2}), out(run.y.data(), Shape{1, 2});
  std::map<TensorId, IArray &> inputs{{net.x, in}}, outputs{{net.y, out}};
  StepIO io(inputs, outputs);
  session.prepareDevice();
  session.weightsFromHost();
  session.run(io);
  session.weightsToHost();
  WeightsIO weights;
  weights.insert(net.w, MutableVoidData{run.w.data(), TensorInfo("FLOAT", Shape{2, 2})});
  session.readWeights(weights);
  return run;
}

void training(const Network &net) {
  auto optimizer = SGD({{"defaultLearningRate", {0.1f, false}}});
  SessionOptions opts;
  const DataFlow dataFlow(1, {net.y});
  auto ir = std::make_shared<Ir>();
  ir->prepare({net.model(), InputShapeInfo(), dataFlow, net.loss, &optimizer, *net.device, opts, plain()});
  expect(ir->isTraining() && ir->canTrain() && ir->canInfer(), "mode of training");
  expect(ir->opsOfType(Onnx::GradOperators::ReluGrad).size() == 1 &&
             ir->opsOfType(Onnx::CustomOperators::SGD0VarUpdate).size() == 2,
         "backward pass and updates");

  auto session = TrainingSession::createFromOnnxModel(net.builder->getModelProto(), dataFlow, net.loss, optimizer,
                                                      net.device, InputShapeInfo(), opts, plain());
  expect(structurallyEqual(*ir, session->getIr()) && print(*ir) == print(session->getIr()), "the program of a session");
  expect(session->getIr().isTraining() && session->getIr().getDataFlow() == dataFlow, "what the session's Ir tells");
  const Run direct = trained(net, *session);
  expect(direct.y == std::vector<float>{8, 0}, "values of the model");
  // d loss / d w = x^T of the columns in which relu lets the gradient through
  const std::vector<float> updated{1 - 0.1f, 2, 3 - 0.2f, 4};
  for (size_t i = 0; i < updated.size(); ++i) expect(std::abs(direct.w[i] - updated[i]) < 1e-6f, "updated weight");

  auto fromIr = TrainingSession::createFromIr(ir, net.device);
  expect(trained(net, *fromIr) == direct, "a session of the prepared Ir");
  refuses([&] { InferenceSession::createFromIr(ir, net.device); }, "prepared for training: expected one for inference");
  // What is changed in the Ir is what runs.
  ir->getTensors().get(net.b)->setTensorData(TensorData::of<float>({2}, std::vector<float>{1, 100}));
  auto changed = TrainingSession::createFromIr(ir, net.device);
  expect(trained(net, *changed).y == std::vector<float>{8, 110}, "a changed Ir");
}

void steps(const Network &net) {  // several batches: their loop is part of the program, its body a graph
  Ir ir;
  auto optimizer = SGD({{"defaultLearningRate", {0.1f, false}}});
  ir.prepare({net.model(), InputShapeInfo(), DataFlow(3, {net.y}), net.loss, &optimizer, *net.device, {}, plain()});
  expect(ir.opsOfType("Loop").size() == 1, "the loop");
  expect(ir.getAllGraphs().size() == 2 && ir.opsOfType(Onnx::Operators::Add_7).size() == 1, "graphs");
  Graph &body = *ir.getAllGraphs()[1];
  expect(body.getInputIds().size() == body.inputs().size() && !body.getOutputIds().empty() &&
             ir.getTensors().contains(body.getInputIds()[0]),
         "operands of a graph");
  expect(ir.getOpSchedule({}, RequireOptimalSchedule::Yes).size() ==
             ir.getMainGraph().getOps().size() + body.getOps().size(),
         "the order of all graphs");
}

const OperatorIdentifier Twice{"ir.test", "Twice", 1};

class TwiceOp : public Op {
 public:
  TwiceOp(const OperatorIdentifier &id, int64_t n, const Op::Settings &s) : Op(id, s), times(n) {}
  std::unique_ptr<Op> clone() const override { return std::make_unique<TwiceOp>(*this); }
  void setup() override { outInfo(0) = inInfo(0); }
  float getSubgraphValue() const override { return getLowSubgraphValue(); }
  view::Regions aliases(InIndex, OutIndex) const override { return {view::Region::getFull(inShape(0))}; }
  int64_t times;
};

void building() {
  Ir ir;
  Graph &graph = ir.getMainGraph();
  graph.addStream("x", TensorInfo("FLOAT", Shape{2, 3}));
  Op *relu = graph.createConnectedOp<Op>({{0, "x"}}, {{0, "r"}}, Onnx::Operators::Relu_6, Op::Settings(graph, "relu"));
  Op *join = graph.createConnectedOp<Op>({{0, "r"}, {1, "x"}}, {{0, "j"}}, Onnx::AiOnnx::OpSet9::Concat,
                                         Attributes{{"axis", int64_t{0}}}, Op::Settings(graph));
  expect(relu->opid == Onnx::Operators::Relu_6 && !relu->isUserOp() && relu->outInfo(0) == relu->inInfo(0) &&
             join->outShape(0) == Shape{4, 3} && relu->name() == "relu",
         "operations of the library");
  auto *twice = graph.createConnectedOp<TwiceOp>({{0, "x"}}, {{0, "t"}}, Twice, int64_t{2}, Op::Settings(graph));
  expect(twice->times == 2 && twice->isUserOp() && twice->outShape(0) == Shape{2, 3} && twice->aliasesInput(0, 0) &&
             !twice->modifiesInput(0) && ir.opsOfType(Twice) == std::vector<Op *>{twice},
         "a user's operation");
  auto *loose = graph.createOp<TwiceOp>(Twice, int64_t{3}, Op::Settings(graph));
  loose->connectInTensor(0, "j");
  loose->createAndConnectOutTensor(0, "l");
  loose->setup();
  expect(loose->outInfo(0) == join->outInfo(0) && graph.getTensors().get("x")->consumers.getTotal() == 3, "by hand");

  expect(graph.getOpSchedule() == std::vector<Op *>{relu, join, twice, loose}, "order of creation");
  graph.topoCons->insert(twice, relu);
  graph.topoCons->insert(twice, relu);
  expect(graph.topoCons->contains(twice, relu) && !graph.topoCons->contains(relu, twice) &&
             graph.topoCons->getBefores(relu) == std::vector<Op *>{twice} &&
             graph.topoCons->getAfters(twice) == std::vector<Op *>{relu} && graph.constraints().size() == 1,
         "constraints");
  expect(graph.getOpSchedule() == std::vector<Op *>{twice, relu, join, loose}, "order of a constraint");
  graph.topoCons->remove(twice);
  expect(graph.getOpSchedule({{join, {twice}}}, RequireOptimalSchedule::Yes) ==
             std::vector<Op *>{relu, twice, join, loose},
         "order of a question");
  refuses([&] { graph.topoCons->insert(relu, relu); }, "cannot run before itself");
  Graph &other = ir.createGraph("other");
  refuses([&] { other.topoCons->insert(relu, join); }, "is an op of the main graph");
  refuses([&] { other.getOpSchedule({{relu, {join}}}, RequireOptimalSchedule::Yes); }, "expected ops of this graph");

  const size_t ops = graph.opCount(), tensors = graph.getTensors().n();
  const Op::Settings settings(graph);
  refuses(
      [&] {
        graph.createConnectedOp<Op>({{0, "nothing"}}, {{0, "n"}}, Onnx::Operators::Relu_6, settings);
      },
      "no tensor 'nothing'");
  refuses(
      [&] {
        graph.createConnectedOp<Op>({{0, "x"}}, {{0, "j"}}, Onnx::Operators::Relu_6, settings);
      },
      "'j' exists");
  refuses([&] { graph.createConnectedOp<Op>({{0, "x"}}, {{0, "n"}}, Onnx::Operators::Add_7, settings); }, "is missing");
  refuses([&] { graph.createOp<Op>(Onnx::AiOnnx::OpSet9::Concat, settings); }, "axis");
  expect(graph.opCount() == ops && graph.getTensors().n() == tensors, "a graph after refusals");
  verify(ir);
}

void refusals(const Network &net) {
  const DataFlow dataFlow(1, {net.y});
  const auto model = net.model();
  const SGD optimizer;
  Ir ir;
  const auto prepare = [&](const DataFlow &flow, const TensorId &loss, const Optimizer *sgd) {
    ir.prepare({model, InputShapeInfo(), flow, loss, sgd, *net.device, SessionOptions(), Patterns()});
  };
  refuses([&] { prepare(dataFlow, net.loss, nullptr); }, "a loss but no optimizer");
  refuses([&] { prepare(dataFlow, {}, &optimizer); }, "an optimizer but no loss");
  refuses([&] { prepare(DataFlow(1), {}, nullptr); }, "at least one anchor");
  refuses([&] { prepare(DataFlow(1, std::vector<TensorId>{"nothing"}), {}, nullptr); }, "nothing");
  expect(!ir.isPrepared() && ir.getMainGraph().getOps().empty(), "an Ir after refusals");
  prepare(dataFlow, {}, nullptr);
  refuses([&] { prepare(dataFlow, {}, nullptr); }, "a program already");
  refuses([] { io::getModelFromString("no model"); }, "");
}

void hashes(const Network &net) {
  const auto model = net.model();
  const InputShapeInfo none;
  InputShapeInfo some;
  some.add("x", TensorInfo("FLOAT", Shape{1, 2}));
  const DataFlow dataFlow(1, {net.y}), steps(2, {net.y});
  const SessionOptions opts;
  const Patterns patterns;
  SGD slow({{"defaultLearningRate", {0.1f, false}}}), fast({{"defaultLearningRate", {0.2f, false}}}),
      fixed({{"defaultLearningRate", {0.1f, true}}});
  const auto hash = [&](const InputShapeInfo &shapes, const DataFlow &flow, const Optimizer &sgd) {
    return std::hash<IrBundle>()({model, shapes, flow, net.loss, &sgd, *net.device, opts, patterns});
  };
  const size_t first = hash(none, dataFlow, slow);
  expect(first == hash(none, dataFlow, fast), "values that are not constant do not count");
  expect(
      first != hash(some, dataFlow, slow) && first != hash(none, steps, slow) && first != hash(none, dataFlow, fixed),
      "what counts in a bundle");
  expect(std::hash<Optimizer *>()(&slow) == std::hash<Optimizer *>()(&fast) &&
             std::hash<DeviceInfo>()(*net.device) == net.device->hash() &&
             std::hash<InputShapeInfo>()(none) != std::hash<InputShapeInfo>()(some),
         "other hashes");
}

}  // namespace

int main() {
  const Network net;
  inference(net);
  order(net);
  training(net);
  steps(net);
  building();
  refusals(net);
  hashes(net);
}
