// The lists of nodes in a message, each with the meaning of its names: the main graph, bodies of nodes, and functions.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace google::protobuf {
template <class T>
class RepeatedPtrField;
}

namespace popart::onnx {

// One list of nodes. Exactly one of graph and function is set.
struct Level {
  onnx_proto::GraphProto *graph = nullptr;
  onnx_proto::FunctionProto *function = nullptr;
  const Level *outer = nullptr;  // for a body: the list that contains its node
  int64_t onnxOpset = 1;         // version of ai.onnx

  google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> &nodes() const;
  std::vector<std::string> outputs() const;
};

// All levels, outer ones first. Pointers are valid until nodes are added to or removed from a level that has bodies.
std::list<Level> levelsOf(onnx_proto::ModelProto &model);
// Every name of a tensor in the message.
std::set<std::string> tensorNames(onnx_proto::ModelProto &model);
// An unused name similar to `wanted`; it is added to `names`.
std::string unusedName(std::set<std::string> &names, const std::string &wanted);
// Gives inputs of nodes (also in bodies) and outputs of bodies the new names.
void renameReads(google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> &nodes,
                 const std::map<std::string, std::string> &names);
// Names that nodes of the list read, including names read in their bodies.
std::set<std::string> namesRead(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto> &nodes);
bool isOnnxOperator(const onnx_proto::NodeProto &node, const char *type);

// Which names have values that no run changes: constants, initializers, and values computed from them by Identity,
// Cast, Not and similar operators. Inputs of functions count if every call passes such a value.
class FixedNames {
 public:
  explicit FixedNames(onnx_proto::ModelProto &model);
  bool isFixed(const std::string &name, const Level &level) const;
  // The truth value of such a name if it is stated: 0 or 1; otherwise -1.
  int truth(const std::string &name, const Level &level) const;
  const std::list<Level> &levels() const { return levels_; }

 private:
  struct Call {
    const onnx_proto::NodeProto *node;
    const Level *level;
  };
  std::list<Level> levels_;
  std::map<const Level *, std::map<std::string, const onnx_proto::NodeProto *>> producers_;
  std::map<const Level *, std::map<std::string, const onnx_proto::TensorProto *>> initializers_;
  std::map<std::string, std::vector<Call>> calls_;  // of functions
  mutable std::set<std::pair<const Level *, std::string>> asked_;
};

}  // namespace popart::onnx
