// Element types of tensors. The enumerator order is part of the public API (PopART passes it as an integer,
// for example to aiGraphcore.init), so it must not change.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace popart {

// UNDEFINED: not set yet. BOOL and types of fewer than eight bits have one byte per element. FLOAT8_143 and FLOAT8_152
// are ONNX's FLOAT8E4M3FNUZ and FLOAT8E5M2FNUZ. Types after UNDEFINED are ONNX types that PopART does not have.
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
  UNDEFINED,
  FLOAT8E4M3FN,
  FLOAT8E5M2,
  FLOAT8E8M0,
  FLOAT6E2M3,
  FLOAT6E3M2,
  FLOAT4E2M1,
  INT4,
  UINT4,
  INT2,
  UINT2
};

constexpr int kDataTypeCount = 29;  // UNDEFINED included

// Facts about a type; names as in PopART's DataTypeInfo.
struct DataTypeInfo {
  DataType type;      // the type described
  int nbytes;         // -1: STRING and UNDEFINED have no fixed size
  bool isFixedPoint;  // integers and BOOL
  const char *name;   // "FLOAT"
  const char *lcase;  // "float32"; types that PopART does not have are named as in NumPy and the package ml_dtypes
};

const DataTypeInfo &getDataTypeInfo(DataType type);  // static storage

// "FLOAT" or "float32" (either spelling) -> FLOAT; ONNX's and NumPy's names of the FLOAT8 types too. Throws
// popart::error for an unknown name.
DataType dataTypeFromString(std::string_view name);

inline bool isComplex(DataType t) { return t == DataType::COMPLEX64 || t == DataType::COMPLEX128; }  // only moved
// FLOAT, FLOAT16, BFLOAT16, DOUBLE and all smaller ones.
inline bool isFloatingPoint(DataType t) {
  return !getDataTypeInfo(t).isFixedPoint && !isComplex(t) && t != DataType::STRING && t != DataType::UNDEFINED;
}
// fixed point without BOOL
inline bool isInteger(DataType t) { return getDataTypeInfo(t).isFixedPoint && t != DataType::BOOL; }

// INT64 -> INT32, UINT64 -> UINT32, DOUBLE -> FLOAT; every other type is its own device type.
DataType getCompatibleDataType(DataType type);

// The numbers of types in ONNX TensorProto.DataType (ONNX IR specification); 0 for UNDEFINED and types that ONNX does
// not have.
int toOnnxDataType(DataType type);
DataType fromOnnxDataType(int onnxType);  // throws popart::error for an unsupported type

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
