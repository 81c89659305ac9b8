// TensorProto -> TensorData. Dimensions and payload sizes are compared before memory is allocated; raw and external
// payloads are shared, not copied, if they are aligned for their type.
#include <cstring>

#include <popart/error.hpp>

#include "base/small_types.hpp"
#include "onnx/file_bytes.hpp"
#include "onnx/model_content.hpp"
#include "onnx/reader.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

bool isAligned(const void *data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

TensorData shareOrCopy(const TensorInfo &info, const char *data, const std::shared_ptr<const void> &owner) {
  if (info.nelms() == 0) return TensorData(info);
  if (isPackedInFiles(info.dataType())) return unpacked(info, data);
  if (owner && isAligned(data, getDataTypeInfo(info.dataType()).nbytes)) return TensorData::share(info, owner, data);
  return TensorData(info, data);
}

// `perElement`: numbers of the field that make one element.
template <class T, class Field>
TensorData fromField(const TensorInfo &info, const Field &field, const std::string &name, int64_t perElement = 1) {
  check(field.size() % perElement == 0 && field.size() / perElement == info.nelms(),
        "Tensor '{}': number of values does not match its dimensions: got {} values, expected {} for {}", name,
        field.size() / perElement, info.nelms(), info);
  TensorData data(info);
  T *out = static_cast<T *>(data.mutableData());
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<T>(field.Get(i));
  return data;
}

// One number for each element, or for each byte if whole elements fill a byte.
TensorData smallFromField(const onnx_proto::TensorProto &t, const TensorInfo &info, const std::string &name) {
  const int bits = bitsOf(info.dataType());
  if (bits == 8) return fromField<uint8_t>(info, t.int32_data(), name);
  if (8 % bits == 0) {
    const TensorInfo packed(DataType::UINT8, {fileBytes(info)});
    return unpacked(info, static_cast<const char *>(fromField<uint8_t>(packed, t.int32_data(), name).data()));
  }
  TensorData data = fromField<uint8_t>(info, t.int32_data(), name);
  auto *codes = static_cast<uint8_t *>(data.mutableData());
  for (int64_t i = 0; i < info.nelms(); ++i) codes[i] &= (1 << bits) - 1;
  return data;
}

TensorData fromTypedFields(const onnx_proto::TensorProto &t, const TensorInfo &info, const std::string &name) {
  if (isSmall(info.dataType())) return smallFromField(t, info, name);
  switch (info.dataType()) {
    case DataType::FLOAT:
      return fromField<float>(info, t.float_data(), name);
    case DataType::DOUBLE:
      return fromField<double>(info, t.double_data(), name);
    case DataType::INT64:
      return fromField<int64_t>(info, t.int64_data(), name);
    case DataType::UINT64:
      return fromField<uint64_t>(info, t.uint64_data(), name);
    case DataType::UINT32:
      return fromField<uint32_t>(info, t.uint64_data(), name);
    case DataType::INT32:
      return fromField<int32_t>(info, t.int32_data(), name);
    case DataType::INT16:
      return fromField<int16_t>(info, t.int32_data(), name);
    case DataType::INT8:
      return fromField<int8_t>(info, t.int32_data(), name);
    case DataType::UINT16:
    case DataType::FLOAT16:
    case DataType::BFLOAT16:
      return fromField<uint16_t>(info, t.int32_data(), name);
    case DataType::COMPLEX64:
      return fromField<float>(info, t.float_data(), name, 2);
    case DataType::COMPLEX128:
      return fromField<double>(info, t.double_data(), name, 2);
    case DataType::UINT8:
      return fromField<uint8_t>(info, t.int32_data(), name);
    case DataType::BOOL: {
      TensorData data = fromField<uint8_t>(info, t.int32_data(), name);
      auto *bytes = static_cast<uint8_t *>(data.mutableData());
      for (int64_t i = 0; i < info.nelms(); ++i) bytes[i] = bytes[i] != 0;
      return data;
    }
    default:
      throw error("Tensor '{}': element type is not supported: got {}", name, info.dataType());
  }
}

TensorData fromExternal(const onnx_proto::TensorProto &t, const TensorInfo &info, const std::string &name,
                        const ExternalFiles &files) {
  const ExternalEntry entry = externalEntry(t, name);
  const int64_t expected = fileBytes(info), length = entry.length.value_or(expected);
  check(length == expected,
        "Tensor '{}': external data length does not match its dimensions: got {} bytes, expected {} for {}", name,
        length, expected, info);
  auto file = files.file(entry.location, name);
  const auto size = static_cast<int64_t>(file->size());
  check(entry.offset <= size && length <= size - entry.offset,
        "Tensor '{}': external data is beyond the end of file '{}': got offset {} and length {}, expected at most {} "
        "bytes. The file "
        "is incomplete",
        name, entry.location, entry.offset, length, size);
  return shareOrCopy(info, file->data() + entry.offset, file);
}

// A bool in memory must be 0 or 1, also if the file has another value.
TensorData withLegalBools(TensorData data) {
  if (data.info().dataType() != DataType::BOOL) return data;
  const auto *bytes = static_cast<const uint8_t *>(data.data());
  for (int64_t i = 0; i < data.info().nelms(); ++i)
    if (bytes[i] > 1) {
      auto *legal = static_cast<uint8_t *>(data.mutableData());
      for (int64_t k = 0; k < data.info().nelms(); ++k) legal[k] = legal[k] != 0;
      break;
    }
  return data;
}

}  // namespace

TensorInfo tensorInfo(const onnx_proto::TensorProto &tensor, const std::string &name) {
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  DataType type = DataType::UNDEFINED;
  try {
    type = fromOnnxDataType(tensor.data_type());
  } catch (const error &) {
  }
  const int bytes = type == DataType::UNDEFINED ? -1 : getDataTypeInfo(type).nbytes;
  check(bytes > 0,
        "Tensor '{}': element type is not supported: got ONNX type number {}, expected a fixed-size number type", name,
        static_cast<int>(tensor.data_type()));
  check(shape.size() <= 64, "Tensor '{}': too many dimensions: got {}, expected at most 64", name,
        static_cast<long>(shape.size()));
  int64_t total = bytes;
  for (int64_t d : shape) {
    check(d >= 0, "Tensor '{}': a dimension is negative: got {}", name, shape);
    check(d == 0 || total <= (int64_t{1} << 62) / d, "Tensor '{}': dimensions are too large: got {}", name, shape);
    if (d != 0) total *= d;
  }
  return TensorInfo(type, std::move(shape));
}

namespace {

TensorData fromRawData(const onnx_proto::TensorProto &tensor, const TensorInfo &info, const std::string &name,
                       std::string_view raw, const std::shared_ptr<const void> &owner) {
  check(static_cast<int64_t>(raw.size()) == fileBytes(info),
        "Tensor '{}': raw data does not match its dimensions: got {} bytes, expected {} for {}", name,
        static_cast<long>(raw.size()), fileBytes(info), info);
  const int typed = tensor.float_data_size() + tensor.int32_data_size() + tensor.int64_data_size() +
                    tensor.double_data_size() + tensor.uint64_data_size();
  check(typed == 0, "Tensor '{}': holds its values twice, as raw data and as {} numbers. Keep one of them", name,
        typed);
  return withLegalBools(shareOrCopy(info, raw.data(), owner));
}

void refuseSegments(const onnx_proto::TensorProto &tensor, const std::string &name) {
  check(!tensor.has_segment(), "Tensor '{}': segmented tensors are not supported. Save the model with whole tensors",
        name);
}

}  // namespace

TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ModelContent &model) {
  const auto found = model.payloads.find(&tensor);
  if (found == model.payloads.end() || isExternal(tensor)) return tensorData(tensor, name, model.files, model.proto);
  refuseSegments(tensor, name);
  const TensorData &bytes = found->second.bytes;
  const std::string_view raw(static_cast<const char *>(bytes.data()), static_cast<size_t>(bytes.nbytes()));
  return fromRawData(tensor, tensorInfo(tensor, name), name, raw, std::make_shared<TensorData>(bytes));
}

TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ExternalFiles &files,
                      const std::shared_ptr<const void> &owner) {
  const TensorInfo info = tensorInfo(tensor, name);
  refuseSegments(tensor, name);
  if (isExternal(tensor)) return withLegalBools(fromExternal(tensor, info, name, files));
  if (tensor.has_raw_data() && !(tensor.raw_data().empty() && info.nbytes() != 0))
    return fromRawData(tensor, info, name, tensor.raw_data(), owner);
  return fromTypedFields(tensor, info, name);
}

TensorData denseTensorData(const onnx_proto::SparseTensorProto &tensor, const std::string &name,
                           const ExternalFiles &files, const std::shared_ptr<const void> &owner) {
  const TensorData values = tensorData(tensor.values(), name + ".values", files, owner);
  const TensorData indices = tensorData(tensor.indices(), name + ".indices", files, owner);
  onnx_proto::TensorProto header;
  header.set_data_type(tensor.values().data_type());
  *header.mutable_dims() = tensor.dims();
  const TensorInfo info = tensorInfo(header, name);
  check(values.info().rank() == 1, "Sparse tensor '{}': values must have one dimension: got {}", name, values.info());
  const int64_t count = values.info().nelms();
  const int64_t rank = info.rank();
  const bool linear = indices.info().rank() == 1;
  check(indices.info().dataType() == DataType::INT64 && indices.info().nelms() == (linear ? count : count * rank) &&
            (linear || (indices.info().rank() == 2 && indices.info().shape()[1] == rank)),
        "Sparse tensor '{}': indices do not match its values: got {} for {} values of rank {}", name, indices.info(),
        count, rank);
  TensorData dense(info);
  auto *out = static_cast<char *>(dense.mutableData());
  const auto *in = static_cast<const char *>(values.data());
  const auto *index = static_cast<const int64_t *>(indices.data());
  const int64_t bytes = getDataTypeInfo(info.dataType()).nbytes;
  int64_t previous = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = linear ? index[i] : 0;
    for (int64_t d = 0; !linear && d < rank; ++d) {
      const int64_t v = index[i * rank + d];
      check(v >= 0 && v < info.shape()[d],
            "Sparse tensor '{}': an index is out of range: got {} for dimension {} of {}", name, v, d, info);
      position = position * info.shape()[d] + v;
    }
    check(position >= 0 && position < info.nelms(), "Sparse tensor '{}': an index is out of range: got {}", name,
          position);
    check(position > previous,
          "Sparse tensor '{}': indices must ascend, each once: got element {} of {} after element {}. Sort the indices "
          "and their values",
          name, position, info, previous);
    previous = position;
    std::memcpy(out + position * bytes, in + i * bytes, bytes);
  }
  return dense;
}

TensorData parseTensor(std::string_view bytes, const std::string &name) {
  auto tensor = std::make_shared<onnx_proto::TensorProto>();
  check(bytes.size() < (size_t{1} << 31) && tensor->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
        "Tensor '{}': is not a TensorProto, is incomplete or damaged", name);
  return tensorData(*tensor, name, ExternalFiles("."), tensor);
}

}  // namespace popart::onnx
