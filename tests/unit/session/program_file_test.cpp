// Programs in files: what is written comes back, compiles to the same executable and starts with the right values.
#include "session/program_file.hpp"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "../support/executable_text.hpp"
#include "../support/message_of.hpp"
#include "../support/program.hpp"
#include "api/compile_options.hpp"
#include "pipeline/passes.hpp"

namespace popart::session {
namespace {

using test::messageOf;

std::string written(const ProgramDescription &d, const lower::Program *program, const VariableValues &variables) {
  std::string bytes;
  writeProgramFile(d, program, variables,
                   [&bytes](const void *data, size_t size) { bytes.append(static_cast<const char *>(data), size); });
  return bytes;
}

TensorData ramp(Shape shape, float start) {
  TensorData data(TensorInfo(DataType::FLOAT, std::move(shape)));
  auto *values = static_cast<float *>(data.mutableData());
  for (int64_t i = 0; i < data.info().nelms(); ++i) values[i] = start + static_cast<float>(i);
  return data;
}

// x · c + w, y = softmax: a packed constant, a variable, a stream, an anchor.
std::unique_ptr<Ir> product() {
  auto ir = std::make_unique<Ir>();
  Graph &main = ir->getMainGraph();
  test::GraphBuilder b(main);
  b.stream("x", DataType::FLOAT, {4, 40});
  const TensorIndex c = main.addConstant("c", ramp({40, 50}, -3)), w = main.addVariable("w", ramp({4, 50}, 1));
  const TensorIndex x = b.op("HostLoad", {}, "loaded", {{"stream", std::string("x")}});
  const TensorIndex y = b.op("Add", {b.op("MatMul", {x, c}, "p"), w}, "y");
  main.addConnectedOp(opDef("HostStore"), {y}, {}, {{"stream", std::string("y")}}, Op::Settings(main));
  return ir;
}

lower::LowerOptions lowering() {
  const CompileOptions options = compileOptionsFor(DeviceType::Cpu, 2);
  lower::LowerOptions lowering;
  lowering.backends = options.device->backends();
  lowering.evaluate = options.evaluate;
  lowering.threads = options.threads;
  return lowering;
}

lower::Program lowered(const Ir &ir) {
  const lower::LowerOptions options = lowering();
  return pipeline::lowerProgram(ir, options, lower::remember(options));
}

std::string steps(const lower::Program &program) {
  return test::textWithoutNumbers(*lower::compile(program, lowering()));
}

TEST(ProgramFile, TheProgramComesBackAndCompilesToTheSameExecutable) {
  const auto ir = product();
  const lower::Program program = lowered(*ir);
  const TensorData trained = ramp({4, 50}, 9);
  const std::string bytes = written({"k", "t", 2}, &program, {{"w", trained}});
  const ProgramFile file = ProgramFile::parse(bytes, "test");
  EXPECT_EQ(file.description().key, "k");
  EXPECT_EQ(file.description().target, "t");
  EXPECT_EQ(file.description().threads, 2);
  EXPECT_EQ(file.variables().at("w"), trained);
  const lower::Program same =
      file.program([&ir](const TensorId &id) { return ir->getMainGraph().getTensor(id)->tensorData(); });
  EXPECT_EQ(print(same), print(program));
  EXPECT_EQ(steps(same), steps(program));
}

TEST(ProgramFile, ConstantsAreStoredAsKernelsReadThem) {
  const lower::Program program = lowered(*product());
  const Tensor &c = *program.ir->getMainGraph().getTensor("c");
  ASSERT_NE(c.layout, "");
  EXPECT_EQ(c.tensorData().info().dataType(), DataType::UINT8);
  const std::string bytes = written({"k", "t", 2}, &program, {});
  const std::string_view values(static_cast<const char *>(c.tensorData().data()),
                                static_cast<size_t>(c.tensorData().nbytes()));
  const size_t at = bytes.find(values);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(at % 64, 0u);
}

TEST(ProgramFile, VariablesWithoutFirstValuesStayWithout) {
  const lower::Program program = lowered(*product());
  const ProgramFile file = ProgramFile::parse(written({"k", "t", 2}, &program, {}), "test");
  EXPECT_TRUE(file.variables().empty());
  EXPECT_FALSE(file.program().ir->getMainGraph().getTensor("w")->hasTensorData());
}

TEST(ProgramFile, EqualValuesAreStoredOnce) {
  const TensorData values = ramp({64, 64}, 0);
  const std::string one = written({"k", "t", 1}, nullptr, {{"a", values}}),
                    two = written({"k", "t", 1}, nullptr,
                                  {{"a", values}, {"b", TensorData(values.info(), values.data())}});
  EXPECT_LT(two.size(), one.size() + 1024);
  const ProgramFile file = ProgramFile::parse(two, "test");
  EXPECT_EQ(file.variables().at("b"), values);
  EXPECT_NE(messageOf([&] { file.program(); }).find("holds variables only"), std::string::npos);
}

TEST(ProgramFile, AValueWithAWrongByteIsNoticedWhenItIsUsed) {
  std::string bytes = written({"k", "t", 1}, nullptr, {{"a", ramp({64}, 0)}});
  bytes.back() ^= 1;
  const ProgramFile file = ProgramFile::parse(bytes, "export 'f'");
  const std::string message = messageOf([&] { file.variables(); });
  EXPECT_NE(message.find("export 'f': the file is damaged: the checksum of a value is wrong"), std::string::npos);
}

TEST(ProgramFile, LargeValuesAreTakenFromMemoryThatHasThemAndCheckedAllTheSame) {
  const TensorData large = ramp({4, 1 << 20}, 0);  // 16 MiB
  std::string bytes = written({"k", "t", 1}, nullptr, {{"a", large}});
  const ValueTable held{{contentHash(large), large}};
  for (const ValueTable &table : {ValueTable(), held}) {
    ProgramFile file = ProgramFile::parse(bytes, "test");
    file.checkValues(2, table);
    const TensorData read = file.variables().at("a");
    EXPECT_EQ(read, large);
    EXPECT_EQ(read.data() == large.data(), !table.empty());
  }
  bytes.back() ^= 1;
  for (const ValueTable &table : {ValueTable(), held}) {
    ProgramFile file = ProgramFile::parse(bytes, "test");
    EXPECT_NE(messageOf([&] { file.checkValues(2, table); }).find("the checksum of a value is wrong"),
              std::string::npos);
  }
}

TEST(ProgramFile, ValuesOfAModelThatLieAtOddAddressesAreNotTaken) {
  const TensorData large = ramp({4, 1 << 20}, 0);
  const auto odd = std::make_shared<std::vector<char>>(static_cast<size_t>(large.nbytes()) + 128);
  char *const start = odd->data() + 68 - reinterpret_cast<uintptr_t>(odd->data()) % 64;
  std::memcpy(start, large.data(), static_cast<size_t>(large.nbytes()));
  ProgramFile file = ProgramFile::parse(written({"k", "t", 1}, nullptr, {{"a", large}}), "test");
  file.checkValues(1, {{contentHash(large), TensorData::share(large.info(), odd, start)}});
  const TensorData read = file.variables().at("a");
  EXPECT_EQ(read, large);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.data()) % 64, 0u);
}

TEST(ProgramFile, ADescriptionGivesTheLargeConstantsItsKeyWasMadeOf) {
  const auto ir = product();
  ir->getMainGraph().addConstant("large", ramp({160, 160}, 3));
  ValueTable held;
  describeProgram(*ir, compileOptionsFor(DeviceType::Cpu, 2), &held);
  const TensorData &c = ir->getMainGraph().getTensor("large")->tensorData();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held.begin()->first, contentHash(c));
  EXPECT_EQ(held.begin()->second.data(), c.data());
}

TEST(ProgramFile, KeysDependOnWhatCompilationDependsOn) {
  const auto ir = product();
  CompileOptions options = compileOptionsFor(DeviceType::Cpu, 2);
  const std::string key = describeProgram(*ir, options).key;
  EXPECT_EQ(key.size(), 32u);
  auto other = product();
  other->getMainGraph().getTensor("w")->setTensorData(ramp({4, 50}, 7));
  EXPECT_EQ(describeProgram(*other, options).key, key);  // values of variables
  other->getMainGraph().getTensor("c")->setTensorData(ramp({40, 50}, 7));
  EXPECT_NE(describeProgram(*other, options).key, key);  // values of constants
  options.threads = 3;
  EXPECT_NE(describeProgram(*ir, options).key, key);
  options.threads = 2;
  EXPECT_NE(describeProgram(*ir, compileOptionsFor(DeviceType::IpuModel, 2)).key, key);
}

}  // namespace
}  // namespace popart::session
