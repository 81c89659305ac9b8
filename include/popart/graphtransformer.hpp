// GraphTransformer: changes an ONNX model as a whole: element types, inputs,
// constants. The methods change the model in place; getModelProto gives the result.
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

// Holds a copy of the model; its file is not written.
class GraphTransformer {
 public:
  // The name of a file or the bytes of a model. Throws popart::error when it is no valid model.
  explicit GraphTransformer(const std::string &modelProtoOrFilename);
  ~GraphTransformer();
  GraphTransformer(const GraphTransformer &) = delete;
  GraphTransformer &operator=(const GraphTransformer &) = delete;

  std::string getModelProto() const;  // serialised

  // Initializers, tensors in attributes, declared types of inputs, outputs and intermediate tensors. Throw
  // popart::error when a node holds a graph.
  void convertFloatsToHalfs();
  void convertUINT8ToINT32();
  void convertUINT16ToINT32();
  void convertINT8ToINT32();
  void convertINT16ToINT32();
  // Throws popart::error for a value outside INT32, unless `clip` asks for the nearest one.
  void convertINT64ToINT32(bool clip = false);
  void convertDoublesToFloats();
  void convertDoublesToHalfs();
  void convertBFloats16ToFloat32();

  // Drops graph inputs that no node of the main graph reads, with their initializers.
  void removeUnusedInputs();
  // BatchNormalization and Dropout nodes in training form, in bodies and functions too: five outputs up to operator
  // set 13; from 14 on (Dropout: 12) training_mode 1, and three outputs.
  void prepareNodesForTraining();
  // The reverse: BatchNormalization in inference form, Dropout removed, where constants decide.
  // inferenceForm also cuts the loss.
  void prepareNodesForInference();
  // Initializers become Constant nodes in front of the others. Throws popart::error for an unknown id.
  void convertInitializersToConstants(const std::vector<TensorId> &ids);
  void convertAllFixedPointInitializersToConstants();
  // Declares the shapes of graph inputs anew: each dimension a number, or a name for one that is open. First dimensions
  // of outputs that were like those of inputs get their names, others are left open; shapes of intermediate tensors are
  // dropped. Throws popart::error for a name that is no input.
  void declareInputs(const std::map<TensorId, std::vector<std::string>> &shapes);
  // Moves the values of initializers to a raw file, as Builder::saveInitializersExternally.
  void saveInitializersExternally(const std::vector<TensorId> &ids, const std::string &fileName);

 private:
  std::unique_ptr<onnx::ModelEditor> editor_;
};

// The model, the name of a file or its bytes, in inference form, as bytes; all weights are inside. Throws
// popart::error: no valid model, an output that it does not have (with the nearest names), no output left, more than
// 2 GiB.
std::string inferenceForm(const std::string &modelProtoOrFilename, const InferenceFormOptions &options = {});
// The same to a file, which appears whole or not at all. Above 2 GiB weights go to "<file name>.data".
void writeInferenceForm(const std::string &modelProtoOrFilename, const std::string &fileName,
                        const InferenceFormOptions &options = {});

// JSON for tools: inputs, outputs, opsets, operators by type, parameters, and the nodes that are refused at these input
// shapes, each with its reason (onnx/describe.hpp). Throws popart::error when the model cannot be read.
std::string describeModel(const std::string &modelProtoOrFilename, const InputShapeInfo &shapes);

}  // namespace popart
