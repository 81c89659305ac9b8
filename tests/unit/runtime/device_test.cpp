// The engine on a device that is not the host: memory of its own, kernels that run when they are waited for, a packing
// of weights that only it knows. Programs and their graphs are gone before anything runs.
#include "runtime/device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include <popart/ir.hpp>

#include "../support/message_of.hpp"
#include "../support/random_floats.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "backends/ipu_model/ipu_model.hpp"
#include "backends/ref/ref.hpp"
#include "executable/host_kernel.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "runtime/host_device.hpp"
#include "support/counting_device/counting_device.hpp"
#include "support/counting_device/reversed.hpp"

namespace popart {
namespace {

using executable::Executable;
using executable::Step;
using test::CountingDevice;
using Values = std::vector<float>;

// Gives each input stream its values in every run; keeps the last value of each output.
class Streams final : public runtime::StreamSource {
 public:
  Streams(const Executable &executable, std::map<std::string, Values> inputs) : executable_(executable) {
    for (const auto &stream : executable.inputs) inputs_.push_back(inputs.at(stream.id));
  }
  const void *input(int stream, int64_t) override { return inputs_.at(static_cast<size_t>(stream)).data(); }
  void *output(int stream, int64_t bytes) override {
    Values &values = outputs[executable_.outputs.at(static_cast<size_t>(stream)).id];
    values.resize(static_cast<size_t>(bytes) / sizeof(float));
    return values.data();
  }
  std::map<std::string, Values> outputs;

 private:
  const Executable &executable_;
  std::vector<Values> inputs_;
};

std::shared_ptr<const Executable> compile(std::string_view text, const runtime::Device &device, bool fuse = true) {
  lower::LowerOptions options;
  options.backends = device.backends();
  options.fuse = fuse;
  return pipeline::lower(*parseIr(text), options);
}

int kernelSteps(const executable::Program &program) {
  int count = 0;
  for (const Step &step : program.steps) count += step.kernel != nullptr;
  return count;
}

CountingDevice &counting() {
  static CountingDevice device(cpu::backend(), ref::backend());
  device.reset();
  return device;
}
const runtime::HostDevice &cpuDevice() {
  static const runtime::HostDevice device("cpu", {&cpu::backend(), &ref::backend()});
  return device;
}
const runtime::HostDevice &refDevice() {
  static const runtime::HostDevice device("ref", {&ref::backend()});
  return device;
}

// Two layers with weights, and a step of plain descent for the first.
constexpr std::string_view kTraining = R"(main {
  stream %in : float32[4, 24]
  variable %w : float32[24, 40] = 0.125
  variable %b : float32[40] = 0.25
  const %rate : float32[] = 0.5
  %x = HostLoad() {stream = "in"}
  %h = MatMul(%x, %w)
  %a = Add(%h, %b)
  %y = Relu(%a)
  HostStore(%y) {stream = "y"}
  %t = Transpose(%x) {perm = [1, 0]}
  %g = MatMul(%t, %y)
  %s = Mul(%g, %rate)
  %v = SubLhsInplace(%w, %s)
}
)";

struct Outcome {
  Values y, w;
};
Outcome train(const runtime::Device &device, int runs, bool fuse = true) {
  const auto e = compile(kTraining, device, fuse);
  runtime::Engine engine(e, device);
  Streams streams(*e, {{"in", test::randomFloats(4 * 24, 1)}});
  for (int i = 0; i < runs; ++i) engine.run(streams);
  for (size_t i = 0; i < e->variables.size(); ++i) {
    if (e->variables[i].id != "w") continue;
    Values w(24 * 40);
    engine.readVariable(static_cast<int>(i), w.data());
    return {streams.outputs.at("y"), w};
  }
  throw error("test: no variable 'w'");
}

void expectNear(const Values &got, const Values &expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << i;
}

TEST(Device, trains_with_weights_in_a_packing_of_its_own) {
  CountingDevice &device = counting();
  const auto e = compile(kTraining, device);
  int reversed = 0;
  for (const auto &v : e->variables) reversed += v.layout == test::reversed();
  EXPECT_EQ(reversed, 1) << print(*e);
  const Outcome got = train(device, 3), expected = train(refDevice(), 3, false);
  expectNear(got.y, expected.y);
  expectNear(got.w, expected.w);
}

TEST(Device, convolves_in_the_layouts_of_the_cpu) {
  constexpr std::string_view kConvolution = R"(main {
  stream %in : float32[2, 3, 8, 8]
  variable %k : float32[20, 3, 3, 3] = 0.25
  %x = HostLoad() {stream = "in"}
  %c = Conv(%x, %k) {pads = [1, 1, 1, 1]}
  %r = Relu(%c)
  %y = MaxPool(%r) {kernel_shape = [2, 2], strides = [2, 2]}
  HostStore(%y) {stream = "y"}
}
)";
  const Values weights = test::randomFloats(20 * 3 * 9, 5);
  std::vector<Values> results;
  for (const runtime::Device *device :
       {static_cast<const runtime::Device *>(&counting()), static_cast<const runtime::Device *>(&refDevice())}) {
    const auto e = compile(kConvolution, *device, device != &refDevice());
    EXPECT_EQ(cpu::asConvPanels(e->variables.at(0).layout) != nullptr, device != &refDevice());
    runtime::Engine engine(e, *device);
    engine.writeVariable(0, weights.data());
    Streams streams(*e, {{"in", test::randomFloats(2 * 3 * 64, 6)}});
    engine.run(streams);
    results.push_back(streams.outputs.at("y"));
  }
  expectNear(results[0], results[1]);
}

TEST(Device, reads_and_writes_variables_through_their_packing) {
  CountingDevice &device = counting();
  const auto e = compile(kTraining, device);
  runtime::Engine engine(e, device);
  for (size_t i = 0; i < e->variables.size(); ++i) {
    const Values values = test::randomFloats(e->variables[i].info.nelms(), 3);
    Values back(values.size());
    engine.writeVariable(static_cast<int>(i), values.data());
    engine.readVariable(static_cast<int>(i), back.data());
    EXPECT_EQ(back, values) << e->variables[i].id;
  }
}

TEST(Device, is_asked_for_each_step_once) {
  CountingDevice &device = counting();
  const auto e = compile(kTraining, device);
  runtime::Engine engine(e, device);
  EXPECT_EQ(device.counts().launches, 0);
  EXPECT_EQ(device.counts().copiesIn, static_cast<int64_t>(e->variables.size() + e->constants.size()));
  const int64_t allocations = device.counts().allocations;
  device.reset();
  Streams streams(*e, {{"in", test::randomFloats(4 * 24, 1)}});
  engine.run(streams);
  const CountingDevice::Counts &counts = device.counts();
  EXPECT_EQ(counts.launches, kernelSteps(e->main));
  EXPECT_EQ(counts.copiesIn, 1);
  EXPECT_EQ(counts.bytesIn, 4 * 24 * 4);
  EXPECT_EQ(counts.copiesOut, 1);
  EXPECT_EQ(counts.bytesOut, 4 * 40 * 4);
  EXPECT_EQ(counts.allocations, 0) << "a run takes no memory";
  EXPECT_EQ(allocations, 2 + static_cast<int64_t>(e->constants.size()));
}

TEST(Device, steers_loops_by_values_of_the_device) {
  // v = v v + 1 until it is above 100, at most 9 times.
  constexpr std::string_view kLoop = R"(main {
  stream %in : float32[]
  const %trip : int64[] = 9
  const %go : bool[] = 1
  %x = HostLoad() {stream = "in"}
  %y = Loop(%trip, %go, %x) {body = @body, carried = 1}
  HostStore(%y) {stream = "y"}
}

graph @body {
  input %body/i : int64[]
  input %body/cond : bool[]
  input %body/v : float32[]
  const %body/one : float32[] = 1
  const %body/most : float32[] = 100
  %body/square = Mul(%body/v, %body/v)
  %body/next = Add(%body/square, %body/one)
  %body/more = Less(%body/next, %body/most)
  return %body/more, %body/next
}
)";
  CountingDevice &device = counting();
  const auto e = compile(kLoop, device);
  runtime::Engine engine(e, device);
  Streams streams(*e, {{"in", {1}}});
  engine.run(streams);
  EXPECT_EQ(streams.outputs.at("y"), Values{677});  // 2, 5, 26, 677
}

constexpr std::string_view kLookup = R"(main {
  stream %in : float32[2]
  variable %table : float32[4, 3] = 0.5
  %x = HostLoad() {stream = "in"}
  %i = Cast(%x) {to = 6}
  %y = Gather(%table, %i) {axis = 0}
  HostStore(%y) {stream = "y"}
}
)";

TEST(Device, reports_failures_when_it_is_waited_for) {
  CountingDevice &device = counting();
  const auto e = compile(kLookup, device);
  runtime::Engine engine(e, device);
  Streams bad(*e, {{"in", {1, 9}}}), good(*e, {{"in", {1, 3}}});
  EXPECT_NE(test::messageOf([&] { engine.run(bad); }).find("an index is out of range: got 9"), std::string::npos);
  engine.run(good);
  EXPECT_EQ(good.outputs.at("y"), Values(6, 0.5f));
}

// A kernel that writes what its run context says.
class ReplicaKernel final : public executable::HostKernel {
 public:
  std::string name() const override { return "replica"; }
  void run(const executable::KernelArgs &args, int) const noexcept override {
    *static_cast<float *>(args.out[0]) = static_cast<float>(args.context.replica());
  }
};
// A kernel of another machine.
class ForeignKernel final : public executable::Kernel {
 public:
  std::string name() const override { return "foreign"; }
};

std::shared_ptr<const Executable> oneKernel(std::shared_ptr<const executable::Kernel> kernel) {
  auto e = std::make_shared<Executable>();
  e->buffers = {{executable::Buffer::Place::Arena, 4, 0, "y"}};
  e->outputs.push_back({"y", TensorInfo(DataType::FLOAT, Shape{})});
  e->arenaBytes = 64;
  Step compute, store;
  compute.name = compute.op = "Some 'op'";
  compute.kernel = std::move(kernel);
  compute.out = {0};
  store.kind = Step::Kind::HostStore;
  store.in = {0};
  store.stream = 0;
  store.bytes = 4;
  e->main.steps = {compute, store};
  return e;
}

TEST(Device, tells_kernels_which_replica_they_work_for) {
  const auto e = oneKernel(std::make_shared<ReplicaKernel>());
  for (const runtime::Device *device :
       {static_cast<const runtime::Device *>(&cpuDevice()), static_cast<const runtime::Device *>(&counting())}) {
    runtime::RunSettings settings;
    settings.replica = 5;
    runtime::Engine engine(e, *device, settings);
    Streams streams(*e, {});
    engine.run(streams);
    EXPECT_EQ(streams.outputs.at("y"), Values{5}) << device->name();
  }
}

// Its tasks fill their scratch memory, and find it unchanged a little later.
class ScratchKernel final : public executable::HostKernel {
 public:
  static constexpr int64_t kBytes = 100'001;
  std::string name() const override { return "scratch"; }
  int tasks() const override { return 16; }
  int64_t scratchBytes() const override { return kBytes; }
  void run(const executable::KernelArgs &args, int task) const noexcept override {
    auto *const scratch = static_cast<volatile char *>(args.scratch);
    const int running = ++running_;
    for (int seen = most_; running > seen && !most_.compare_exchange_weak(seen, running);) {
    }
    for (int64_t i = 0; i < kBytes; ++i) scratch[i] = static_cast<char>(task);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int64_t i = 0; i < kBytes; ++i) changed_ += scratch[i] != static_cast<char>(task);
    --running_;
    if (task == 0) *static_cast<float *>(args.out[0]) = 1;
  }
  int most() const { return most_; }  // tasks that ran at the same time
  int changed() const { return changed_; }

 private:
  mutable std::atomic<int> running_{0}, most_{0}, changed_{0};
};

TEST(Device, each_thread_has_its_part_of_scratch_memory_in_the_arena) {
  constexpr int64_t kStride = executable::scratchStride(ScratchKernel::kBytes);
  for (const int parts : {1, 3}) {
    const auto kernel = std::make_shared<ScratchKernel>();
    auto e = std::make_shared<Executable>(*oneKernel(kernel));
    e->buffers.push_back({executable::Buffer::Place::Arena, parts * kStride, 64, "scratch"});
    e->arenaBytes = 64 + parts * kStride;
    e->main.steps[0].scratch = 1;
    for (const runtime::Device *device :
         {static_cast<const runtime::Device *>(&cpuDevice()), static_cast<const runtime::Device *>(&counting())}) {
      runtime::RunSettings settings{4, runtime::WakePolicy::Always};
      runtime::Engine engine(e, *device, settings);
      Streams streams(*e, {});
      engine.run(streams);
      EXPECT_EQ(streams.outputs.at("y"), Values{1});
      EXPECT_EQ(kernel->changed(), 0) << device->name();
      EXPECT_LE(kernel->most(), parts) << "not more threads than have memory";
    }
  }
}

TEST(Device, refuses_kernels_of_another_machine) {
  const auto e = oneKernel(std::make_shared<ForeignKernel>());
  const std::string message = test::messageOf([&] { runtime::Engine(e, cpuDevice()); });
  for (const char *part : {"Some 'op'", "'foreign'", "device cpu"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Device, ipu_model_gives_the_bits_of_the_cpu) {
  const ipu_model::IpuModel model({&cpu::backend(), &ref::backend()});
  EXPECT_EQ(model.name(), "ipu_model");
  const Outcome got = train(model, 3), expected = train(cpuDevice(), 3);
  EXPECT_EQ(got.y, expected.y);
  EXPECT_EQ(got.w, expected.w);
}

// Rows of a remote variable, chosen at run time; each run stores what it loads, doubled.
constexpr std::string_view kRemote = R"(main {
  stream %row : int32[]
  variable %far : float32[3, 2] <remote = 1> = [1, 2, 3, 4, 5, 6]
  %i = HostLoad() {stream = "row"}
  %x = RemoteLoad(_, %i) {remote_buffer = "far"}
  %y = Add(%x, %x)
  RemoteStore(%y, %i) {remote_buffer = "far"}
  HostStore(%x) {stream = "x"}
}
)";

// Gives the number of the row.
struct RowStreams final : runtime::StreamSource {
  const void *input(int, int64_t) override { return &row; }
  void *output(int, int64_t) override { return values.data(); }
  int32_t row = 0;
  Values values = Values(2);
};

TEST(Device, remote_variables_are_reached_row_by_row) {
  const runtime::Device *devices[] = {&counting(), &cpuDevice(), &refDevice()};
  for (const runtime::Device *device : devices) {
    const auto e = compile(kRemote, *device);
    EXPECT_EQ(e->memory.remoteBytes, 24);
    EXPECT_EQ(e->memory.variableBytes, 0);
    runtime::Engine engine(e, *device);
    RowStreams streams;
    streams.row = 2;
    engine.run(streams);
    EXPECT_EQ(streams.values, (Values{5, 6}));
    engine.run(streams);
    EXPECT_EQ(streams.values, (Values{10, 12}));
    Values row(2), all(6);
    engine.readRow(0, 2, row.data());
    EXPECT_EQ(row, (Values{20, 24}));
    engine.writeRow(0, 1, Values{7, 8}.data());
    engine.readVariable(0, all.data());
    EXPECT_EQ(all, (Values{1, 2, 7, 8, 20, 24}));
    for (int32_t wrong : {3, -1}) {
      streams.row = wrong;
      EXPECT_NE(test::messageOf([&] { engine.run(streams); }).find("expected 0 to 2"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace popart
