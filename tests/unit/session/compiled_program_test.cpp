// The session core: order of its states, one run at a time, failures of users' kernels, limits of memory; host streams
// read off an Ir.
#include "session/compiled_program.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "api/compile_options.hpp"
#include "base/byte_size.hpp"
#include "session/host_streams.hpp"
#include "session/memory_limit.hpp"

namespace popart::session {
namespace {

// x + w → y: a stream, a variable and an anchor.
std::unique_ptr<Ir> adder() {
  auto ir = std::make_unique<Ir>();
  Graph &main = ir->getMainGraph();
  test::GraphBuilder b(main);
  b.stream("x", DataType::FLOAT, {2});
  const TensorIndex w = b.variable("w", {2}, {1, 2});
  const TensorIndex x = b.op("HostLoad", {}, "loaded", {{"stream", std::string("x")}});
  const TensorIndex y = b.op("Add", {x, w}, "y");
  main.addConnectedOp(opDef("HostStore"), {y}, {}, {{"stream", std::string("y")}}, Op::Settings(main));
  return ir;
}

class Streams : public runtime::StreamSource {
 public:
  float in[2] = {10, 20}, out[2] = {0, 0};
  std::function<void()> onInput = [] {};
  const void *input(int, int64_t) override {
    onInput();
    return in;
  }
  void *output(int, int64_t) override { return out; }
};

CompileOptions cpuOptions() { return compileOptionsFor(DeviceType::Cpu, 2); }
std::shared_ptr<DeviceInfo> cpu() { return DeviceManager::createDeviceManager().createCpuDevice(); }

using test::messageOf;

TEST(CompiledProgram, StatesNeedTheEarlierOnes) {
  CompiledProgram program("p");
  EXPECT_NE(messageOf([&] { program.requireCompiled("run"); }).find("Session 'p': run before the program is compiled"),
            std::string::npos);
  EXPECT_NE(messageOf([&] { program.load(*cpu()); }).find("prepareDevice"), std::string::npos);
  program.compile(*adder(), cpuOptions());
  program.requireCompiled("run");
  EXPECT_NE(messageOf([&] { program.requireLoaded("run"); }).find("run before the program is loaded"),
            std::string::npos);
  program.load(*cpu());
  program.requireLoaded("run");
  program.unload();
  EXPECT_TRUE(program.isCompiled() && !program.isLoaded());
}

TEST(CompiledProgram, RunsAndKeepsVariables) {
  CompiledProgram program("p");
  program.compile(*adder(), cpuOptions());
  program.load(*cpu());
  Streams streams;
  const auto run = [&] { program.run([&]() -> runtime::StreamSource & { return streams; }); };
  run();
  EXPECT_EQ(streams.out[0], 11);
  EXPECT_EQ(streams.out[1], 22);
  EXPECT_EQ(program.findVariable("nothing"), -1);
  const int w = program.findVariable("w");
  ASSERT_GE(w, 0);
  const float values[2] = {5, 6};
  program.writeVariable(w, values);
  run();
  EXPECT_EQ(streams.out[1], 26);
  float read[2];
  program.readVariable(w, read);
  EXPECT_EQ(read[0], 5);
}

TEST(CompiledProgram, OneRunAtATime) {
  CompiledProgram program("p");
  program.compile(*adder(), cpuOptions());
  program.load(*cpu());
  Streams outer, inner;
  std::string text;
  outer.onInput = [&] { text = messageOf([&] { program.run([&]() -> runtime::StreamSource & { return inner; }); }); };
  program.run([&]() -> runtime::StreamSource & { return outer; });
  EXPECT_NE(text.find("another run is going on"), std::string::npos);
  outer.onInput = [] { throw runtime_error("no data"); };
  EXPECT_EQ(messageOf([&] { program.run([&]() -> runtime::StreamSource & { return outer; }); }), "no data");
  outer.onInput = [] {};
  program.run([&]() -> runtime::StreamSource & { return outer; });  // a failed run leaves the program usable
  EXPECT_EQ(outer.out[0], 11);
}

TEST(CompiledProgram, AFailureLeavesNoProgram) {
  CompiledProgram program("p");
  program.compile(*adder(), cpuOptions());
  CompileOptions small = cpuOptions();
  small.maxMemoryBytes = 1;
  EXPECT_THROW(program.compile(*adder(), small), memory_allocation_err);
  EXPECT_FALSE(program.isCompiled());
}

TEST(CompiledProgram, DevicesAreAttachedAndOfflineOnesRefused) {
  CompiledProgram program("p");
  program.compile(*adder(), cpuOptions());
  DeviceManager &manager = DeviceManager::createDeviceManager();
  const auto first = manager.tryAcquireAvailableDevice(1, 0, SyncPattern::Full, DeviceConnectionType::OnDemand);
  ASSERT_TRUE(first && !first->isAttached());
  program.load(*first);
  EXPECT_TRUE(first->isAttached());
  const auto same = manager.getDevice(SyncPattern::Full, static_cast<uint32_t>(first->getId()));
  EXPECT_NE(messageOf([&] { program.load(*same); }).find("is in use"), std::string::npos);
  const auto offline = manager.createOfflineIPUDevice({});
  EXPECT_NE(messageOf([&] { program.load(*offline); }).find("offline device"), std::string::npos);
}

TEST(MemoryLimit, OptionBeforeEnvironment) {
  unsetenv("POPART_MAX_MEMORY");
  EXPECT_EQ(memoryLimitBytes({}), machineMemoryBytes());
  EXPECT_EQ(memoryLimitBytes({{"max_memory", "3K"}}), 3072);
  setenv("POPART_MAX_MEMORY", "2M", 1);
  EXPECT_EQ(memoryLimitBytes({}), 2 << 20);
  EXPECT_EQ(memoryLimitBytes({{"max_memory", "1G"}}), 1 << 30);
  for (const char *bad : {"", "much", "-1", "5T", "99999999999G"})
    EXPECT_THROW(memoryLimitBytes({{"max_memory", bad}}), error) << bad;
  unsetenv("POPART_MAX_MEMORY");
}

TEST(HostStreams, ThoseOfTheGraphsThatRun) {
  const std::unique_ptr<Ir> ir = adder();
  Graph &unused = ir->createGraph("unused");
  unused.addConnectedOp(opDef("HostLoad"), {}, {"unused/loaded"}, {{"stream", std::string("x")}}, Op::Settings(unused));
  ir->getMainGraph().addStream("z", TensorInfo(DataType::INT32, {3}));
  unused.addConnectedOp(opDef("HostLoad"), {}, {"unused/z"}, {{"stream", std::string("z")}}, Op::Settings(unused));
  const HostStreams streams = hostStreams(*ir);
  EXPECT_EQ(streams.inputs, (std::map<TensorId, TensorInfo>{{"x", TensorInfo(DataType::FLOAT, {2})}}));
  EXPECT_EQ(streams.outputs, (std::map<TensorId, TensorInfo>{{"y", TensorInfo(DataType::FLOAT, {2})}}));
}

// Large constants with the same values are in memory once, however they came about.
TEST(CompiledProgram, SharesConstantsWithOtherPrograms) {
  const auto program = [](int64_t rows, float last) {
    auto ir = std::make_unique<Ir>();
    Graph &main = ir->getMainGraph();
    test::GraphBuilder b(main);
    b.stream("x", DataType::FLOAT, {rows, 1 << 15});
    std::vector<float> values = test::numbers(1 << 15);
    values.back() = last;
    const TensorIndex c = b.constant("c", {1 << 15}, values);
    const TensorIndex x = b.op("HostLoad", {}, "loaded", {{"stream", std::string("x")}});
    const TensorIndex y = b.op("Add", {x, c}, "y");
    main.addConnectedOp(opDef("HostStore"), {y}, {}, {{"stream", std::string("y")}}, Op::Settings(main));
    return ir;
  };
  CompileOptions options = compileOptionsFor(DeviceType::Cpu, 1);
  CompiledProgram first("first"), same("same"), other("other");
  first.compile(*program(1, 0.5f), options);
  options.otherPrograms = {first.executable()};
  same.compile(*program(2, 0.5f), options);
  other.compile(*program(2, 0.25f), options);
  const auto constant = [](const CompiledProgram &p) { return p.executable()->constants.at(0).data.data(); };
  EXPECT_EQ(constant(same), constant(first));
  EXPECT_NE(constant(other), constant(first));
}

}  // namespace
}  // namespace popart::session
