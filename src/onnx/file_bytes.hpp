// Raw bytes of tensors in ONNX files: those of memory, but for elements of fewer than eight bits. These lie beside each
// other in files, the first one in the lowest bits (ONNX, TensorProto.raw_data), and one to a byte in memory.
#pragma once
#include <string>
#include <string_view>

#include <popart/tensordata.hpp>

namespace popart::onnx {

bool isPackedInFiles(DataType type);
// Bytes that a tensor takes in a file; at most those of memory.
int64_t fileBytes(const TensorInfo &info);
// The tensor of `fileBytes(info)` bytes at `packed`, of a type that is packed.
TensorData unpacked(const TensorInfo &info, const char *packed);
// The bytes to be written, valid as long as both arguments are; `storage` holds them where they are not those of
// memory.
std::string_view bytesToWrite(const TensorData &value, std::string &storage);

}  // namespace popart::onnx
