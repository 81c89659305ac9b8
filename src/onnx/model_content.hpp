// What a Model holds: the parsed message and the files its tensors lie in. Private to this room (it shows protobuf
// types by forward declaration only).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/tensordata.hpp>

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

// A read-only mapping of a whole file.
class MappedFile {
 public:
  // How many names the file may have. One: a hard link is refused, for it may lead anywhere and cannot be followed.
  enum class Links { Any, One };
  // Throws popart::error naming `shownName` when it is no readable regular file.
  static std::shared_ptr<const MappedFile> open(const std::string &path, const std::string &shownName,
                                                Links links = Links::Any);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  const char *data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile() = default;
  const char *data_ = nullptr;
  size_t size_ = 0;
};

// Finds external tensor data below one folder. Refuses absolute names, "..", links that lead outside and hard links.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const MappedFile> file(const std::string &location, const std::string &tensorName) const;
  const std::string &folder() const { return folder_; }

 private:
  std::string folder_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> open_;
};

struct ModelContent {
  ModelContent();
  ~ModelContent();
  std::shared_ptr<onnx_proto::ModelProto> proto;
  std::string name;  // file name for messages, "<bytes>" otherwise
  ExternalFiles files{"."};
};

// The info a tensor message declares. Throws popart::error for negative or huge dimensions and types we do not have.
TensorInfo tensorInfo(const onnx_proto::TensorProto &tensor, const std::string &name);
// The values; they share memory with `owner` (which keeps `tensor` alive) or the mapped file where the layout allows
// it.
TensorData tensorData(const onnx_proto::TensorProto &tensor, const std::string &name, const ExternalFiles &files,
                      const std::shared_ptr<const void> &owner);
// The dense tensor; the caller has found its size acceptable.
TensorData denseTensorData(const onnx_proto::SparseTensorProto &tensor, const std::string &name,
                           const ExternalFiles &files, const std::shared_ptr<const void> &owner);

// Payload of a tensor message: type, dimensions and raw bytes. Throws popart::error for types ONNX does not have.
void setPayload(onnx_proto::TensorProto &tensor, const TensorData &value);

// Moves the values of initializers of `graph` to a new raw file and notes their places. Throws popart::error: no
// initializer of that name, external already, folder missing.
void saveExternally(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::vector<TensorId> &ids,
                    const std::string &path);

// Files this process wrote with saveInitializersExternally: allowed as absolute locations of models built in memory.
void allowExternalFile(const std::string &path);

}  // namespace popart::onnx
