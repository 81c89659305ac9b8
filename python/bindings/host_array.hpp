// HostArray: a view of a Python array without copying: NumPy's, PyTorch's, anything with the buffer protocol, DLPack or
// __array_interface__. What has __array__ alone is read, and may be a copy. It keeps the memory alive as long as it
// lives; make and destroy it with the GIL held.
#pragma once
#include <nanobind/ndarray.h>

#include "bindings.hpp"

#include <popart/tensorinfo.hpp>

namespace popart::python {

class HostArray {
 public:
  // Documented: the element types PopART's Python module registers. All: also float64 and bfloat16.
  enum class Types { Documented, All };
  // Throws popart::error when the object is no array or its element type is not registered.
  HostArray(nb::handle array, Types types);
  ~HostArray();
  HostArray(HostArray &&other) noexcept;
  HostArray(const HostArray &) = delete;
  HostArray &operator=(const HostArray &) = delete;
  HostArray &operator=(HostArray &&other) noexcept;

  const TensorInfo &info() const { return info_; }
  void *data() const { return data_; }
  bool isContiguous() const { return contiguous_; }
  bool isReadOnly() const { return readOnly_; }
  // Throws popart::error naming `what` and `id` unless the elements lie in C order.
  void requireContiguous(std::string_view what, const TensorId &id) const;

 private:
  bool fromBuffer(nb::handle array, Types types);
  bool fromDlpack(nb::handle array, Types types);
  bool fromArrayInterface(nb::handle array, Types types);
  bool fromArrayMethod(nb::handle array, Types types);
  Py_buffer buffer_{};
  bool hasBuffer_ = false;
  nb::object owner_;
  nb::ndarray<nb::ro> tensor_;  // of DLPack
  TensorInfo info_;
  void *data_ = nullptr;
  bool contiguous_ = true;
  bool readOnly_ = false;
};

// A new NumPy array with a copy of `bytes` bytes at `data`.
nb::object makeNumpyArray(const TensorInfo &info, const void *data);
// Name NumPy knows the element type by ("float32"); throws popart::error when it has none.
std::string numpyName(DataType type);

}  // namespace popart::python
