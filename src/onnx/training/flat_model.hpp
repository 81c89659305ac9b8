// FlatModel: a model as one list of nodes. Functions are expanded, nodes in bodies of If, Loop and Scan are in the
// list, and values have numbers instead of names. It is used to find all readers of a tensor.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Types of nodes that the list has in addition to the model's: a value that is one of several (results of If and Loop,
// a slice that a body of Scan reads), and the state that one iteration passes to the next, whose operand 0 is the first
// state.
constexpr const char *kJoin = "/join", *kState = "/state";

struct FlatNode {
  const onnx_proto::NodeProto *proto = nullptr;  // null: kJoin, kState
  std::string domain, type;                      // "ai.onnx" for the default domain
  int64_t opset = 1;                             // of the domain
  std::vector<int> inputs = {}, outputs = {};    // values; -1: left out
  std::string text = {};                         // for messages: "Conv 'conv1'"
  bool isOfMainGraph = false;                    // not in a body or function
};

struct FlatUse {
  int node, input;
};

// Whether a type of nodes is in the list.
inline bool isOneOf(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, type) != types.end();
}

// An initializer of floating-point type.
struct FlatInitializer {
  std::string id;  // the name of its variable: its name, or for bodies a name that no other tensor of the model has
  const onnx_proto::TensorProto *tensor = nullptr;
  int value = 0;
  bool isInBody = false;
  bool isInFunction = false;  // in a body within a function
};

struct FlatModel {
  std::vector<FlatNode> nodes;  // producers may come later
  // Indexed by value.
  std::vector<std::vector<FlatUse>> uses;
  std::vector<int> producer;                  // node, -1: none
  std::vector<bool> isStatic;                 // depends only on initializers and constants
  std::vector<int> initializer;               // -1: none; of any type: its number in `initializers`, or kOther
  std::vector<std::string> nameOf;            // in its graph
  std::vector<FlatInitializer> initializers;  // in the order of the file, the main graph's first
  static constexpr int kOther = -2;
};

// The nodes of a function are listed for each call, up to the importer's limit of nodes; the importer refuses models
// above this limit.
FlatModel flatModel(const ModelContent &model);

}  // namespace popart::onnx
