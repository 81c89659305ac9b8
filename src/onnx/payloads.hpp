// Large raw values of initializers, which are taken out of a serialised model before it is parsed. Several threads copy
// them directly to their final memory, in large pages, and hash them on the way.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <popart/tensordata.hpp>

namespace popart::onnx {

struct Payload {
  TensorData bytes;   // UINT8, at a multiple of 64 bytes
  uint64_t hash = 0;  // XXH3 of them
};

// A serialised ModelProto without the large `raw_data` fields of its main graph's initializers.
struct StrippedModel {
  std::string message;
  std::vector<std::pair<int, std::string_view>> raw;  // index of the initializer, its bytes in the given message
};

// Takes out fields of 64 KiB and more. Takes out nothing when the message is not in the form that writers of models use
// (several main graphs, a repeated field, groups, damage): the parser then reports the problem.
StrippedModel stripPayloads(std::string_view model);

// Copies of the bytes, in the same order.
std::vector<Payload> copyPayloads(const std::vector<std::pair<int, std::string_view>> &raw);

}  // namespace popart::onnx
