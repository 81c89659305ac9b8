// Reads index tensors of any integer type, as positions along an axis. Index values are data, so they are checked when
// they are used; an index out of range selects nothing and is reported.
#pragma once
#include <algorithm>
#include <cstdint>

#include <popart/op.hpp>

#include "executable/host_kernel.hpp"

namespace popart::cpu {

// Sizes of a tensor around one axis: elements before it, along it, after it.
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

// Element i of an integer tensor; UINT64 values above the signed range become its end. `type` is an integer type.
inline int64_t indexAt(const void *data, DataType type, int64_t i) {
  switch (type) {
    case DataType::INT64:
      return static_cast<const int64_t *>(data)[i];
    case DataType::UINT64:
      return static_cast<int64_t>(std::min<uint64_t>(static_cast<const uint64_t *>(data)[i], INT64_MAX));
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

// Index results are INT64 or INT32.
inline void setIndex(void *data, DataType type, int64_t i, int64_t value) {
  if (type == DataType::INT64)
    static_cast<int64_t *>(data)[i] = value;
  else
    static_cast<int32_t *>(data)[i] = static_cast<int32_t>(value);
}

// The position that an index selects: in [0, size), or -1 if it is out of range.
enum class NegativeIndex { kOutOfRange, kFromEnd };
inline int64_t placeOf(int64_t index, int64_t size, NegativeIndex negative) {
  if (index < 0 && negative == NegativeIndex::kFromEnd && index >= -size) index += size;
  return index >= 0 && index < size ? index : -1;
}

// The input of a kernel that is its index tensor.
struct IndexOperand {
  int operand = 1;
  DataType type = DataType::INT64;
  NegativeIndex negative = NegativeIndex::kFromEnd;
  bool reports = true;  // false: the operator defines indices out of range

  static IndexOperand of(const executable::KernelRequest &request, int operand = 1) {
    return {operand, request.inputs[static_cast<size_t>(operand)].info.dataType(), NegativeIndex::kFromEnd, true};
  }
  // The position in [0, size) that index i selects; reports an index out of range and returns -1.
  int64_t place(const executable::KernelArgs &args, int64_t i, int64_t size) const noexcept {
    const int64_t index = indexAt(args.in[operand], type, i), at = placeOf(index, size, negative);
    if (at < 0 && reports) [[unlikely]]
      report(args.context, i, index, size);
    return at;
  }
  static constexpr int64_t kAtOnce = 256;  // least number of indices for which places() pays off
  // The same for `count` indices: at[k] of index first + k * step, or first + steps[k].
  void places(const executable::KernelArgs &args, int64_t first, int64_t step, int64_t count, int64_t size,
              int64_t *at) const noexcept;
  void places(const executable::KernelArgs &args, int64_t first, const int64_t *steps, int64_t count, int64_t size,
              int64_t *at) const noexcept;

 private:
  template <class Step>
  void findPlaces(const executable::KernelArgs &args, int64_t first, Step step, int64_t count, int64_t size,
                  int64_t *at) const noexcept;
  void report(executable::RunContext &context, int64_t i, int64_t index, int64_t size) const noexcept {
    context.report(
        {executable::FailureKind::Index, operand, i, index, negative == NegativeIndex::kFromEnd ? -size : 0, size - 1});
  }
};

}  // namespace popart::cpu
