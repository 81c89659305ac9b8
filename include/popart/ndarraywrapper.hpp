// NDArrayWrapper: an IArray over memory of element type T that the caller owns.
#pragma once
#include <ostream>
#include <vector>

#include <popart/error.hpp>
#include <popart/half.hpp>
#include <popart/iarray.hpp>
#include <popart/tensor.hpp>

namespace popart {

// The wrapper; T must be the C++ type of the info's element type, which is not checked.
template <typename T>
class NDArrayWrapper : public IArray {
 public:
  NDArrayWrapper(T *data, const TensorInfo &info) : info_(info), data_(data) {}
  NDArrayWrapper(T *data, const std::vector<int64_t> &shape) : info_(getDataType<T>(), shape), data_(data) {}
  NDArrayWrapper(Tensor &tensor)
      : info_(tensor.info), data_(static_cast<T *>(tensor.mutableTensorData().mutableData())) {}

  void *data() override { return data_; }
  DataType dataType() const override { return info_.dataType(); }
  std::size_t rank() const override { return static_cast<std::size_t>(info_.rank()); }
  int64_t dim(std::size_t i) const override { return info_.dim(static_cast<int>(i)); }
  std::size_t nelms() const override { return static_cast<std::size_t>(info_.nelms()); }
  const Shape shape() const override { return info_.shape(); }

  T &operator[](int64_t flatIndex) { return data_[flatIndex]; }
  const T &operator[](int64_t flatIndex) const { return data_[flatIndex]; }
  T &operator[](const std::vector<int64_t> &indices) { return data_[flatten(indices)]; }
  const T &operator[](const std::vector<int64_t> &indices) const { return data_[flatten(indices)]; }

  // Position in C order. Throws popart::error if the number of indices is not the rank.
  int64_t flatten(const std::vector<int64_t> &indices) const {
    if (indices.size() != rank()) throw error("NDArrayWrapper: got {} indices, expected {}", indices.size(), rank());
    int64_t flat = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) flat = flat * info_.shape()[i] + indices[i];
    return flat;
  }
  std::vector<int64_t> unflatten(int64_t flatIndex) const {
    std::vector<int64_t> indices(rank());
    for (std::size_t i = rank(); i-- > 0;) {
      indices[i] = flatIndex % info_.shape()[i];
      flatIndex /= info_.shape()[i];
    }
    return indices;
  }

 private:
  TensorInfo info_;
  T *data_;
};

// "{a, b, …}"
template <typename T>
std::ostream &operator<<(std::ostream &os, const NDArrayWrapper<T> &array) {
  os << "{";
  for (std::size_t i = 0; i < array.nelms(); ++i) os << (i ? ", " : "") << array[static_cast<int64_t>(i)];
  return os << "}";
}

}  // namespace popart
