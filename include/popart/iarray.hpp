// IArray: a typed block of host memory in C order (PopART C++ API, "iarray"). It does not own the memory.
#pragma once
#include <cstddef>

#include <popart/tensorinfo.hpp>

namespace popart {

class IArray {
 public:
  virtual ~IArray() = default;
  virtual void *data() = 0;
  virtual DataType dataType() const = 0;
  virtual std::size_t rank() const = 0;
  virtual int64_t dim(std::size_t i) const = 0;
  virtual std::size_t nelms() const = 0;
  virtual const Shape shape() const = 0;
};

}  // namespace popart
