// Reads the wire format of protobuf (protobuf.dev/programming-guides/encoding): a key and a value for each field. Only
// values with a length can be messages or bytes. Everything unknown is left to the parser.
#include "onnx/payloads.hpp"

#include <cstdlib>
#include <memory>
#include <new>

#include "base/hash.hpp"
#include "base/threads/for_each_sized.hpp"
#include "base/threads/processors.hpp"

namespace popart::onnx {
namespace {

constexpr int64_t kAlign = 64;

constexpr size_t kLargePayload = size_t{64} << 10;
constexpr uint64_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;  // field numbers of onnx.proto

enum WireType : uint64_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

struct Field {
  uint64_t number;
  WireType type;
  std::string_view whole, payload;  // with and without key and length
};

bool readVarint(std::string_view &rest, uint64_t &value) {
  value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

bool readField(std::string_view &rest, Field &field) {
  const std::string_view start = rest;
  uint64_t key, length;
  if (!readVarint(rest, key)) return false;
  field.number = key >> 3, field.type = static_cast<WireType>(key & 7);
  switch (field.type) {
    case Varint:
      length = 0;
      if (uint64_t value; !readVarint(rest, value)) return false;
      break;
    case Fixed64:
      length = 8;
      break;
    case Fixed32:
      length = 4;
      break;
    case Bytes:
      if (!readVarint(rest, length)) return false;
      break;
    default:
      return false;
  }
  if (length > rest.size()) return false;
  field.payload = rest.substr(0, length);
  rest.remove_prefix(length);
  field.whole = start.substr(0, start.size() - rest.size());
  return true;
}

// Calls visit(field) for each field; returns false when the message cannot be read or `visit` returns false.
template <class Visit>
bool forEachField(std::string_view message, const Visit &visit) {
  Field field;
  while (!message.empty())
    if (!readField(message, field) || !visit(field)) return false;
  return true;
}

void appendVarint(std::string &to, uint64_t value) {
  for (; value >= 128; value >>= 7) to += static_cast<char>(value | 128);
  to += static_cast<char>(value);
}

void appendMessage(std::string &to, uint64_t number, std::string_view message) {
  appendVarint(to, number << 3 | Bytes);
  appendVarint(to, message.size());
  to += message;
}

// The tensor without its raw data; `raw` is empty if they are small.
bool stripTensor(std::string_view tensor, std::string &message, std::string_view &raw) {
  return forEachField(tensor, [&](const Field &field) {
    if (field.number != kTensorRawData) {
      message += field.whole;
      return true;
    }
    if (field.type != Bytes || !raw.empty()) return false;
    if (field.payload.size() < kLargePayload)
      message += field.whole;
    else
      raw = field.payload;
    return true;
  });
}

bool stripGraph(std::string_view graph, std::string &message, std::vector<std::pair<int, std::string_view>> &raw) {
  int initializer = 0;
  std::string tensor;
  return forEachField(graph, [&](const Field &field) {
    if (field.number != kGraphInitializer || field.type != Bytes) {
      message += field.whole;
      return field.number != kGraphInitializer;
    }
    tensor.clear();
    std::string_view bytes;
    if (!stripTensor(field.payload, tensor, bytes)) return false;
    if (!bytes.empty()) raw.emplace_back(initializer, bytes);
    appendMessage(message, kGraphInitializer, tensor);
    ++initializer;
    return true;
  });
}

bool strip(std::string_view model, StrippedModel &stripped) {
  bool hasGraph = false;
  std::string graph;
  return forEachField(model, [&](const Field &field) {
    if (field.number != kModelGraph) {
      stripped.message += field.whole;
      return true;
    }
    if (hasGraph || field.type != Bytes || !stripGraph(field.payload, graph, stripped.raw)) return false;
    hasGraph = true;
    appendMessage(stripped.message, kModelGraph, graph);
    return true;
  });
}

// Memory of a multiple of 64 bytes, aligned to 64. Large blocks use large pages; for small ones, new pages from the
// system would take longer than copying, and the heap has pages of earlier sessions.
std::shared_ptr<char> memoryFor(int64_t bytes) {
  constexpr int64_t kFewBytes = int64_t{4} << 20;
  if (bytes >= kFewBytes) {
    const auto block = std::make_shared<TensorData>(TensorInfo(DataType::UINT8, {bytes}));
    return {block, static_cast<char *>(block->mutableData())};
  }
  std::shared_ptr<char> block(static_cast<char *>(std::aligned_alloc(kAlign, static_cast<size_t>(bytes))), std::free);
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

StrippedModel stripPayloads(std::string_view model) {
  StrippedModel stripped;
  if (model.size() < kLargePayload || !strip(model, stripped)) return {};
  return stripped;
}

std::vector<Payload> copyPayloads(const std::vector<std::pair<int, std::string_view>> &raw) {
  std::vector<int64_t> sizes, offsets;
  int64_t end = 0;
  for (const auto &entry : raw) {
    const auto size = static_cast<int64_t>(entry.second.size());
    sizes.push_back(size), offsets.push_back(end);
    end += (size + kAlign - 1) / kAlign * kAlign;
  }
  const std::shared_ptr<char> memory = memoryFor(end);
  char *const start = memory.get();
  std::vector<Payload> payloads(raw.size());
  // Enough threads to keep memory busy; for little data, reading the limits of the process takes longer than copying.
  const int threads = threadsWorth(end, 2) > 1 ? processorLimits().threads() : 1;
  forEachSized(sizes, threads, [&](size_t i) {
    char *const to = start + offsets[i];
    payloads[i].hash = copyAndHash(to, raw[i].second.data(), raw[i].second.size());
    payloads[i].bytes = TensorData::share(TensorInfo(DataType::UINT8, {sizes[i]}), memory, to);
  });
  return payloads;
}

}  // namespace popart::onnx
