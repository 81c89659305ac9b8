// Mutations of serialised models: bytes (truncation, bit flips, splices, overlong numbers) and fields (dimensions,
// types, names, edges, cycles, attributes, external data, nesting). What is done depends on the random numbers alone.
#pragma once
#include <cstdint>
#include <random>
#include <string>

namespace popart::fuzz {

using Random = std::mt19937_64;

// Uniform in [0, end).
inline int64_t below(Random &random, int64_t end) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
}

// One to three mutations of `bytes`; `other` is another model, a source of parts.
std::string damaged(const std::string &bytes, const std::string &other, Random &random);

}  // namespace popart::fuzz
