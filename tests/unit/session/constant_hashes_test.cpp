// Hashes for keys: each constant is read once, and a changed one is another one.
#include "ir/constant_hashes.hpp"

#include <gtest/gtest.h>

#include "api/compile_options.hpp"
#include "ir/text.hpp"
#include "session/compiled_program.hpp"

namespace popart::session {
namespace {

TensorData ramp(int64_t elements, float start) {
  TensorData data(TensorInfo(DataType::FLOAT, {elements}));
  auto *values = static_cast<float *>(data.mutableData());
  for (int64_t i = 0; i < elements; ++i) values[i] = start + static_cast<float>(i);
  return data;
}

constexpr int64_t kLarge = 1 << 15;

TEST(ConstantHashes, ConstantsAreReadOnceDuringOtherWork) {
  const auto memory = std::make_shared<TensorData>(ramp(kLarge, 1));
  const TensorData first = TensorData::share(memory->info(), memory, memory->data()), other = ramp(kLarge, 2);
  ConstantHashes hashes;
  bool isDone = false;
  const uint64_t before = contentHash(*memory), others = contentHash(other);
  const auto beside = [&] { isDone = true; };
  EXPECT_EQ(hashes.of({first, other, first}, 2, beside), (std::vector<uint64_t>{before, others, before}));
  EXPECT_TRUE(isDone);
  static_cast<float *>(memory->mutableData())[5] = 0;  // behind its back: nobody reads it again
  ASSERT_EQ(memory->data(), first.data());
  EXPECT_NE(contentHash(*memory), before);
  EXPECT_EQ(hashes.of({first}, 2, beside), std::vector<uint64_t>{before});
}

TEST(ConstantHashes, KeysTellConstantsAndTheirOrderApart) {
  const auto keyOf = [](float x, float y) {
    Ir ir;
    ir.getMainGraph().addConstant("x", ramp(kLarge, x));
    ir.getMainGraph().addConstant("y", ramp(kLarge, y));
    return describeProgram(ir, compileOptionsFor(DeviceType::Cpu, 2)).key;
  };
  EXPECT_EQ(keyOf(1, 2), keyOf(1, 2));
  EXPECT_NE(keyOf(1, 2), keyOf(2, 1));
  EXPECT_NE(keyOf(1, 2), keyOf(1, 1));
}

TEST(ConstantHashes, WritingAConstantThatWasReadMakesAnotherOne) {
  Ir ir;
  Tensor &c = ir.getMainGraph().tensor(ir.getMainGraph().addConstant("c", ramp(kLarge, 1)));
  ConstantHashes hashes;
  CompileOptions options = compileOptionsFor(DeviceType::Cpu, 2);
  const std::string plain = describeProgram(ir, options).key;
  options.constants = &hashes;
  EXPECT_EQ(describeProgram(ir, options).key, plain);
  EXPECT_EQ(describeProgram(ir, options).key, plain);
  const void *const read = c.tensorData().data();
  TensorData data = c.tensorData();
  c.setTensorData({});
  static_cast<float *>(data.mutableData())[5] = 0;
  EXPECT_NE(data.data(), read);
  c.setTensorData(std::move(data));
  const std::string changed = describeProgram(ir, options).key;
  EXPECT_NE(changed, plain);
  options.constants = nullptr;
  EXPECT_EQ(describeProgram(ir, options).key, changed);
}

}  // namespace
}  // namespace popart::session
