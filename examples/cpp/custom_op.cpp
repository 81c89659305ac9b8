// Adds an operator and a rewrite of its own, then runs a model with them: custom_op MODEL.onnx
//
// The operator "Cube" of the domain "custom.ops" is one row (shape rule, gradient) and one kernel. The pattern replaces
//   Mul(Mul(x, x), x)   by   Cube(x)
// The model reads "x", float (4,), and gives "y", (4,); the program prints y and how many Cube operators it ran.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/graph.hpp>
#include <popart/ir.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/op.hpp>
#include <popart/opdef.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>
#include <popart/userkernel.hpp>

namespace {

// cube(x) = x³, so that grad(x) = 3 x² grad(y)
const popart::OpDef &kCube =
    popart::registerOpDef(popart::OpDef("custom.ops", "Cube", {1})
                              .input("x", popart::typeBit(popart::DataType::FLOAT))
                              .output("y")
                              .traits(popart::Trait::Elementwise)
                              .vjp([](popart::VjpBuilder &b) {
                                const auto square = b.emit("Mul", {b.in(0), b.in(0)});
                                const auto slope = b.emit("Mul", {square, b.scalar(popart::DataType::FLOAT, 3.0)});
                                b.grad(0, b.emit("Mul", {slope, b.gradOut(0)}));
                              })
                              .doc("Third power of each element."));

const popart::RegisterKernel kCubeKernel(kCube.id(), [](const popart::KernelCall &call) {
  const float *x = call.input<float>(0);
  float *y = call.output<float>(0);
  for (int64_t i = 0; i < call.inInfo(0).nelms(); ++i) y[i] = x[i] * x[i] * x[i];
});

class CubeFromProducts : public popart::PreAliasPattern {
 public:
  bool matches(popart::Op *op) const override { return base(op) != nullptr; }
  std::vector<const popart::Tensor *> touches(popart::Op *op) const override { return {op->inTensor(0)}; }
  bool apply(popart::Op *op) const override {
    popart::Graph &graph = op->getGraph();
    const popart::TensorIndex x = base(op)->index(), y = op->outTensor(0)->index();
    graph.disconnectOutput(op->index(), 0);
    popart::Op *cube = graph.addOp(kCube, {}, popart::inheritSettings(*op, graph, "cube"));
    graph.connectInput(cube->index(), 0, x);
    graph.connectOutput(cube->index(), 0, y);
    cube->setup();
    graph.eraseOp(op->index());
    return true;
  }

 private:
  // x of Mul(Mul(x, x), x); null when the op is anything else.
  static const popart::Tensor *base(const popart::Op *op) {
    if (!op->is("Mul")) return nullptr;
    const popart::Op *square = op->inTensor(0)->getProducerUnsafe();
    if (!square || !square->is("Mul") || square->inTensor(0) != square->inTensor(1)) return nullptr;
    return square->inTensor(0) == op->inTensor(1) ? op->inTensor(1) : nullptr;
  }
};

const popart::PatternCreator<CubeFromProducts> kCubeFromProducts("CubeFromProducts");

void run(const char *modelFile) {
  auto session = popart::InferenceSession::createFromOnnxModel(
      modelFile, popart::DataFlow(1, {{"y", popart::AnchorReturnType("All")}}),
      popart::DeviceManager::createDeviceManager().createCpuDevice());
  session->prepareDevice();
  int cubes = 0;
  for (const popart::Op *op : session->getIr().getMainGraph().ops()) cubes += op->is("Cube");

  std::array<float, 4> x = {-1.0f, 0.5f, 2.0f, 3.0f}, y = {};
  popart::NDArrayWrapper<float> input(x.data(), {4}), output(y.data(), {4});
  popart::StepIO stepIO({{"x", input}}, {{"y", output}});
  session->run(stepIO);
  std::printf("Cube operators: %d\ny = %g %g %g %g\n", cubes, y[0], y[1], y[2], y[3]);
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_op MODEL.onnx\n");
    return EXIT_FAILURE;
  }
  run(argv[1]);
  return EXIT_SUCCESS;
} catch (const std::exception &e) {
  std::fprintf(stderr, "custom_op: %s\n", e.what());
  return EXIT_FAILURE;
}
