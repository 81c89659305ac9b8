// moveOffChip: tensors that are kept outside of the device's memory. A variable moves to remote memory: each phase of
// the program (forward pass, backward pass, update) loads it before its first use there and stores it after the last
// change, so that in between it takes no memory. An activation that the backward pass reads is stored when it is made
// and loaded again before its first use there (remote variable `RemoteArg___<id>`).
//
//   %y = MatMul(%x, %w)        %w' = RemoteLoad() {remote_buffer = "w"}    %y = MatMul(%x, %w')
#pragma once
#include <map>
#include <optional>

#include <popart/ir.hpp>

namespace popart::transforms {

// What is kept off chip.
struct OffChip {
  struct Kind {
    bool offChip = false;
    int64_t leastElements = 2;  // smaller tensors stay
  };
  Kind weights, optimizerState, accumulators, activations;
  enum class Held : uint8_t { Weight, OptimizerState, Accumulator };
  static Held heldAs(const Tensor &variable);  // what a variable is
  std::map<TensorId, bool> byTensor;           // comes before the kind, whatever the size
  // Execution phases (execution_phases.hpp) in place of forward and backward pass: what is loaded when the phase in
  // front of that of its reader begins, and whether the loads and stores of a phase stand at its beginning and end.
  struct Phases {
    int64_t count = 2;  // of the forward pass
    bool preloadWeights = true, preloadActivations = true, preloadOptimizerState = false, preloadAccumulators = true;
    bool clustersIo = false;
  };
  std::optional<Phases> phases;
  bool any() const;
  bool preloads(const Tensor &variable) const;
  bool holds(const Tensor &variable) const;  // floating point, or named
};

// On the whole program, with its host streams and before its loops. `loss`: the tensor behind which the backward pass
// begins; empty or unknown: there is none. `accumulates`: several micro-batches make one update.
void moveOffChip(Ir &ir, const OffChip &rules, const TensorId &loss, bool accumulates);

}  // namespace popart::transforms
