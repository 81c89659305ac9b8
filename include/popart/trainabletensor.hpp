// What trains: one entry for each floating-point initializer of a model, with the reason
// (docs/decisions/0078-what-trains.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <popart/names.hpp>
#include <popart/tensorinfo.hpp>

namespace popart {

// One floating-point initializer of a model, bodies of If, Loop and Scan included.
struct TrainableTensor {
  TensorId name;       // of an initializer of a body: its own where no other tensor has it, else with the body's place
  TensorInfo info;     // as stored
  bool trains;         // whether a training session updates it by its gradient
  std::string reason;  // "weight: W of Conv 'conv1'"; for people
  bool doubtful;       // another reading of the model is possible: look at it, and say `trainable` or `frozen`
  TensorId source;  // initializer with its first values: `name`, or, for what an Identity makes a tensor of its own of
                    // an initializer that is stored once for several, that one
};

// Of a model: the name of a file or ModelProto bytes. `trainable`: names or patterns (fnmatch: *, ?, [a-c], [!a]) of
// those that train, all others are frozen; empty: as classified. `frozen`: of those that do not. Throws popart::error
// for models that cannot be read, names and patterns that match none (with the nearest names), and statistics named in
// `trainable`.
std::vector<TrainableTensor> trainableTensors(std::string_view modelProtoOrFilename,
                                              const std::vector<std::string> &trainable = {},
                                              const std::vector<std::string> &frozen = {});

}  // namespace popart
