// Program: the result of lowering, input of every device. Flat functional graphs in which each op has a kernel on the
// device, with memory layouts as facts of tensors. A value: it can be printed, read back, checked and compiled alone.
//
//   Ir --passes--> Program --schedule--> Schedule --planMemory--> MemoryPlan --emit--> Executable
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <popart/ir.hpp>

#include "base/compile_times.hpp"
#include "executable/executable.hpp"
#include "ir/text.hpp"
#include "lower/choose_lanes.hpp"
#include "lower/collectives.hpp"
#include "lower/kernel_cache.hpp"
#include "memory/plan.hpp"
#include "ops/constant_evaluation.hpp"

namespace popart::lower {

struct Program {
  std::shared_ptr<const Ir> ir;
  std::vector<std::string> backends;  // names of the kernel providers it was lowered for, in order
};

struct LowerOptions {
  // Ordered kernel providers; the first that accepts wins: {cpu, ref}.
  std::vector<const executable::Backend *> backends;
  EvaluateOp evaluate;                  // computes transposes of constants that no product reads; empty: they stay
  int threads = 1;                      // what kernels and scratch memory are planned for; results never depend on it
  bool fuse = true;                     // false: one kernel per op, plain layouts (tests compare both)
  bool checkFloats = false;             // results are checked as the program runs (floating_point_checks.hpp)
  bool roundStochastically = false;     // 16-bit results are rounded at random (stochastic_rounding.hpp)
  bool ignoreLabelsOutOfRange = false;  // losses leave them out; otherwise they end the run
  bool checkLog2Scales = true;          // runs end where a log2 scale of FLOAT8 values is out of range
  CollectiveRules collectives;          // how collectives over replicas are put together and cut in two
  bool keepText = false;                // fill Executable::loweredText
  LaneRule lanes = LaneRule::Auto;      // whether stages of a pipeline's cycle run at the same time
  int64_t maxMemoryBytes = 0;           // of one replica; 0: no limit; otherwise memory_allocation_err above it
  int replicas = 1;                     // that run the program
  int locals = 0;                       // of these in one process; 0: all of them
  // Memory that its collectives with other processes take in a process; empty: none.
  std::function<int64_t(const executable::Executable &)> exchangeBytes;
  std::set<std::string> passesOff;      // names of passes that do not run (pipeline/passes_off.hpp)
  std::shared_ptr<CompileTimes> times;  // to which lowering adds those of its passes; null: nobody asks
  int localReplicas() const { return locals > 0 ? locals : replicas; }
};

// The backends of the options.
Backends remember(const LowerOptions &options);  // throws internal_error when there is none

// "program for cpu, ref" and the graphs. parseProgram(print(p)) compiles to the same executable. parseProgram throws
// popart::error with the line for text that is no program, and what verify throws.
std::string print(const Program &program, PrintData data = PrintData::Full);
Program parseProgram(std::string_view text);
// The same with large values in a table and variables without values (programs on disk). `first`: the values that a
// variable starts with, or nothing; may be empty.
using FirstValues = std::function<TensorData(const TensorId &variable)>;
std::string printWithTable(const Program &program, ValueTable &table);
Program parseProgram(std::string_view text, const FindValues &find, const FirstValues &first = {});
// Throws popart::error, naming op or tensor: calls that are left, ops in place, a body with two callers, unknown
// layouts, layouts of streams and of the program's outputs.
void verify(const Program &program);

// Everything that follows lowering: schedule, kernels, memory plan, steps. Throws popart::error when an op has no
// kernel on any backend (naming op and reasons), memory_allocation_err above options.maxMemoryBytes.
std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options,
                                                      const Backends &backends);
std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options);

// What compile made on the way, for people and tests.
struct Compiled {
  schedule::Schedule schedule;
  memory::MemoryPlan plan;
  std::shared_ptr<const executable::Executable> executable;
};
Compiled compileInSteps(const Program &program, const LowerOptions &options, const Backends &backends);

}  // namespace popart::lower
