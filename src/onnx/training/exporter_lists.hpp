// What a file says of its tensors: the lists of parameters and buffers that PyTorch's exporter based on torch.export
// writes as metadata, and `training_info` of ONNX.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Of the main graph. Texts are untrusted: what does not parse lists nothing.
struct ExporterLists {
  std::set<std::string> parameters, buffers;  // by the program's names, whether they are initializers or not
  // Initializer -> tensors that its values were computed from when the model was written.
  std::map<std::string, std::set<std::string>> foldedFrom;
  std::set<std::string> timesOne;   // a factor that a call of addcmul without a value multiplies by 1
  std::set<std::string> ofProgram;  // initializers that a node with metadata of the exporter reads, or none at all
  bool any() const { return !parameters.empty() || !buffers.empty(); }
};
ExporterLists exporterLists(const onnx_proto::GraphProto &graph);

// Whether the initializer's name says that it is a parameter with its elements in another order (t, transpose, view,
// permute …; val_N: moved for the ONNX operator), not another function of it (exp, mul …).
bool isNameOfMovedElements(const std::string &initializer);
// Whether the name says that rows of a parameter were picked (embedding, index_select …).
bool isNameOfPickedElements(const std::string &initializer);
// The same of several parameters, joined (cat, stack).
bool isNameOfJoinedElements(const std::string &initializer);
// Of a name in `foldedFrom`: whether it is a result of a function that moves, picks or joins elements, or that makes an
// index, a size or an initial state (arange, zeros). exp, mul and all others are not.
bool isNameOfMoveOrItsOperand(const std::string &name);
// The same: whether it is a result of a function that no exporter uses for indices. Arithmetic is used for both.
bool isNameOfFloatFunction(const std::string &name);

// Initializers that the model's training_info updates; empty: it has none.
std::set<std::string> updatedByTrainingInfo(const onnx_proto::ModelProto &model);

}  // namespace popart::onnx
