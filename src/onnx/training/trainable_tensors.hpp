// What trains in a model, for the importer, the writer and people. The order of the rules, and why, is on
// docs/decisions/0078-what-trains.md.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <popart/trainabletensor.hpp>

#include "onnx/model_content.hpp"

namespace popart::onnx {

class Model;

// What the caller says. Names or patterns.
struct TrainingWishes {
  std::vector<std::string> trainable, frozen;  // empty: as classified, none
  // Whether the optimizer never changes the tensor of that name (a constant learning rate of 0); empty: never so.
  std::function<bool(const TensorId &)> isFrozenByOptimizer = {};
};

// An initializer with the elements of another one, which a program has once and the file twice.
struct TiedCopy {
  std::string original;
  bool isTransposed = false;  // a matrix; otherwise the elements are in the same order
};

struct TrainableTensors {
  std::vector<TrainableTensor> tensors;  // in the order of the file
  std::set<TensorId> trained;            // names of those that train, and of copies of them
  std::set<TensorId> variables;          // all that are variables of a training program: statistics too
  // Of an inference program whose weights are variables: also what a program might want to replace.
  std::set<TensorId> replaceable;
  std::map<TensorId, TiedCopy> copies;    // name -> what it is a copy of; both train
  std::map<TensorId, TensorId> separate;  // output of an Identity that is a tensor of its own -> the node's initializer
  std::map<const onnx_proto::TensorProto *, TensorId> inBodies;  // initializers of bodies that are variables
  std::vector<std::string> warnings;                             // parameters that no initializer holds
};

// Throws popart::error as popart::trainableTensors.
TrainableTensors trainableTensors(const Model &model, const TrainingWishes &wishes = {});

// The elements of a copy, from those of the original.
TensorData copyOf(const TiedCopy &copy, const TensorData &original, const Shape &shape);

// Initializers of bodies that may be variables: their names and messages.
std::map<TensorId, const onnx_proto::TensorProto *> initializersOfBodies(const ModelContent &model);

}  // namespace popart::onnx
