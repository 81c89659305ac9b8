// io: ONNX models in memory, the argument of Ir::prepare.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace popart::onnx {

struct ModelContent;

// A model that was read and checked. Cheap to copy; immutable.
class ModelProto {
 public:
  ModelProto(std::shared_ptr<const ModelContent> content, std::size_t hash)
      : content_(std::move(content)), hash_(hash) {}
  const std::shared_ptr<const ModelContent> &content() const { return content_; }
  std::size_t hash() const { return hash_; }  // of its bytes

 private:
  std::shared_ptr<const ModelContent> content_;
  std::size_t hash_;
};

}  // namespace popart::onnx

namespace popart::io {

// From the bytes of a serialised ModelProto. Files that it names are searched in the current folder. Throws
// popart::error if it is not a valid model.
onnx::ModelProto getModelFromString(const std::string &modelProto);

}  // namespace popart::io
