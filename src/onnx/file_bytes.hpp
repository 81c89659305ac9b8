// Raw bytes of tensors in ONNX files: those of memory, but for elements of fewer than eight bits. These lie beside each
// other in files, the first one in the lowest bits (ONNX, TensorProto.raw_data), and one to a byte in memory.
#pragma once
#include <popart/tensordata.hpp>

namespace popart::onnx {

bool isPackedInFiles(DataType type);
// Bytes that a tensor takes in a file; at most those of memory.
int64_t fileBytes(const TensorInfo &info);
// The tensor of `fileBytes(info)` bytes at `packed`, of a type that is packed.
TensorData unpacked(const TensorInfo &info, const char *packed);
// The bytes to be written: the value itself, or UINT8 where they are not those of memory.
TensorData asInFile(const TensorData &value);

}  // namespace popart::onnx
