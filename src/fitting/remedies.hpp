// The refusal of a program that nothing makes fit, with what its user could do.
#pragma once
#include <optional>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::fitting {

// A program that was compiled on the way: its memory and its time as a multiple of the plain program's.
struct Attempt {
  executable::MemoryReport memory;
  double times = 1;
};

// What its user asked for, and in whose words remedies are: options of popart's sessions, or statements of PopXL.
struct Asked {
  enum class Words : uint8_t { Popart, Popxl };
  const Ir &ir;
  Words words = Words::Popart;
  bool keepsGradients = true;  // up to the update: memory does not fall below the largest one
  bool accumulates = false;    // popart: gradients over micro-batches
  int64_t accumulationFactor = 1;
};
Asked askedOf(const pipeline::PrepareRequest &request);

struct Refusal {
  const lower::Compiled &plain;
  double plainMilliseconds = 1;  // predicted
  int64_t mostBytes = 0;         // of one replica
  int replicas = 1;
  Asked asked;
  std::optional<Attempt> smallest;  // with all choices; none: there were none
  std::optional<Attempt> inFiles;   // one that fits once remote memory is files
};

// Throws memory_allocation_err: what is needed, what is allowed, at most three remedies, those first that cost the
// least time, and the largest tensors. Remedies that no plan was made for say "about".
[[noreturn]] void throwDoesNotFit(const Refusal &refusal);

}  // namespace popart::fitting
