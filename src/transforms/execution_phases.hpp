// Execution phases: the program as a sequence of phases, between which tensors that are off chip (off_chip.hpp) leave
// the device. The forward pass has phases 0 to P - 1. The backward pass of phase p runs in phase 2 P - 2 - p, so that
// the last phase of the forward pass is the first of the backward pass.
#pragma once
#include <optional>

#include <popart/graph.hpp>

namespace popart::transforms {

// Gives every op of a forward graph its phase: the annotated one or, if no op has one, one of `phases` ranges of the
// schedule with equal cost. Throws popart::error if only some ops have a phase, if a phase is not below `phases`, or if
// an op reads a result of a later phase.
void assignExecutionPhases(Graph &graph, int64_t phases);

// For the whole program: converts the phases of forward ops to those of the program. `firstGradient`: place of the
// first op of the backward pass, if there is one; set to its new place. Ops that passes have added run in the phase of
// their operands or, without any, in that of their readers. Afterwards Op::Settings::sequence orders the program phase
// by phase, and vgraphId is the one of `stages` IPUs that a phase runs on.
void placeExecutionPhases(Graph &graph, int64_t phases, int64_t stages, std::optional<int64_t> &firstGradient);

}  // namespace popart::transforms
