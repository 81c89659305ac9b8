// Changes to a whole ONNX model that need no compilation: element types, inputs, constants. The core of the public
// GraphTransformer. After each change onnx still accepts the model.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onnx/reader.hpp"

namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {

enum class OutOfRange { Refuse, Clip };

class ModelEditor {
 public:
  // Throws popart::error if it is no model.
  explicit ModelEditor(const std::string &modelProtoOrFilename);
  ~ModelEditor();
  ModelEditor(const ModelEditor &) = delete;
  ModelEditor &operator=(const ModelEditor &) = delete;

  // Converts initializers, tensors in attributes and declared types of inputs, outputs and intermediate tensors. Throws
  // popart::error if a node has a graph, or if a value does not fit `to` and outOfRange is Refuse.
  void convertElements(DataType from, DataType to, OutOfRange outOfRange = OutOfRange::Refuse);
  // Removes graph inputs that no node of the main graph reads, with their initializers.
  void removeUnusedInputs();
  // Converts BatchNormalization and Dropout to training form, and back (training_form.hpp).
  void prepareNodesForTraining();
  void prepareNodesForInference();
  // Converts the initializers to Constant nodes at the start. Throws popart::error for an unknown id.
  void convertInitializersToConstants(const std::vector<TensorId> &ids);
  // The same for all integer initializers.
  void convertAllFixedPointInitializersToConstants();
  // Declares new shapes for graph inputs: each dimension is a number, or a name if it is open. First dimensions of
  // outputs that were equal to those of inputs get their names, others become open; shapes of intermediate tensors are
  // removed.
  // Throws popart::error for a name that is no input.
  void declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes);
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

  std::string serialised() const;

 private:
  std::shared_ptr<const ModelContent> source_;
  std::unique_ptr<onnx_proto::ModelProto> proto_;
};

}  // namespace popart::onnx
