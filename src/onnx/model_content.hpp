// What a Model holds: the parsed message and the files its tensors lie in. Private to this room (it shows protobuf
// types by forward declaration only).
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

// What a tensor says of the file its values lie in (ONNX, TensorProto.external_data).
struct ExternalEntry {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;  // none: what the dimensions need
};
// Throws popart::error naming the tensor: a key twice, offset or length that is no number in [0, 10^18).
ExternalEntry externalEntry(const onnx_proto::TensorProto &tensor, const std::string &name);
bool isExternal(const onnx_proto::TensorProto &tensor);

// Finds external tensor data below one folder. Refuses absolute names, "..", links that lead outside and hard links.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const MappedFile> file(const std::string &location, const std::string &tensorName) const;
  // The file's path, links resolved. Throws missing_data_error when it is not there (any more), and as `file` does.
  std::string pathOf(const std::string &location, const std::string &tensorName) const;
  void forget(const std::string &location) const { open_.erase(location); }  // the file has been replaced
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

// The info a tensor message declares. Throws popart::error for negative or huge dimensions and types we do not have.
TensorInfo tensorInfo(const onnx_proto::TensorProto &tensor, const std::string &name);
// The values of a tensor of the model; they share memory with its message, its payloads or the mapped file where the
// layout allows it.
TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ModelContent &model);
// The same of any message, which `owner` keeps alive.
TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ExternalFiles &files,
                      const std::shared_ptr<const void> &owner);
// The dense tensor; the caller has found its size acceptable.
TensorData denseTensorData(const onnx_proto::SparseTensorProto &tensor, const std::string &name,
                           const ExternalFiles &files, const std::shared_ptr<const void> &owner);

// The whole message, payloads and all.
onnx_proto::ModelProto wholeMessage(const ModelContent &model);

// Payload of a tensor message: type, dimensions and raw bytes. Throws popart::error for types ONNX does not have.
void setPayload(onnx_proto::TensorProto &tensor, const TensorData &value);

// Files this process wrote with saveInitializersExternally: allowed as absolute locations of models built in memory.
void allowExternalFile(const std::string &path);

}  // namespace popart::onnx
