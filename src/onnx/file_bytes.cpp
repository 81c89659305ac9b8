#include "onnx/file_bytes.hpp"

#include "base/small_types.hpp"

namespace popart::onnx {

bool isPackedInFiles(DataType type) { return bitsOf(type) % 8 != 0; }

int64_t fileBytes(const TensorInfo &info) {
  if (!isPackedInFiles(info.dataType())) return info.nbytes();
  // there are at most 2^62 elements, so whole bytes are counted first
  const int64_t bits = bitsOf(info.dataType()), elements = info.nelms();
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
}

TensorData unpacked(const TensorInfo &info, const char *packed) {
  TensorData data(info);
  auto *to = static_cast<uint8_t *>(data.mutableData());
  const auto *from = reinterpret_cast<const uint8_t *>(packed);
  const int bits = bitsOf(info.dataType());
  unsigned held = 0;  // the low `count` bits are read and not used yet
  int count = 0;
  for (int64_t i = 0; i < info.nelms(); ++i) {
    if (count < bits) held |= static_cast<unsigned>(*from++) << count, count += 8;
    to[i] = static_cast<uint8_t>(held & ((1u << bits) - 1));
    held >>= bits, count -= bits;
  }
  return data;
}

TensorData asInFile(const TensorData &value) {
  const TensorInfo &info = value.info();
  if (!isPackedInFiles(info.dataType())) return value;
  TensorData packed(TensorInfo(DataType::UINT8, {fileBytes(info)}));
  const auto *from = static_cast<const uint8_t *>(value.data());
  auto *to = static_cast<uint8_t *>(packed.mutableData());
  const int bits = bitsOf(info.dataType());
  unsigned held = 0;
  int count = 0;
  for (int64_t i = 0; i < info.nelms(); ++i) {
    held |= (from[i] & ((1u << bits) - 1)) << count, count += bits;
    if (count >= 8) *to++ = static_cast<uint8_t>(held & 255), held >>= 8, count -= 8;
  }
  if (count > 0) *to = static_cast<uint8_t>(held);
  return packed;
}

}  // namespace popart::onnx
