// The information of a file about its tensors: the lists of parameters and buffers that PyTorch's exporter (the one
// based on torch.export) writes as metadata, and `training_info` of ONNX.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// For the main graph. The texts are untrusted: a text that does not parse lists nothing.
struct ExporterLists {
  std::set<std::string> parameters, buffers;  // by name in the PyTorch program; not all are initializers
  // Initializer -> tensors from which its values were computed when the model was written.
  std::map<std::string, std::set<std::string>> foldedFrom;
  std::set<std::string> timesOne;   // the factor 1 in a call of addcmul without a value
  std::set<std::string> ofProgram;  // initializers that a node with metadata of the exporter reads, or none at all
  bool any() const { return !parameters.empty() || !buffers.empty(); }
};
ExporterLists exporterLists(const onnx_proto::GraphProto &graph);

// Whether the initializer's name says that it is a parameter with its elements in another order (t, transpose, view,
// permute …; val_N: moved for the ONNX operator) instead of another function of it (exp, mul …).
bool isNameOfMovedElements(const std::string &initializer);
// Whether the name says that rows of a parameter were picked (embedding, index_select …).
bool isNameOfPickedElements(const std::string &initializer);
// The same for several parameters that were joined (cat, stack).
bool isNameOfJoinedElements(const std::string &initializer);
// For a name in `foldedFrom`: whether it is the result of a function that moves, picks or joins elements, or that makes
// an index, a size or an initial state (arange, zeros). Results of exp, mul and all others are not.
bool isNameOfMoveOrItsOperand(const std::string &name);
// For such a name: whether it is the result of a function that no exporter uses for indices. Arithmetic is used for
// both.
bool isNameOfFloatFunction(const std::string &name);

// Initializers that the model's training_info updates; empty: the model has none.
std::set<std::string> updatedByTrainingInfo(const onnx_proto::ModelProto &model);

}  // namespace popart::onnx
