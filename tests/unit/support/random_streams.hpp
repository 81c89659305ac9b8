// Streams of a test's run: random numbers in, what is written kept.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "executable/executable.hpp"
#include "random_floats.hpp"
#include "runtime/engine.hpp"

namespace popart::test {

// For executables whose streams are FLOAT. The same numbers for every executable with these inputs.
class RandomStreams final : public runtime::StreamSource {
 public:
  explicit RandomStreams(const executable::Executable &e) : executable_(e) {
    for (size_t i = 0; i < e.inputs.size(); ++i)
      inputs_.push_back(randomFloats(e.inputs[i].info.nelms(), 100 + static_cast<unsigned>(i)));
  }
  const void *input(int s, int64_t) override { return inputs_[static_cast<size_t>(s)].data(); }
  void *output(int s, int64_t bytes) override {
    std::vector<float> &values = outputs[executable_.outputs[static_cast<size_t>(s)].id];
    values.resize(static_cast<size_t>(bytes) / sizeof(float));
    return values.data();
  }
  std::map<std::string, std::vector<float>> outputs;  // by stream

 private:
  const executable::Executable &executable_;
  std::vector<std::vector<float>> inputs_;
};

}  // namespace popart::test
