// The error for a program that cannot be made to fit, with remedies.
#pragma once
#include <optional>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::fitting {

// A compiled attempt: its memory, and its time as a multiple of the plain program's time.
struct Attempt {
  executable::MemoryReport memory;
  double times = 1;
};

// The user's settings, and the interface for whose users remedies are written: options of popart, or PopXL.
struct Asked {
  enum class Words : uint8_t { Popart, Popxl };
  const Ir &ir;
  Words words = Words::Popart;
  bool keepsGradients = true;  // until the update: memory is at least that of the largest gradient
  bool accumulates = false;    // popart: gradients are accumulated over micro-batches
  int64_t accumulationFactor = 1;
};
Asked askedOf(const pipeline::PrepareRequest &request);

struct Refusal {
  const lower::Compiled &plain;
  double plainMilliseconds = 1;  // predicted
  int64_t mostBytes = 0;         // of one replica
  int replicas = 1;
  Asked asked;
  std::optional<Attempt> smallest;  // with all choices; nullopt: there were none
  std::optional<Attempt> inFiles;   // one that fits if remote memory is in files
};

// Throws memory_allocation_err with: needed and allowed bytes, at most three remedies, in ascending order of time, and
// the largest tensors. Remedies without a memory plan say "about".
[[noreturn]] void throwDoesNotFit(const Refusal &refusal);

}  // namespace popart::fitting
