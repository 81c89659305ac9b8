// Which tensors of a model train, for the importer, the writer and people. The order of the rules and the reasons are
// in docs/decisions/0078-what-trains.md.
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

// The caller's choices: names or patterns.
struct TrainingWishes {
  std::vector<std::string> trainable, frozen;  // empty: by classification, and none
  // Whether the optimizer never changes the tensor of that name (a constant learning rate of 0); empty: it changes all.
  std::function<bool(const TensorId &)> isFrozenByOptimizer = {};
};

// An initializer with the elements of another one: the program has them once, the file twice.
struct TiedCopy {
  std::string original;
  bool isTransposed = false;  // a matrix; otherwise the elements are in the same order
};

struct TrainableTensors {
  std::vector<TrainableTensor> tensors;  // in the order of the file
  std::set<TensorId> trained;            // names of the tensors that train and of their copies
  std::set<TensorId> variables;          // all variables of a training program, including statistics
  // For an inference program whose weights are variables: also the tensors that a program might replace.
  std::set<TensorId> replaceable;
  std::map<TensorId, TiedCopy> copies;    // name -> the original of the copy; both train
  std::map<TensorId, TensorId> separate;  // output of an Identity that is a separate tensor -> the node's initializer
  std::map<const onnx_proto::TensorProto *, TensorId> inBodies;  // initializers of bodies that are variables
  std::vector<std::string> warnings;                             // about parameters that no initializer holds
};

// Throws popart::error like popart::trainableTensors.
TrainableTensors trainableTensors(const Model &model, const TrainingWishes &wishes = {});

// The elements of a copy, made from those of the original.
TensorData copyOf(const TiedCopy &copy, const TensorData &original, const Shape &shape);

// Initializers of bodies that may be variables: their names and messages.
std::map<TensorId, const onnx_proto::TensorProto *> initializersOfBodies(const ModelContent &model);

}  // namespace popart::onnx
