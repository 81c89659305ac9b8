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
    Shape whole{};           // expectedInputShape
  };
  // An anchor.
  struct Output {
    TensorInfo info;            // one value of one replica
    AnchorReturnType returned;  // which values of a step come back
    Shape whole{};              // expectedOutputShape
  };
  std::map<TensorId, Input> inputs;  // by tensor id
  std::map<TensorId, Output> outputs;
  std::set<TensorId> modelInputs;  // named by the model but not read by the compiled program
  std::set<TensorId> weights;      // initializers of the model: a step does not feed them
  bool trains = false;             // a training session
  int64_t batchesPerStep = 1;      // as in DataFlow; the factors are 1 when off
  int64_t accumulationFactor = 1;
  int64_t replicationFactor = 1;

  // Of a whole step (docs/compat/sessions.md), without leading dimensions of 1.
  Shape expectedInputShape(const Input &input) const;
  Shape expectedOutputShape(const Output &output) const;
  void fillWholeShapes();  // `whole` of every input and output; after the last change of the other members
  // Throw popart::runtime_error when an array of `shape` does not hold the values of a step in their order
  // (`holdsInOrder`), or the tensor is unknown. An array of the shape `whole` costs a comparison.
  void checkInput(const TensorId &id, const Shape &shape) const;
  void checkOutput(const TensorId &id, const Shape &shape) const;

 private:
  void checkUnread(const TensorId &id) const;  // of an input that the program does not read
  mutable std::set<TensorId> warned_;          // inputs that the program does not read
};

// Whether an array of shape `got` holds the values of one of shape `expected` in the same order: the same dimensions,
// where neighbours may be joined to one and dimensions of 1 left out or added. [6, 4] and [24] hold [2, 3, 4], [3, 8]
// does not.
bool holdsInOrder(const Shape &got, const Shape &expected);

}  // namespace popart::popx
