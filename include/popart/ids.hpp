// Typed 32-bit handles for ops and tensors inside one graph. Stable for the life of the graph; never reused.
#pragma once
#include <cstdint>
#include <functional>

namespace popart {

template <class Tag>
struct TypedIndex {
  static constexpr uint32_t kInvalid = 0xffffffffu;
  uint32_t value = kInvalid;
  constexpr bool valid() const { return value != kInvalid; }
  constexpr auto operator<=>(const TypedIndex &) const = default;
};
using TensorIndex = TypedIndex<struct TensorTag>;
using OpIndex = TypedIndex<struct OpTag>;

}  // namespace popart

template <class Tag>
struct std::hash<popart::TypedIndex<Tag>> {
  size_t operator()(popart::TypedIndex<Tag> i) const { return i.value; }
};
