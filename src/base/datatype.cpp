// Element type facts (one table) and conversions to ONNX type numbers.
#include <popart/datatype.hpp>

#include <array>

#include <popart/error.hpp>

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
}};

// ONNX TensorProto.DataType number of each type; 0 where ONNX has none.
constexpr std::array<int, kDataTypeCount> kOnnxNumbers = {2, 3, 18, 20, 4,  5,  6,  7, 12, 13,
                                                          9, 1, 10, 16, 11, 14, 15, 8, 0};

}  // namespace

const DataTypeInfo &getDataTypeInfo(DataType type) { return kTypes[static_cast<size_t>(type)]; }

DataType dataTypeFromString(std::string_view name) {
  for (const auto &t : kTypes)
    if (name == t.name || name == t.lcase) return t.type;
  throw error("data type '{}' is unknown. Use one of FLOAT, FLOAT16, INT32, … (popart.DataType)", name);
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
