// Which tensors train: one entry for each floating-point initializer of a model, with the reason
// (docs/decisions/0078-what-trains.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <popart/names.hpp>
#include <popart/tensorinfo.hpp>

namespace popart {

// One floating-point initializer of a model, including those in bodies of If, Loop and Scan.
struct TrainableTensor {
  TensorId name;  // for an initializer of a body: its own name if no other tensor has it, else with the body's position
  TensorInfo info;     // as stored
  bool trains;         // whether a training session updates it with its gradient
  std::string reason;  // "weight: W of Conv 'conv1'"; readable text
  bool doubtful;       // the model can be read in another way: check it, and set `trainable` or `frozen`
  TensorId source;     // the initializer with its initial values: `name`; for a tensor that an Identity copies, or for
                       // one of several tensors that are stored once, the stored initializer
};

// For a model, given as the name of a file or as ModelProto bytes. `trainable`: names or patterns (fnmatch: *, ?,
// [a-c], [!a]) of the tensors that train, all others are frozen; empty: as classified. `frozen`: of tensors that do not
// train. Throws popart::error for models that cannot be read, names and patterns that match none (with the nearest
// names), and statistics named in `trainable`.
std::vector<TrainableTensor> trainableTensors(std::string_view modelProtoOrFilename,
                                              const std::vector<std::string> &trainable = {},
                                              const std::vector<std::string> &frozen = {});

}  // namespace popart
