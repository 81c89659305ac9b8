// Executables written by hand: the steps of which tests need the order alone.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executable/executable.hpp"

namespace popart::test {

using Steps = std::vector<executable::Step>;

inline executable::Step step(executable::Step::Kind kind, int stream = -1) {
  executable::Step s;
  s.kind = kind;
  s.stream = stream;
  return s;
}
inline executable::Step load(int stream) { return step(executable::Step::Kind::HostLoad, stream); }
inline executable::Step store(int stream) { return step(executable::Step::Kind::HostStore, stream); }
inline executable::Step kernel() { return step(executable::Step::Kind::Kernel); }

inline std::shared_ptr<const executable::Program> programOf(Steps steps) {
  return std::make_shared<executable::Program>(executable::Program{std::move(steps)});
}
inline executable::Step loop(int64_t trips, Steps body) {
  executable::Step s = step(executable::Step::Kind::Loop);
  s.in = {-1, -1};
  s.tripCount = trips;
  s.programs = {programOf(std::move(body))};
  return s;
}
inline executable::Step branch(Steps body) {
  executable::Step s = step(executable::Step::Kind::If);
  s.in = {0};
  s.programs = {programOf(std::move(body)), programOf({})};
  return s;
}

// With streams "in0", "in1" … and "out0", "out1" … of one int32 each.
inline executable::Executable executableOf(Steps steps, int inputs, int outputs) {
  executable::Executable e;
  const TensorInfo info(DataType::INT32, {});
  for (int i = 0; i < inputs; ++i) e.inputs.push_back({"in" + std::to_string(i), info});
  for (int i = 0; i < outputs; ++i) e.outputs.push_back({"out" + std::to_string(i), info});
  e.main.steps = std::move(steps);
  return e;
}

// Buffers that steps may name.
inline executable::BufferIndex arena(executable::Executable &e, int64_t bytes) {
  e.buffers.push_back({executable::Buffer::Place::Arena, bytes, 0, "", -1, 0});
  return static_cast<executable::BufferIndex>(e.buffers.size()) - 1;
}
inline executable::BufferIndex constant(executable::Executable &e, const TensorData &value) {
  e.constants.push_back({value, nullptr});
  e.buffers.push_back(
      {executable::Buffer::Place::Constant, value.nbytes(), static_cast<int64_t>(e.constants.size()) - 1, "", -1, 0});
  return static_cast<executable::BufferIndex>(e.buffers.size()) - 1;
}

}  // namespace popart::test
