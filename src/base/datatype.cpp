// Element type facts (one table) and conversions to ONNX type numbers.
#include <popart/datatype.hpp>

#include <array>

#include <popart/error.hpp>

#include "base/nearest.hpp"

namespace popart {
namespace {

constexpr std::array<DataTypeInfo, kDataTypeCount> kTypes = {{
    {DataType::UINT8, 1, true, "UINT8", "uint8"},
    {DataType::INT8, 1, true, "INT8", "int8"},
    {DataType::FLOAT8_143, 1, false, "FLOAT8_143", "float8_143"},
    {DataType::FLOAT8_152, 1, false, "FLOAT8_152", "float8_152"},
    {DataType::UINT16, 2, true, "UINT16", "uint16"},
    {DataType::INT16, 2, true, "INT16", "int16"},
    {DataType::INT32, 4, true, "INT32", "int32"},
    {DataType::INT64, 8, true, "INT64", "int64"},
    {DataType::UINT32, 4, true, "UINT32", "uint32"},
    {DataType::UINT64, 8, true, "UINT64", "uint64"},
    {DataType::BOOL, 1, true, "BOOL", "bool"},
    {DataType::FLOAT, 4, false, "FLOAT", "float32"},
    {DataType::FLOAT16, 2, false, "FLOAT16", "float16"},
    {DataType::BFLOAT16, 2, false, "BFLOAT16", "bfloat16"},
    {DataType::DOUBLE, 8, false, "DOUBLE", "float64"},
    {DataType::COMPLEX64, 8, false, "COMPLEX64", "complex64"},
    {DataType::COMPLEX128, 16, false, "COMPLEX128", "complex128"},
    {DataType::STRING, -1, false, "STRING", "string"},
    {DataType::UNDEFINED, -1, false, "UNDEFINED", "undefined"},
    {DataType::FLOAT8E4M3FN, 1, false, "FLOAT8E4M3FN", "float8_e4m3fn"},
    {DataType::FLOAT8E5M2, 1, false, "FLOAT8E5M2", "float8_e5m2"},
    {DataType::FLOAT8E8M0, 1, false, "FLOAT8E8M0", "float8_e8m0fnu"},
    {DataType::FLOAT6E2M3, 1, false, "FLOAT6E2M3", "float6_e2m3fn"},
    {DataType::FLOAT6E3M2, 1, false, "FLOAT6E3M2", "float6_e3m2fn"},
    {DataType::FLOAT4E2M1, 1, false, "FLOAT4E2M1", "float4_e2m1fn"},
    {DataType::INT4, 1, true, "INT4", "int4"},
    {DataType::UINT4, 1, true, "UINT4", "uint4"},
    {DataType::INT2, 1, true, "INT2", "int2"},
    {DataType::UINT2, 1, true, "UINT2", "uint2"},
}};

// ONNX TensorProto.DataType number of each type; 0 if ONNX has none.
constexpr std::array<int, kDataTypeCount> kOnnxNumbers = {2,  3,  18, 20, 4,  5,  6,  7,  12, 13, 9,  1,  10, 16, 11,
                                                          14, 15, 8,  0,  17, 19, 24, 27, 28, 23, 22, 21, 26, 25};

struct OtherName {
  std::string_view name;
  DataType type;
};
// The names of ONNX and NumPy for the types that have another name in PopART.
constexpr OtherName kOtherNames[] = {{"FLOAT8E4M3FNUZ", DataType::FLOAT8_143},
                                     {"float8_e4m3fnuz", DataType::FLOAT8_143},
                                     {"FLOAT8E5M2FNUZ", DataType::FLOAT8_152},
                                     {"float8_e5m2fnuz", DataType::FLOAT8_152}};

}  // namespace

const DataTypeInfo &getDataTypeInfo(DataType type) { return kTypes[static_cast<size_t>(type)]; }

DataType dataTypeFromString(std::string_view name) {
  for (const auto &t : kTypes)
    if (name == t.name || name == t.lcase) return t.type;
  for (const OtherName &other : kOtherNames)
    if (name == other.name) return other.type;
  std::vector<std::string> names;
  for (const auto &t : kTypes) names.insert(names.end(), {t.name, t.lcase});
  throw error("data type '{}' is unknown: expected a name of popart.DataType{}", name,
              nearestText(std::string(name), names));
}

DataType getCompatibleDataType(DataType type) {
  switch (type) {
    case DataType::INT64:
      return DataType::INT32;
    case DataType::UINT64:
      return DataType::UINT32;
    case DataType::DOUBLE:
      return DataType::FLOAT;
    default:
      return type;
  }
}

int toOnnxDataType(DataType type) { return kOnnxNumbers[static_cast<size_t>(type)]; }

DataType fromOnnxDataType(int onnxType) {
  for (int i = 0; i < kDataTypeCount; ++i)
    if (onnxType != 0 && kOnnxNumbers[i] == onnxType) return static_cast<DataType>(i);
  throw error("ONNX data type number {} is not supported", onnxType);
}

}  // namespace popart
