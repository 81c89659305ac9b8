// Changes of a whole ONNX model that need no compilation: element types, inputs, constants. The core of the public
// GraphTransformer. Each change leaves a model that onnx accepts.
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
  // Throws popart::error when it is no model.
  explicit ModelEditor(const std::string &modelProtoOrFilename);
  ~ModelEditor();
  ModelEditor(const ModelEditor &) = delete;
  ModelEditor &operator=(const ModelEditor &) = delete;

  // Initializers, tensors in attributes and declared types of inputs, outputs and intermediate tensors. Throws
  // popart::error: a node holds a graph; a value does not fit `to` and outOfRange is Refuse.
  void convertElements(DataType from, DataType to, OutOfRange outOfRange = OutOfRange::Refuse);
  // Drops graph inputs that no node of the main graph reads, with their initializers.
  void removeUnusedInputs();
  // BatchNormalization and Dropout in training form, and back (training_form.hpp).
  void prepareNodesForTraining();
  void prepareNodesForInference();
  // The initializers as Constant nodes in front. Throws popart::error for an unknown id.
  void convertInitializersToConstants(const std::vector<TensorId> &ids);
  // The same for all integer initializers.
  void convertAllFixedPointInitializersToConstants();
  // Declares the shapes of graph inputs anew: each dimension a number, or a name for one that is open. First dimensions
  // of outputs that were like those of inputs get their names, others are left open; shapes of intermediate tensors are
  // dropped. Throws popart::error for a name that is no input.
  void declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes);
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

  std::string serialised() const;

 private:
  std::shared_ptr<const ModelContent> source_;
  std::unique_ptr<onnx_proto::ModelProto> proto_;
};

}  // namespace popart::onnx
