// Exceptions of user kernels: they end the run they happen in, in sessions of models and of hand-written Irs, and reach
// no other session.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include <popart/builder.hpp>
#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/opmanager.hpp>
#include <popart/session.hpp>
#include <popart/stepio.hpp>
#include <popart/userkernel.hpp>

#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "api/ir_session.hpp"

namespace popart {
namespace {

using test::messageOf;

const OperatorIdentifier kRoot{"user_kernels.test", "Root", 1};

class RootOp : public Op {
 public:
  RootOp(const OperatorIdentifier &id, const Op::Settings &s) : Op(id, s) {}
  std::unique_ptr<Op> clone() const override { return std::make_unique<RootOp>(*this); }
  void setup() override { outInfo(0) = inInfo(0); }
};
const OpCreator<RootOp> kCreator(OpDefinitions({{kRoot, OpDefinition()}}));

// A square root that takes no negative numbers.
const RegisterKernel kKernel(kRoot, [](const KernelCall &call) {
  const float *x = call.input<float>(0);
  float *y = call.output<float>(0);
  for (int64_t i = 0; i < call.inInfo(0).nelms(); ++i) {
    if (x[i] < 0) throw std::domain_error("no root of " + std::to_string(x[i]));
    y[i] = std::sqrt(x[i]);
  }
});

// A session of y = root(x) for two numbers.
class ModelRoot {
 public:
  ModelRoot() {
    auto builder = Builder::create();
    x_ = builder->addInputTensor("FLOAT", {2}, "x");
    y_ = builder->customOp(kRoot, 1, {x_}, 1, {}, "mine").front();
    builder->addOutputTensor(y_);
    session_ =
        InferenceSession::createFromOnnxModel(builder->getModelProto(), DataFlow(1, {{y_, AnchorReturnType("All")}}),
                                              DeviceManager::createDeviceManager().createCpuDevice());
    session_->prepareDevice();
  }
  std::vector<float> operator()(std::vector<float> in) {
    std::vector<float> result(2);
    NDArrayWrapper<float> inWrapper(in.data(), TensorInfo(DataType::FLOAT, {2})),
        outWrapper(result.data(), TensorInfo(DataType::FLOAT, {2}));
    StepIO io({{x_, inWrapper}}, {{y_, outWrapper}});
    session_->run(io);
    return result;
  }

 private:
  TensorId x_, y_;
  std::unique_ptr<InferenceSession> session_;
};

// The same as a hand-written Ir.
class IrRoot {
 public:
  IrRoot() {
    Ir ir;
    Graph &main = ir.getMainGraph();
    const Op::Settings settings(main, "mine");
    const TensorIndex stream = main.addStream("x", TensorInfo(DataType::FLOAT, {2}));
    const Op *load =
        main.addConnectedOp(opDef("HostLoad"), {stream}, {"loaded"}, {{"stream", std::string("x")}}, settings);
    const Op *root = main.addConnectedOp(userOpDef(kRoot), {load->outputs()[0]}, {"y"}, {}, settings);
    main.addConnectedOp(opDef("HostStore"), {root->outputs()[0]}, {}, {{"stream", std::string("y")}}, settings);
    session_ = std::make_unique<IrSession>(ir, IrSessionOptions());
    session_->load(*device_);
  }
  std::vector<float> operator()(std::vector<float> in) {
    std::vector<float> result(2);
    const void *const inputs[] = {in.data()};
    void *const outputs[] = {result.data()};
    session_->run(inputs, outputs);
    return result;
  }

 private:
  std::shared_ptr<DeviceInfo> device_ = DeviceManager::createDeviceManager().createCpuDevice();
  std::unique_ptr<IrSession> session_;
};

template <class Root>
class UserKernel : public testing::Test {};
using Sessions = testing::Types<ModelRoot, IrRoot>;
TYPED_TEST_SUITE(UserKernel, Sessions);

TYPED_TEST(UserKernel, exception_ends_its_run_and_the_session_runs_on) {
  TypeParam root;
  const std::vector<float> roots{2, 3};
  EXPECT_EQ(root({4, 9}), roots);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(root({4, -1}), runtime_error);
    const std::string message = messageOf([&] { root({-2, 9}); });
    EXPECT_NE(message.find("kernel of Root 'mine"), std::string::npos) << message;
    EXPECT_NE(message.find("no root of -2"), std::string::npos) << message;
    EXPECT_EQ(root({4, 9}), roots);
  }
}

TYPED_TEST(UserKernel, exception_reaches_no_session_of_another_thread) {
  constexpr int kRuns = 300;
  TypeParam good, bad;
  int caught = 0, wrong = 0;
  std::thread other([&] {
    for (int i = 0; i < kRuns; ++i) try {
        bad({4, -1});
        ++wrong;
      } catch (const runtime_error &) {
        ++caught;
      }
  });
  for (int i = 0; i < kRuns; ++i) EXPECT_NO_THROW(EXPECT_EQ(good({4, 9}), (std::vector<float>{2, 3})));
  other.join();
  EXPECT_EQ(caught, kRuns);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace popart
