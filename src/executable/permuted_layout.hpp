// PermutedLayout: a layout that permutes the elements and pads with zeros. The derived class defines the permutation;
// sizes and both conversions follow from it.
#pragma once
#include <cstring>

#include <popart/error.hpp>

#include "executable/layout.hpp"

namespace popart::executable {

// Derived has, for a tensor's info,
//   bool describes(info) const               whether the layout has this shape
//   int64_t places(info) const               number of stored elements, including padding
//   void forEach(info, move) const           calls move(logical, place) for each element, `logical` in C order
// Base: Layout or a class between.
template <class Derived, class Base = Layout>
class PermutedLayout : public Base {
 public:
  using Base::Base;

  int64_t bytes(const TensorInfo &info) const final {
    check(derived().describes(info), "layout {} does not describe a tensor of shape {}", this->name(), info.shape());
    return derived().places(info) * getDataTypeInfo(info.dataType()).nbytes;
  }
  void pack(const TensorInfo &info, const void *plain, void *stored) const final {
    const int64_t size = bytes(info);
    if (size > 0) std::memset(stored, 0, static_cast<size_t>(size));  // memory of size 0 may be null
    withElements(info, [&]<class T>(T) {
      const T *from = static_cast<const T *>(plain);
      T *to = static_cast<T *>(stored);
      derived().forEach(info, [&](int64_t logical, int64_t place) { to[place] = from[logical]; });
    });
  }
  void unpack(const TensorInfo &info, const void *stored, void *plain) const final {
    withElements(info, [&]<class T>(T) {
      const T *from = static_cast<const T *>(stored);
      T *to = static_cast<T *>(plain);
      derived().forEach(info, [&](int64_t logical, int64_t place) { to[logical] = from[place]; });
    });
  }

 private:
  const Derived &derived() const { return static_cast<const Derived &>(*this); }

  template <class F>
  void withElements(const TensorInfo &info, F &&f) const {
    switch (getDataTypeInfo(info.dataType()).nbytes) {
      case 1:
        return f(uint8_t{});
      case 2:
        return f(uint16_t{});
      case 4:
        return f(uint32_t{});
      case 8:
        return f(uint64_t{});
      default:
        throw internal_error("layout {}: it cannot hold elements of type {}", this->name(), info.dataType());
    }
  }
};

}  // namespace popart::executable
