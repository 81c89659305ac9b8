// The content of a Model: the parsed message and the files that hold its tensors. Private to this room (protobuf types
// appear only as forward declarations).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <popart/tensordata.hpp>

#include "base/files/mapped_file.hpp"
#include "onnx/payloads.hpp"

namespace popart::onnx_proto {
class ModelProto;
class GraphProto;
class NodeProto;
class AttributeProto;
class FunctionProto;
class TensorProto;
class SparseTensorProto;
class TypeProto;
class ValueInfoProto;
}  // namespace popart::onnx_proto

namespace popart::onnx {

// How a tensor refers to the file with its values (ONNX, TensorProto.external_data).
struct ExternalEntry {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;  // none: as much as the dimensions need
};
// Throws popart::error, with the tensor, for a repeated key, and for an offset or length that is no number in [0,
// 10^18).
ExternalEntry externalEntry(const onnx_proto::TensorProto &tensor, const std::string &name);
bool isExternal(const onnx_proto::TensorProto &tensor);

// Finds external tensor data below one folder. Refuses absolute names, "..", links to the outside and hard links.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const MappedFile> file(const std::string &location, const std::string &tensorName) const;
  // The file's path, with links resolved. Throws missing_data_error when the file does not exist, and like `file`.
  std::string pathOf(const std::string &location, const std::string &tensorName) const;
  void forget(const std::string &location) const { open_.erase(location); }  // the file has been replaced
  // Throws popart::error for a file that was written to after it was opened.
  void requireUnchanged() const;
  const std::string &folder() const { return folder_; }

 private:
  std::string folder_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> open_;
};

struct ModelContent {
  ModelContent();
  ~ModelContent();
  std::shared_ptr<onnx_proto::ModelProto> proto;
  std::map<const onnx_proto::TensorProto *, Payload> payloads;  // of initializers whose `raw_data` is not in `proto`
  std::string name;                                             // file name for messages, "<bytes>" otherwise
  ExternalFiles files{"."};
};

// Versions of the operator sets that the model imports, by domain ("ai.onnx" for the default one).
std::map<std::string, int64_t> opsetsOf(const onnx_proto::ModelProto &model);

// The info that a tensor message declares. Throws popart::error for negative or huge dimensions and unsupported types.
TensorInfo tensorInfo(const onnx_proto::TensorProto &tensor, const std::string &name);
// The values of a tensor of the model; they share memory with its message, its payloads or the mapped file if the
// layout allows it.
TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ModelContent &model);
// The same for a message that `owner` keeps alive.
TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ExternalFiles &files,
                      const std::shared_ptr<const void> &owner);
// The dense tensor; the caller must check its size first.
TensorData denseTensorData(const onnx_proto::SparseTensorProto &tensor, const std::string &name,
                           const ExternalFiles &files, const std::shared_ptr<const void> &owner);

// The whole message, including payloads.
onnx_proto::ModelProto wholeMessage(const ModelContent &model);

// Sets type, dimensions and raw bytes of a tensor message. Throws popart::error for types that ONNX does not have.
void setPayload(onnx_proto::TensorProto &tensor, const TensorData &value);

// Allows a file that this process wrote with saveInitializersExternally as an absolute location in models built in
// memory.
void allowExternalFile(const std::string &path);

}  // namespace popart::onnx
