// User operators in a library of their own, as a program outside this repository writes them: LeakyRelu with a gradient
// operator and kernels, Twice with shape function only, a pattern that replaces Relu of "replaced" by Neg when on, and
// a transform that does so for all Relus of "transformed".
#include <popart/graph.hpp>
#include <popart/opmanager.hpp>
#include <popart/opserialiser.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/shapeinference.hpp>
#include <popart/transforms/transform.hpp>
#include <popart/userkernel.hpp>

namespace {

const popart::OperatorIdentifier kLeakyRelu{"custom.ops", "LeakyRelu", 1, {1, 1}, 1};
const popart::OperatorIdentifier kLeakyReluGrad{"custom.ops", "LeakyReluGrad", 1, {2, 2}, 1};
const popart::OperatorIdentifier kTwice{"custom.ops", "Twice", 1};

class LeakyReluOp : public popart::Op {
 public:
  LeakyReluOp(const popart::OperatorIdentifier &opid, float alpha, const popart::Op::Settings &settings)
      : popart::Op(opid, settings), alpha_(alpha) {}
  std::unique_ptr<popart::Op> clone() const final { return std::make_unique<LeakyReluOp>(*this); }
  void setup() final { outInfo(0) = inInfo(0); }
  void appendAttributes(popart::OpSerialiserBase &os) const override {
    Op::appendAttributes(os);
    os.appendAttribute("alpha", getAlpha());
  }
  std::vector<std::unique_ptr<popart::Op>> getGradOps() override;
  float getSubgraphValue() const final { return getHighSubgraphValue(); }
  bool requiresRandomSeed() const override { return false; }
  float getAlpha() const { return alpha_; }

 private:
  float alpha_;
};

class LeakyReluGradOp : public popart::Op {
 public:
  explicit LeakyReluGradOp(const LeakyReluOp &forward)
      : popart::Op(kLeakyReluGrad, forward.getSettings()), alpha_(forward.getAlpha()) {}
  std::unique_ptr<popart::Op> clone() const final { return std::make_unique<LeakyReluGradOp>(*this); }
  void setup() final { outInfo(0) = inInfo(0); }
  const std::vector<popart::GradInOutMapper> &gradInputInfo() const override {
    static const std::vector<popart::GradInOutMapper> info = {{0, 0, popart::GradOpInType::GradOut},
                                                              {1, 0, popart::GradOpInType::In}};
    return info;
  }
  const std::map<int, int> &gradOutToNonGradIn() const override {
    static const std::map<int, int> info = {{0, 0}};
    return info;
  }
  void appendAttributes(popart::OpSerialiserBase &os) const override { os.appendAttribute("alpha", getAlpha()); }
  float getSubgraphValue() const final { return getLowSubgraphValue(); }
  float getAlpha() const { return alpha_; }

 private:
  float alpha_;
};

std::vector<std::unique_ptr<popart::Op>> LeakyReluOp::getGradOps() {
  std::vector<std::unique_ptr<popart::Op>> ops;
  ops.emplace_back(new LeakyReluGradOp(*this));
  return ops;
}

popart::OpDefinition::DataTypes T = {popart::DataType::FLOAT16, popart::DataType::FLOAT};

popart::OpDefinition leakyReluDef({popart::OpDefinition::Inputs({{"input", T}}),
                                   popart::OpDefinition::Outputs({{"output", T}}),
                                   popart::OpDefinition::Attributes({{"alpha", {"*"}}})});

popart::OpCreator<LeakyReluOp> leakyReluCreator(
    popart::OpDefinitions({{kLeakyRelu, leakyReluDef}}),
    [](const popart::OpCreatorInfo &info) {
      const float alpha = info.attributes.getAttribute<popart::Attributes::Float>("alpha", 1e-2f);
      return std::make_unique<LeakyReluOp>(info.opid, alpha, info.settings);
    },
    true);

popart::RegisterKernel leakyReluKernel(kLeakyRelu, [](const popart::KernelCall &call) {
  const float alpha = static_cast<const LeakyReluOp &>(call.op()).getAlpha();
  const float *x = call.input<float>(0);
  float *y = call.output<float>(0);
  for (int64_t i = 0; i < call.inInfo(0).nelms(); ++i) y[i] = x[i] >= 0 ? x[i] : alpha * x[i];
});

popart::RegisterKernel leakyReluGradKernel(kLeakyReluGrad, [](const popart::KernelCall &call) {
  const float alpha = static_cast<const LeakyReluGradOp &>(call.op()).getAlpha();
  const float *gradient = call.input<float>(0), *x = call.input<float>(1);
  float *result = call.output<float>(0);
  for (int64_t i = 0; i < call.inInfo(0).nelms(); ++i) result[i] = x[i] >= 0 ? gradient[i] : alpha * gradient[i];
});

popart::RegisterShapeInferenceFunction twiceShapes(kTwice, [](popart::ShapeInferenceContext &ctx) {
  popart::propagateElemTypeFromInputToOutput(ctx, 0, 0);
  popart::Shape shape = ctx.inShape(0);
  shape.insert(shape.begin(), 2);
  ctx.outInfo(0).set(ctx.inType(0), shape);
});

// The input, `bias` added, two times.
popart::RegisterKernel twiceKernel(kTwice, [](const popart::KernelCall &call) {
  const float bias = call.op().attributes().getAttribute<popart::Attributes::Float>("bias", 0.0f);
  const int64_t n = call.inInfo(0).nelms();
  for (int64_t i = 0; i < n; ++i)
    call.output<float>(0)[i] = call.output<float>(0)[n + i] = call.input<float>(0)[i] + bias;
});

class ReplaceReluWithNeg : public popart::PreAliasPattern {
 public:
  // One marked operator only: the level All turns the pattern on for other tests of the same process.
  bool matches(popart::Op *op) const override {
    return op->opid.type == "Relu" && op->inId(0).find("replaced") != std::string::npos;
  }
  std::vector<const popart::Tensor *> touches(popart::Op *) const override { return {}; }
  bool apply(popart::Op *op) const override {
    popart::Op *neg = makeReplacementOpInIr({"ai.onnx", "Neg", 6}, op);
    const popart::TensorId input = op->inId(0), output = op->outId(0);
    op->disconnectAllInputs();
    op->disconnectAllOutputs();
    op->getGraph().eraseOp(op->id);
    neg->connectInTensor(0, input);
    neg->connectOutTensor(0, output);
    neg->setup();
    return true;
  }
};

popart::PatternCreator<ReplaceReluWithNeg> replaceReluWithNeg("ReplaceReluWithNeg", false);

class NegateTransformed : public popart::Transform {
 public:
  static std::size_t id() { return typeid(NegateTransformed).hash_code(); }
  bool apply(popart::Graph &graph) const override {
    bool changed = false;
    for (popart::Op *op : graph.ops()) {
      // At Final the program says what is computed in place.
      if (op->opid.type != "Relu" && op->opid.type != "ReluInplace") continue;
      if (op->inId(0).find("transformed") == std::string::npos) continue;
      popart::Op *neg = graph.addOp(popart::opDef("Neg"), {}, op->getSettings());
      const popart::TensorId input = op->inId(0), output = op->outId(0);
      op->disconnectAllInputs();
      op->disconnectAllOutputs();
      graph.eraseOp(op->id);
      neg->connectInTensor(0, input);
      neg->connectOutTensor(0, output);
      neg->setup();
      changed = true;
    }
    return changed;
  }
  std::size_t getId() const override { return id(); }
  std::string getName() const override { return "NegateTransformed"; }
};

const bool registeredTransform = popart::Transform::registerTransform(new NegateTransformed());

}  // namespace
