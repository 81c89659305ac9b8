// What one run of a compiled session reads and writes: element counts per stream. IStepIO implementations check against
// it.
#pragma once
#include <map>
#include <set>
#include <string>

#include <popart/dataflow.hpp>
#include <popart/istepio.hpp>
#include <popart/tensorinfo.hpp>

namespace popart::popx {

// compat: the class name that PopART's IStepIO::assertNumElements takes.
// Sizes of one step of one session.
class Executablex {
 public:
  // An input stream.
  struct Input {
    TensorInfo info;         // one micro-batch of one replica
    bool broadcast = false;  // all replicas read the same values
  };
  // An anchor.
  struct Output {
    TensorInfo info;            // one value of one replica
    AnchorReturnType returned;  // which values of a step come back
  };
  std::map<TensorId, Input> inputs;  // by tensor id
  std::map<TensorId, Output> outputs;
  std::set<TensorId> modelInputs;  // named by the model but not read by the compiled program
  int64_t batchesPerStep = 1;      // as in DataFlow; the factors are 1 when off
  int64_t accumulationFactor = 1;
  int64_t replicationFactor = 1;

  // Of a whole step (docs/compat/sessions.md), without leading dimensions of 1.
  Shape expectedInputShape(const Input &input) const;
  Shape expectedOutputShape(const Output &output) const;
  // Throw popart::runtime_error when `shape` has not as many elements as a step needs, or the tensor is unknown.
  void checkInput(const TensorId &id, const Shape &shape) const;
  void checkOutput(const TensorId &id, const Shape &shape) const;
};

}  // namespace popart::popx
