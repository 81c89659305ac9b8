// GraphTransformer: changes an ONNX model as a whole: element types, inputs, constants. The methods change the model in
// place; getModelProto returns the result.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/inferenceform.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/names.hpp>

namespace popart {

namespace onnx {
class ModelEditor;
}

// Has a copy of the model; does not write the model's file.
class GraphTransformer {
 public:
  // The name of a file or the bytes of a model. Throws popart::error if it is not a valid model.
  explicit GraphTransformer(const std::string &modelProtoOrFilename);
  ~GraphTransformer();
  GraphTransformer(const GraphTransformer &) = delete;
  GraphTransformer &operator=(const GraphTransformer &) = delete;

  std::string getModelProto() const;  // serialised

  // Initializers, tensors in attributes, declared types of inputs, outputs and intermediate tensors. Throw
  // popart::error if a node has a graph.
  void convertFloatsToHalfs();
  void convertUINT8ToINT32();
  void convertUINT16ToINT32();
  void convertINT8ToINT32();
  void convertINT16ToINT32();
  // Throws popart::error for a value outside INT32; with `clip`, uses the nearest value instead.
  void convertINT64ToINT32(bool clip = false);
  void convertDoublesToFloats();
  void convertDoublesToHalfs();
  void convertBFloats16ToFloat32();

  // Removes graph inputs that no node of the main graph reads, with their initializers.
  void removeUnusedInputs();
  // Sets BatchNormalization and Dropout nodes to training form, also in bodies and functions: five outputs up to
  // operator set 13; from 14 on (Dropout: 12) training_mode 1, and three outputs.
  void prepareNodesForTraining();
  // The reverse: BatchNormalization in inference form, Dropout removed, if constants determine their form.
  // inferenceForm also removes the loss.
  void prepareNodesForInference();
  // Replaces initializers by Constant nodes before all other nodes. Throws popart::error for an unknown id.
  void convertInitializersToConstants(const std::vector<TensorId> &ids);
  void convertAllFixedPointInitializersToConstants();
  // Sets the shapes of graph inputs: each dimension is a number, or a name for an open one. First dimensions of outputs
  // that were equal to those of inputs get their names; the other dimensions become open. Shapes of intermediate
  // tensors are removed. Throws popart::error for a name that is not an input.
  void declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes);
  // Moves the values of initializers to a raw file, like Builder::saveInitializersExternally.
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

 private:
  std::unique_ptr<onnx::ModelEditor> editor_;
};

// The model, given as the name of a file or as bytes, in inference form, as bytes that include all weights. Throws
// popart::error: not a valid model, an output that it does not have (with the nearest names), no output left, more than
// 2 GiB.
std::string inferenceForm(const std::string &modelProtoOrFilename, const InferenceFormOptions &options = {});
// The same to a file, which is written atomically. Above 2 GiB, weights are written to "<file name>.data".
void writeInferenceForm(const std::string &modelProtoOrFilename, const std::string &fileName,
                        const InferenceFormOptions &options = {});

// JSON for tools: inputs, outputs, opsets, operators by type, parameters, and the nodes that are not supported at these
// input shapes, each with its reason (onnx/describe.hpp). Throws popart::error if the model cannot be read.
std::string describeModel(const std::string &modelProtoOrFilename, const InputShapeInfo &shapes);

}  // namespace popart
