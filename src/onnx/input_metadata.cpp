// See input_metadata.hpp.
#include "onnx/input_metadata.hpp"

#include <charconv>
#include <sstream>
#include <string>

#include <popart/error.hpp>

#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {

std::optional<std::vector<int64_t>> metadataNumbers(const onnx_proto::ValueInfoProto &input, std::string_view key) {
  std::optional<std::vector<int64_t>> numbers;
  for (const auto &entry : input.metadata_props()) {
    if (entry.key() != key) continue;
    numbers.emplace();
    std::stringstream text(entry.value());
    for (std::string part; std::getline(text, part, ',');) {
      int64_t number = 0;
      const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), number);
      check(failure == std::errc() && end == part.data() + part.size(),
            "Input '{}': bad metadata '{}': got '{}', expected whole numbers", input.name(), key, entry.value());
      numbers->push_back(number);
    }
  }
  return numbers;
}

}  // namespace popart::onnx
