// Large raw values of initializers, taken out of a serialised model before it is parsed: they go to their final memory
// at once, in large pages and by several threads, and are hashed on the way.
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

// A serialised ModelProto whose main graph's initializers lack their large `raw_data` fields.
struct StrippedModel {
  std::string message;
  std::vector<std::pair<int, std::string_view>> raw;  // index of the initializer, its bytes in the given message
};

// Takes out fields of 64 KiB and more; none when there are none, and when the message is not laid out as writers of
// models do it (several main graphs, a field twice, groups, damage): what the parser says then stands.
StrippedModel stripPayloads(std::string_view model);

// Copies of the bytes, in their order.
std::vector<Payload> copyPayloads(const std::vector<std::pair<int, std::string_view>> &raw);

}  // namespace popart::onnx
