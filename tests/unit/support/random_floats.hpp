// Random operands of kernel tests: the same numbers for the same seed.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace popart::test {

// `count` numbers, uniform in [-1, 1).
inline std::vector<float> randomFloats(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  std::vector<float> result(static_cast<size_t>(count));
  for (float &value : result) value = values(engine);
  return result;
}

}  // namespace popart::test
