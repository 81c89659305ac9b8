// Typed 32-bit handles for ops and tensors inside one graph. Stable for the life of the graph; never reused.
#pragma once
#include <cstdint>
#include <functional>

namespace popart {

// A default-constructed index is invalid: "none". Indices of different Tags do not convert to each other.
template <class Tag>
struct TypedIndex {
  static constexpr uint32_t kInvalid = 0xffffffffu;  // value of "none"
  uint32_t value = kInvalid;                         // position in the graph's storage
  constexpr bool valid() const { return value != kInvalid; }
  constexpr auto operator<=>(const TypedIndex &) const = default;
};
// Handles that Graph returns.
using TensorIndex = TypedIndex<struct TensorTag>;
using OpIndex = TypedIndex<struct OpTag>;

}  // namespace popart

template <class Tag>
struct std::hash<popart::TypedIndex<Tag>> {
  size_t operator()(popart::TypedIndex<Tag> i) const { return i.value; }
};
