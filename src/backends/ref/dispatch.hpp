// Type dispatch for reference kernels (see ref.hpp): calls f(T{}) for the C++ type T of an element type. Types outside
// the list are refused by the operator's row before a kernel sees them: they throw internal_error.
#pragma once
#include <popart/error.hpp>

#include "base/element_types.hpp"

namespace popart::ref {

template <class List, class F>
void dispatch(List list, DataType type, F &&f) {
  if (!forElement(list, type, f)) throw internal_error("reference kernel: no case for element type {}", type);
}
template <class F>
void dispatchFloat(DataType type, F &&f) {
  dispatch(kFloatElements, type, f);
}
template <class F>
void dispatchNumeric(DataType type, F &&f) {
  dispatch(kNumericElements, type, f);
}
template <class F>
void dispatchInteger(DataType type, F &&f) {
  dispatch(kIntegerElements, type, f);
}
template <class F>
void dispatchAll(DataType type, F &&f) {
  dispatch(kRealElements, type, f);
}

// Types for kernels that move elements unchanged: T is an integer, or Bytes16, of the element's size.
struct Bytes16 {
  uint64_t low, high;
};
template <class F>
void dispatchMoved(DataType type, F &&f) {
  const int bytes = getDataTypeInfo(type).nbytes;
  if (bytes == sizeof(Bytes16)) return f(Bytes16{});
  if (!forWidth(bytes, f)) throw internal_error("reference kernel: elements of type {} cannot be moved", type);
}

template <class T>
using AccumulatorT = SumOf<T>;

}  // namespace popart::ref
