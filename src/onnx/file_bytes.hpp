// Raw bytes of tensors in ONNX files. They are the bytes in memory, except for elements of fewer than eight bits: these
// are packed in files, the first one in the lowest bits (ONNX, TensorProto.raw_data), and take one byte each in memory.
#pragma once
#include <popart/tensordata.hpp>

namespace popart::onnx {

bool isPackedInFiles(DataType type);
// The bytes that a tensor takes in a file; at most as many as in memory.
int64_t fileBytes(const TensorInfo &info);
// The tensor of a packed type with `fileBytes(info)` bytes at `packed`.
TensorData unpacked(const TensorInfo &info, const char *packed);
// The bytes to write: the value itself, or UINT8 if they differ from the bytes in memory.
TensorData asInFile(const TensorData &value);

}  // namespace popart::onnx
