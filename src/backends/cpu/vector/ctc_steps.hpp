// Steps of the lattice of connectionist temporal classification (ctc.cpp), vectorised per instruction set.
//
//   state s, one label or a blank:   next[s] = (previous[s] + previous[s - 1] + previous[s - 2]) e^logProbs[s]
//                                    the last term only where state s may follow s - 2
//
// A probability is mantissa · 2^exponent, two floats: the mantissa in [1, 2) or 0, the exponent a whole number. So
// products over thousands of steps neither vanish nor lose digits, and no logarithm is taken within the lattice.
// Invariant: states are independent of each other; neither the vector width nor the partition changes a bit.
#pragma once
#include <cstdint>

namespace popart::cpu {

// The exponent of a probability of 0, and the number that is added to the exponent of a transition that does not exist,
// which is then below all others.
constexpr float kCtcNever = -1e38f, kCtcNoSkip = -2e38f;

// Probabilities of the states; the pointers are to state 0. Two entries before and after the states are read as well:
// they are the probability 0.
struct CtcRow {
  float *mantissas, *exponents;
};
struct CtcStates {
  int64_t count;
  // [count + 2]: 0 if state s may follow s - 2 directly, else kCtcNoSkip; kCtcNoSkip also after the last state.
  const float *skips;
};
struct CtcLikelihood {
  float mantissa, exponent;
};

// Computes the next step from the previous one. logProbs[s]: of the next step and the label of state s.
void ctcForward(const CtcStates &states, const CtcRow &previous, const float *logProbs, const CtcRow &next) noexcept;

// Computes a step from the one after it. `following` are the probabilities of all continuations from the following step
// on; `next` receives the same from this step on. logProbs are the logarithms of this step, and `forward` is its result
// of ctcForward. expected[s] = the part of the likelihood that goes through state s at this step; may be logProbs.
void ctcBackward(const CtcStates &states, const CtcRow &following, const float *logProbs, const CtcRow &forward,
                 const CtcLikelihood &likelihood, const CtcRow &next, float *expected) noexcept;

}  // namespace popart::cpu
