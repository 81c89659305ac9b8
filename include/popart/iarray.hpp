// IArray: a typed block of host memory in C order. It does not own the memory.
#pragma once
#include <cstddef>

#include <popart/tensorinfo.hpp>

namespace popart {

class IArray {
 public:
  virtual ~IArray() = default;
  virtual void *data() = 0;                      // first element; alignment is not guaranteed
  virtual DataType dataType() const = 0;         // never UNDEFINED
  virtual std::size_t rank() const = 0;          // number of dimensions
  virtual int64_t dim(std::size_t i) const = 0;  // popart::error if i >= rank
  virtual std::size_t nelms() const = 0;         // product of the dimensions
  virtual const Shape shape() const = 0;         // outermost dimension first
};

}  // namespace popart
