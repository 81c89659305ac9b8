// fitIntoMemory: changes a program that needs more than a limit until it fits, by recomputing activations or keeping
// tensors off chip, with the least predicted time. Results keep their bits. Programs that fit are never passed to it.
#pragma once
#include <functional>
#include <set>

#include <popart/memoryfit.hpp>

#include "lower/program.hpp"
#include "pipeline/prepare.hpp"

namespace popart::fitting {

// Makes the request to prepare a program; equal for each call, except for the constants that become variables.
using MakeRequest = std::function<pipeline::PrepareRequest(const std::set<TensorId> &variables)>;

struct FitRequest {
  MakeRequest prepare;
  std::set<TensorId> constants;               // constants that may become variables, to be kept off chip
  lower::LowerOptions lowering;               // its memory limit is ignored
  const lower::Backends *backends = nullptr;  // must be set; those of `lowering`
  int64_t mostBytes = 0;                      // limit of one replica on the device; above 0
  bool movesOffChip = true;                   // whether remote memory is not counted in the limit
  int replicas = 1;                           // replicas that share `mostBytes` x replicas
};

struct Fitted {
  pipeline::Prepared prepared;
  lower::Program program;  // of `prepared`
  MemoryFit report;
};

// `plain`: the unchanged program, which does not fit. Compiles at most kMostCompilations programs; logs the plan and
// each attempt. Throws memory_allocation_err, with the cheapest remedies, if none fits.
Fitted fitIntoMemory(const FitRequest &request, const lower::Program &plain);
constexpr int kMostCompilations = 10;

// The report as lines: "  computed again: 12 tensors, 1048576 bytes\n".
std::string toText(const MemoryFit &fit);

}  // namespace popart::fitting
