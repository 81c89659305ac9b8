// Element types of tensors. The enumerator order is part of the public API (PopART passes it as an integer,
// for example to aiGraphcore.init), so it must not change.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace popart {

// UNDEFINED: not set yet. BOOL has one byte per element.
enum class DataType {
  UINT8 = 0,
  INT8,
  FLOAT8_143,
  FLOAT8_152,
  UINT16,
  INT16,
  INT32,
  INT64,
  UINT32,
  UINT64,
  BOOL,
  FLOAT,
  FLOAT16,
  BFLOAT16,
  DOUBLE,
  COMPLEX64,
  COMPLEX128,
  STRING,
  UNDEFINED
};

constexpr int kDataTypeCount = 19;  // UNDEFINED included

// Facts about a type; names as in PopART's DataTypeInfo.
struct DataTypeInfo {
  DataType type;      // the type described
  int nbytes;         // -1: STRING and UNDEFINED have no fixed size
  bool isFixedPoint;  // integers and BOOL
  const char *name;   // "FLOAT"
  const char *lcase;  // "float32"
};

const DataTypeInfo &getDataTypeInfo(DataType type);  // static storage

// "FLOAT" or "float32" (either spelling) -> FLOAT. Throws popart::error for an unknown name.
DataType dataTypeFromString(std::string_view name);

inline bool isFloatingPoint(DataType t) {  // FLOAT, FLOAT16, BFLOAT16, DOUBLE and both FLOAT8
  return t == DataType::FLOAT || t == DataType::FLOAT16 || t == DataType::BFLOAT16 || t == DataType::DOUBLE ||
         t == DataType::FLOAT8_143 || t == DataType::FLOAT8_152;
}
// fixed point without BOOL
inline bool isInteger(DataType t) { return getDataTypeInfo(t).isFixedPoint && t != DataType::BOOL; }

// INT64 -> INT32, UINT64 -> UINT32, DOUBLE -> FLOAT; every other type is its own device type.
DataType getCompatibleDataType(DataType type);

// The numbers ONNX TensorProto.DataType gives to types (ONNX IR specification); 0 for UNDEFINED and types ONNX lacks.
int toOnnxDataType(DataType type);
DataType fromOnnxDataType(int onnxType);  // throws popart::error for a type outside our list

class Half;
class BFloat16;
// compat: PopART's name.
using float16_t = Half;

// Element type of the C++ type T; types without one do not link.
template <class T>
DataType getDataType();
template <>
inline DataType getDataType<int8_t>() {
  return DataType::INT8;
}
template <>
inline DataType getDataType<int16_t>() {
  return DataType::INT16;
}
template <>
inline DataType getDataType<int32_t>() {
  return DataType::INT32;
}
template <>
inline DataType getDataType<int64_t>() {
  return DataType::INT64;
}
template <>
inline DataType getDataType<uint8_t>() {
  return DataType::UINT8;
}
template <>
inline DataType getDataType<uint16_t>() {
  return DataType::UINT16;
}
template <>
inline DataType getDataType<uint32_t>() {
  return DataType::UINT32;
}
template <>
inline DataType getDataType<uint64_t>() {
  return DataType::UINT64;
}
template <>
inline DataType getDataType<bool>() {
  return DataType::BOOL;
}
template <>
inline DataType getDataType<Half>() {
  return DataType::FLOAT16;
}
template <>
inline DataType getDataType<BFloat16>() {
  return DataType::BFLOAT16;
}
template <>
inline DataType getDataType<float>() {
  return DataType::FLOAT;
}
template <>
inline DataType getDataType<double>() {
  return DataType::DOUBLE;
}
template <>
inline DataType getDataType<std::string>() {
  return DataType::STRING;
}

}  // namespace popart
