// Reading of Python arrays through the buffer protocol; types without a buffer format (bfloat16) through
// __array_interface__.
#include "host_array.hpp"

#include <cstring>

namespace popart::python {
namespace {

DataType typeOfFormat(std::string_view format) {
  if (!format.empty() && (format[0] == '=' || format[0] == '<' || format[0] == '@')) format.remove_prefix(1);
  if (format == "T{B:float8_143:}") return DataType::FLOAT8_143;
  if (format == "T{B:float8_152:}") return DataType::FLOAT8_152;
  if (format.size() != 1) return DataType::UNDEFINED;
  switch (format[0]) {
    case 'f':
      return DataType::FLOAT;
    case 'e':
      return DataType::FLOAT16;
    case 'd':
      return DataType::DOUBLE;
    case '?':
      return DataType::BOOL;
    case 'b':
      return DataType::INT8;
    case 'B':
      return DataType::UINT8;
    case 'h':
      return DataType::INT16;
    case 'H':
      return DataType::UINT16;
    case 'i':
      return DataType::INT32;
    case 'I':
      return DataType::UINT32;
    case 'l':
    case 'q':
      return DataType::INT64;
    case 'L':
    case 'Q':
      return DataType::UINT64;
    default:
      return DataType::UNDEFINED;
  }
}

std::string typeName(nb::handle array) {
  return nb::hasattr(array, "dtype") ? pyText(array.attr("dtype")) : pyText(array.type());
}

}  // namespace

HostArray::HostArray(nb::handle array, Types types) : owner_(nb::borrow(array)) {
  if (!fromBuffer(array, types)) fromArrayInterface(array, types);
}

HostArray::HostArray(HostArray &&other) noexcept
    : buffer_(other.buffer_),
      hasBuffer_(std::exchange(other.hasBuffer_, false)),
      owner_(std::move(other.owner_)),
      info_(std::move(other.info_)),
      data_(other.data_),
      contiguous_(other.contiguous_),
      readOnly_(other.readOnly_) {}

HostArray &HostArray::operator=(HostArray &&other) noexcept {
  if (this == &other) return *this;
  if (hasBuffer_) PyBuffer_Release(&buffer_);
  buffer_ = other.buffer_;
  hasBuffer_ = std::exchange(other.hasBuffer_, false);
  owner_ = std::move(other.owner_);
  info_ = std::move(other.info_);
  data_ = other.data_;
  contiguous_ = other.contiguous_;
  readOnly_ = other.readOnly_;
  return *this;
}

HostArray::~HostArray() {
  if (hasBuffer_) PyBuffer_Release(&buffer_);
}

bool HostArray::fromBuffer(nb::handle array, Types types) {
  if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  hasBuffer_ = true;
  const DataType type = typeOfFormat(buffer_.format ? buffer_.format : "B");
  if (type == DataType::UNDEFINED || (types == Types::Documented && type == DataType::DOUBLE))
    throw error(
        "array of type '{}': there is no numpy type of that name registered. Convert it, for example with "
        "astype(numpy.float32)",
        typeName(array));
  info_.set(type, Shape(buffer_.shape, buffer_.shape + buffer_.ndim));
  data_ = buffer_.buf;
  readOnly_ = buffer_.readonly;
  contiguous_ = PyBuffer_IsContiguous(&buffer_, 'C');
  return true;
}

void HostArray::fromArrayInterface(nb::handle array, Types types) {
  if (!nb::hasattr(array, "__array_interface__")) throw error("expected a NumPy array: got {}", typeName(array));
  const std::string name = typeName(array);
  if (types == Types::Documented || name != "bfloat16")
    throw error(
        "array of type '{}': there is no numpy type of that name registered. Convert it, for example with "
        "astype(numpy.float32)",
        name);
  nb::object face = array.attr("__array_interface__");
  info_.set(DataType::BFLOAT16, nb::cast<Shape>(nb::list(face["shape"])));
  nb::tuple pointer = nb::cast<nb::tuple>(face["data"]);
  data_ = reinterpret_cast<void *>(nb::cast<uintptr_t>(pointer[0]));
  readOnly_ = nb::cast<bool>(pointer[1]);
  contiguous_ = nb::cast<bool>(array.attr("flags")["C_CONTIGUOUS"]);
}

void HostArray::requireContiguous(std::string_view what, const TensorId &id) const {
  if (!contiguous_)
    throw error(
        "{} '{}': the array is not C-contiguous. Pass numpy.ascontiguousarray(array); nothing is copied behind your "
        "back",
        what, id);
}

std::string numpyName(DataType type) {
  if (type == DataType::STRING || type == DataType::UNDEFINED) throw error("NumPy has no element type for {}", type);
  return getDataTypeInfo(type).lcase;
}

nb::object makeNumpyArray(const TensorInfo &info, const void *data) {
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object dtype;
  const DataType type = info.dataType();
  if (type == DataType::BFLOAT16) {
    dtype = nb::module_::import_("ml_dtypes").attr("bfloat16");
  } else if (type == DataType::FLOAT8_143 || type == DataType::FLOAT8_152) {
    nb::list field;
    field.append(nb::make_tuple(numpyName(type), "u1"));
    dtype = numpy.attr("dtype")(field);
  } else {
    dtype = nb::str(numpyName(type).c_str());
  }
  nb::list shape;
  for (int64_t d : info.shape()) shape.append(d);
  nb::object array = numpy.attr("empty")(nb::tuple(shape), dtype);
  const auto address = nb::cast<uintptr_t>(array.attr("ctypes").attr("data"));
  if (info.nbytes() > 0) std::memcpy(reinterpret_cast<void *>(address), data, static_cast<size_t>(info.nbytes()));
  return array;
}

}  // namespace popart::python
