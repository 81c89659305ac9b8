// Execution phases: the program as a sequence of phases, between which tensors off chip (off_chip.hpp) leave the
// device. The forward pass has phases 0 to P - 1; what belongs to phase p runs in phase 2 P - 2 - p of the backward
// pass, so that the last phase of the one is the first of the other.
#pragma once
#include <optional>

#include <popart/graph.hpp>

namespace popart::transforms {

// Gives every op of a forward graph its phase: the one that it is annotated with or, where none is, one of `phases`
// stretches of the schedule with equal shares of work. Throws popart::error for a graph in which some ops have a phase
// and others have none, a phase that is not below `phases`, and an op that reads what a later phase makes.
void assignExecutionPhases(Graph &graph, int64_t phases);

// On the whole program: turns the phases of forward ops into those of the program, `firstGradient`: the place of the
// first op of the backward pass, if there is one; set to its new place. Ops that passes have added run in the phase of
// what they read, and otherwise of what reads them. Op::Settings::sequence then has the program phase by phase,
// vgraphId the one of `stages` IPUs that a phase runs on.
void placeExecutionPhases(Graph &graph, int64_t phases, int64_t stages, std::optional<int64_t> &firstGradient);

}  // namespace popart::transforms
