// Executablex: how much one run of a compiled session reads and writes, as element counts per stream. IStepIO
// implementations check their arrays against it.
#pragma once
#include <map>
#include <set>
#include <string>

#include <popart/dataflow.hpp>
#include <popart/istepio.hpp>
#include <popart/tensorinfo.hpp>

namespace popart::popx {

// The sizes of one step of one session.
// compat: the class name is that of the argument of PopART's IStepIO::assertNumElements.
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
    AnchorReturnType returned;  // which values of a step are returned
    Shape whole{};              // expectedOutputShape
  };
  std::map<TensorId, Input> inputs;  // by tensor id
  std::map<TensorId, Output> outputs;
  std::set<TensorId> modelInputs;  // inputs of the model, whether or not the program reads them
  std::set<TensorId> weights;      // initializers of the model: a step does not feed them
  bool trains = false;             // a training session
  int64_t batchesPerStep = 1;      // as in DataFlow; the factors are 1 when off
  int64_t accumulationFactor = 1;
  int64_t replicationFactor = 1;

  // The shape for a whole step (docs/compat/sessions.md), without leading dimensions of 1.
  Shape expectedInputShape(const Input &input) const;
  Shape expectedOutputShape(const Output &output) const;
  void fillWholeShapes();  // `whole` of every input and output; must come after all changes of the other members
  // Throw popart::runtime_error when an array of `shape` does not hold the values of a step in their order (see
  // `holdsInOrder`), or the tensor is unknown. For an array of the shape `whole` this is one comparison.
  void checkInput(const TensorId &id, const Shape &shape) const;
  void checkOutput(const TensorId &id, const Shape &shape) const;

 private:
  void checkUnread(const TensorId &id) const;  // for an input that the program does not read
  mutable std::set<TensorId> warned_;          // inputs that the program does not read
};

// Whether an array of shape `got` holds the values of an array of shape `expected` in the same order: the dimensions
// are the same, except that neighbours may be joined and dimensions of 1 left out or added. [6, 4] and [24] hold [2, 3,
// 4], [3, 8] does not.
bool holdsInOrder(const Shape &got, const Shape &expected);

}  // namespace popart::popx
