// fitIntoMemory: a program that needs more than a limit becomes one that computes activations again, or keeps tensors
// off chip, until it fits, with the least predicted time. Results are the same bits. Programs that fit never come here.
#pragma once
#include <functional>
#include <set>

#include <popart/memoryfit.hpp>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::fitting {

// What a program is prepared from, anew at each call and each time the same, but for the constants that are variables.
using MakeRequest = std::function<pipeline::PrepareRequest(const std::set<TensorId> &variables)>;

struct FitRequest {
  MakeRequest prepare;
  std::set<TensorId> constants;               // that may become variables, to lie off chip
  lower::LowerOptions lowering;               // its limit does not count here
  const lower::Backends *backends = nullptr;  // set; those of `lowering`
  int64_t mostBytes = 0;                      // that one replica may have on the device; above 0
  bool movesOffChip = true;                   // remote memory is other memory than the limited one
  int replicas = 1;                           // that share `mostBytes` x replicas
};

struct Fitted {
  pipeline::Prepared prepared;
  lower::Program program;  // of `prepared`
  MemoryFit report;
};

// `plain`: the program as it is, which does not fit. At most kMostCompilations programs are compiled; the plan and each
// attempt are logged. Throws memory_allocation_err, with the remedies that cost the least, when none fits.
Fitted fitIntoMemory(const FitRequest &request, const lower::Program &plain);
constexpr int kMostCompilations = 10;

// The report as lines: "  computed again: 12 tensors, 1048576 bytes\n".
std::string toText(const MemoryFit &fit);

}  // namespace popart::fitting
