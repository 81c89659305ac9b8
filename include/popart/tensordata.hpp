// TensorData: host values of a constant or variable. Shared, copy-on-write: copies are cheap, and mutableData() first
// makes a private copy of the bytes. The bytes may be owned or belong to a mapped file (read only until the first
// write).
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include <popart/tensorinfo.hpp>

namespace popart {

// Values of one type and shape in C order; a default-constructed one is empty. Several threads may read copies.
class TensorData {
 public:
  TensorData() = default;
  // Zero filled. Large ones need no memory until mutableData() is called.
  explicit TensorData(const TensorInfo &info);
  TensorData(const TensorInfo &info, const void *source);  // copies info.nbytes() bytes
  // Shares memory that `owner` keeps alive (a mapped file, or a NumPy array that the library does not write).
  static TensorData share(const TensorInfo &info, std::shared_ptr<const void> owner, const void *data);

  // Copies values of a C++ type; `values` must have the shape's number of elements, which is not checked.
  template <class T>
  static TensorData of(const Shape &shape, std::span<const T> values) {
    return TensorData(TensorInfo(getDataType<T>(), shape), values.data());
  }
  template <class T>
  static TensorData scalar(T value) {
    return TensorData(TensorInfo(getDataType<T>(), {}), &value);
  }

  // One value per element, converted to info's type: floats are rounded to nearest even, integers truncate toward zero
  // and must be in range, BOOL is "is not 0"; small types as smallCode() of base. Throws popart::error for another
  // number of values and for types without real values.
  static TensorData fromDoubles(const TensorInfo &info, std::span<const double> values);

  bool empty() const { return data_ == nullptr; }
  // compat: programs that treat Tensor::tensorData() as a pointer.
  const TensorData *operator->() const { return this; }
  const TensorInfo &info() const { return info_; }
  const void *data() const { return data_; }
  void *mutableData();  // private to this object; writing it does not change copies
  int64_t nbytes() const { return info_.nbytes(); }
  bool isUntouchedZeros() const { return untouchedZeros_; }  // large, zero filled and without memory
  // Reinterprets the shape; the element count must be the same.
  TensorData reshaped(const Shape &shape) const;
  // Integer values of an INT32/INT64 (or smaller integer) tensor. Throws popart::error for other types.
  std::vector<int64_t> asInts() const;
  std::vector<double> asDoubles() const;       // any real type
  bool operator==(const TensorData &o) const;  // same info, same bytes

 private:
  TensorInfo info_;
  std::shared_ptr<const void> owner_;
  const void *data_ = nullptr;
  bool writable_ = false;
  bool untouchedZeros_ = false;
};

}  // namespace popart
