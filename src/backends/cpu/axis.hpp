// Reading index tensors of any integer type, and places along an axis. Index values are data: they are checked where
// they are used, and an index that is out of range points nowhere.
#pragma once
#include <cstdint>

#include <popart/datatype.hpp>
#include <popart/names.hpp>

namespace popart::cpu {

// A tensor around one axis: elements before it, along it, after it.
struct AxisSizes {
  int64_t outer = 1, length = 1, inner = 1;
};
inline AxisSizes aroundAxis(const Shape &shape, int64_t axis) {
  AxisSizes s;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto at = static_cast<int64_t>(d);
    (at < axis ? s.outer : at == axis ? s.length : s.inner) *= shape[d];
  }
  return s;
}

// Element i of an integer tensor; UINT64 values above the signed range become negative. `type` is an integer type.
inline int64_t indexAt(const void *data, DataType type, int64_t i) {
  switch (type) {
    case DataType::INT64:
      return static_cast<const int64_t *>(data)[i];
    case DataType::UINT64:
      return static_cast<int64_t>(static_cast<const uint64_t *>(data)[i]);
    case DataType::INT32:
      return static_cast<const int32_t *>(data)[i];
    case DataType::UINT32:
      return static_cast<const uint32_t *>(data)[i];
    case DataType::INT16:
      return static_cast<const int16_t *>(data)[i];
    case DataType::UINT16:
      return static_cast<const uint16_t *>(data)[i];
    case DataType::INT8:
      return static_cast<const int8_t *>(data)[i];
    default:
      return static_cast<const uint8_t *>(data)[i];
  }
}
inline bool isIndexType(DataType type) {
  switch (type) {
    case DataType::INT64:
    case DataType::UINT64:
    case DataType::INT32:
    case DataType::UINT32:
    case DataType::INT16:
    case DataType::UINT16:
    case DataType::INT8:
    case DataType::UINT8:
      return true;
    default:
      return false;
  }
}

// The place an index points at: [0, size), or -1 when out of range.
enum class NegativeIndex { kOutOfRange, kFromEnd };
inline int64_t placeOf(int64_t index, int64_t size, NegativeIndex negative) {
  if (index < 0 && negative == NegativeIndex::kFromEnd && index >= -size) index += size;
  return index >= 0 && index < size ? index : -1;
}

}  // namespace popart::cpu
