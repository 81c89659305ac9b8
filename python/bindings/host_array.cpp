// Reading of Python arrays: through the buffer protocol; without one, or without a buffer format for the type (those of
// the package ml_dtypes), through DLPack or __array_interface__; last through __array__, read-only, as that may have
// made a copy.
#include "host_array.hpp"

#include <cstring>

#include <popart/opdef.hpp>

namespace popart::python {
namespace {

DataType typeOfFormat(std::string_view format) {
  if (!format.empty() && (format[0] == '=' || format[0] == '<' || format[0] == '@')) format.remove_prefix(1);
  if (format == "T{B:float8_143:}") return DataType::FLOAT8_143;
  if (format == "T{B:float8_152:}") return DataType::FLOAT8_152;
  if (format == "Zf") return DataType::COMPLEX64;
  if (format == "Zd") return DataType::COMPLEX128;
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

// Of dlpack.h since version 1.1.
DataType float8OfDlpack(nb::dlpack::dtype type) {
  constexpr std::pair<int, DataType> kCodes[] = {{10, DataType::FLOAT8E4M3FN},
                                                 {11, DataType::FLOAT8_143},
                                                 {12, DataType::FLOAT8E5M2},
                                                 {13, DataType::FLOAT8_152},
                                                 {14, DataType::FLOAT8E8M0}};
  for (const auto &[code, found] : kCodes)
    if (code == type.code && type.bits == 8) return found;
  return DataType::UNDEFINED;
}

DataType typeOfDlpack(nb::dlpack::dtype type) {
  using Code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return DataType::UNDEFINED;
  const auto ofBits = [&](std::initializer_list<std::pair<int, DataType>> known) {
    for (const auto &[bits, found] : known)
      if (bits == type.bits) return found;
    return DataType::UNDEFINED;
  };
  switch (static_cast<Code>(type.code)) {
    case Code::Float:
      return ofBits({{16, DataType::FLOAT16}, {32, DataType::FLOAT}, {64, DataType::DOUBLE}});
    case Code::Bfloat:
      return ofBits({{16, DataType::BFLOAT16}});
    case Code::Bool:
      return ofBits({{8, DataType::BOOL}});
    case Code::Int:
      return ofBits({{8, DataType::INT8}, {16, DataType::INT16}, {32, DataType::INT32}, {64, DataType::INT64}});
    case Code::UInt:
      return ofBits({{8, DataType::UINT8}, {16, DataType::UINT16}, {32, DataType::UINT32}, {64, DataType::UINT64}});
    case Code::Complex:
      return ofBits({{64, DataType::COMPLEX64}, {128, DataType::COMPLEX128}});
    default:
      return float8OfDlpack(type);
  }
}

std::string typeName(nb::handle array) {
  return nb::hasattr(array, "dtype") ? pyText(array.attr("dtype")) : pyText(array.type());
}

bool isOfMlDtypes(DataType type) { return (typeBit(type) & kSmallTypes) != 0 || type == DataType::BFLOAT16; }

// Of ml_dtypes; UNDEFINED for other names.
DataType typeOfName(const std::string &name) {
  try {
    const DataType type = dataTypeFromString(name);
    return isOfMlDtypes(type) ? type : DataType::UNDEFINED;
  } catch (const error &) {
    return DataType::UNDEFINED;
  }
}

// `type`, unless it is none that the module registers.
DataType registered(DataType type, HostArray::Types types, nb::handle array) {
  const bool isRare = type == DataType::DOUBLE || type == DataType::BFLOAT16;
  if (type == DataType::UNDEFINED || (types == HostArray::Types::Documented && isRare))
    throw error(
        "array of type '{}': there is no numpy type of that name registered. Convert it, for example with "
        "astype(numpy.float32)",
        typeName(array));
  return type;
}

}  // namespace

HostArray::HostArray(nb::handle array, Types types) : owner_(nb::borrow(array)) {
  if (fromBuffer(array, types) || fromDlpack(array, types) || fromArrayInterface(array, types)) return;
  if (!fromArrayMethod(array, types)) throw error("expected a NumPy array: got {}", typeName(array));
}

HostArray::HostArray(HostArray &&other) noexcept
    : buffer_(other.buffer_),
      hasBuffer_(std::exchange(other.hasBuffer_, false)),
      owner_(std::move(other.owner_)),
      tensor_(std::move(other.tensor_)),
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
  tensor_ = std::move(other.tensor_);
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
  const DataType type = registered(typeOfFormat(buffer_.format ? buffer_.format : "B"), types, array);
  info_.set(type, Shape(buffer_.shape, buffer_.shape + buffer_.ndim));
  data_ = buffer_.buf;
  readOnly_ = buffer_.readonly;
  contiguous_ = PyBuffer_IsContiguous(&buffer_, 'C');
  return true;
}

bool HostArray::fromDlpack(nb::handle array, Types types) {
  if (nb::hasattr(array, "__array_interface__") || !nb::hasattr(array, "__dlpack__")) return false;  // of ml_dtypes
  // PyTorch lends no memory of a tensor that needs a gradient; detached, it is the same memory.
  if (nb::hasattr(array, "requires_grad") && nb::hasattr(array, "detach")) owner_ = array.attr("detach")();
  nb::ndarray<nb::device::cpu> writable;
  if (nb::try_cast(owner_, writable, false)) {
    tensor_ = nb::ndarray<nb::ro>(writable);
  } else {
    nb::ndarray<nb::ro, nb::device::cpu> view;
    if (!nb::try_cast(owner_, view, false))
      throw error("array of type '{}': its memory cannot be used through DLPack. Bring it to the CPU's memory",
                  pyText(array.type()));
    tensor_ = nb::ndarray<nb::ro>(view);
    readOnly_ = true;
  }
  const DataType type = registered(typeOfDlpack(tensor_.dtype()), types, array);
  Shape shape;
  for (size_t i = 0; i < tensor_.ndim(); ++i) shape.push_back(static_cast<int64_t>(tensor_.shape(i)));
  int64_t stride = 1;
  for (size_t i = tensor_.ndim(); i-- > 0;) {
    contiguous_ = contiguous_ && (shape[i] == 1 || tensor_.stride(i) == stride);
    stride *= shape[i];
  }
  info_.set(type, shape);
  contiguous_ = contiguous_ || stride == 0;
  data_ = const_cast<void *>(tensor_.data());
  return true;
}

bool HostArray::fromArrayInterface(nb::handle array, Types types) {
  if (!nb::hasattr(array, "__array_interface__")) return false;
  const DataType type = registered(typeOfName(typeName(array)), types, array);
  nb::object face = array.attr("__array_interface__");
  info_.set(type, nb::cast<Shape>(nb::list(face["shape"])));
  nb::tuple pointer = nb::cast<nb::tuple>(face["data"]);
  data_ = reinterpret_cast<void *>(nb::cast<uintptr_t>(pointer[0]));
  readOnly_ = nb::cast<bool>(pointer[1]);
  contiguous_ = nb::cast<bool>(array.attr("flags")["C_CONTIGUOUS"]);
  return true;
}

bool HostArray::fromArrayMethod(nb::handle array, Types types) {
  if (!nb::hasattr(array, "__array__")) return false;
  owner_ = nb::module_::import_("numpy").attr("asarray")(array);
  if (!fromBuffer(owner_, types)) return fromArrayInterface(owner_, types) && (readOnly_ = true);
  return readOnly_ = true;
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
  if (type == DataType::FLOAT8_143 || type == DataType::FLOAT8_152) {  // as PopART has them
    nb::list field;
    field.append(nb::make_tuple(numpyName(type), "u1"));
    dtype = numpy.attr("dtype")(field);
  } else if (isOfMlDtypes(type)) {
    dtype = nb::module_::import_("ml_dtypes").attr(numpyName(type).c_str());
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
