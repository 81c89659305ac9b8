// moveOffChip: keeps tensors outside of the device's memory. A variable is stored in remote memory: each phase of the
// program (forward pass, backward pass, update) loads it before its first use and stores it after the last change, so
// that it needs no memory in between. An activation that the backward pass reads is stored when it is computed and
// loaded again before its first use there (remote variable `RemoteArg___<id>`).
//
//   %y = MatMul(%x, %w)        %w' = RemoteLoad() {remote_buffer = "w"}    %y = MatMul(%x, %w')
#pragma once
#include <map>
#include <optional>

#include <popart/ir.hpp>

namespace popart::transforms {

// Which tensors are kept off chip.
struct OffChip {
  struct Kind {
    bool offChip = false;
    int64_t leastElements = 2;  // smaller tensors stay on the device
  };
  Kind weights, optimizerState, accumulators, activations;
  enum class Held : uint8_t { Weight, OptimizerState, Accumulator };
  static Held heldAs(const Tensor &variable);  // the kind of a variable
  std::map<TensorId, bool> byTensor;           // takes precedence over kind and size
  // Execution phases (execution_phases.hpp) instead of forward and backward pass: which tensors are loaded when the
  // phase before that of their reader starts, and whether the loads and stores of a phase are at its start and end.
  struct Phases {
    int64_t count = 2;  // number of phases of the forward pass
    bool preloadWeights = true, preloadActivations = true, preloadOptimizerState = false, preloadAccumulators = true;
    bool clustersIo = false;
  };
  std::optional<Phases> phases;
  bool any() const;
  bool preloads(const Tensor &variable) const;
  bool holds(const Tensor &variable) const;  // floating point, or in `byTensor`
};

// For the whole program, with host streams and without loops. `loss`: the tensor after which the backward pass starts;
// empty or unknown: there is none. `accumulates`: an update has several micro-batches.
void moveOffChip(Ir &ir, const OffChip &rules, const TensorId &loss, bool accumulates);

}  // namespace popart::transforms
