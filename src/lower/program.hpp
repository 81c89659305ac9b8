// Program: the result of lowering, and the input of every device. Flat functional graphs in which each op has a kernel
// on the device; memory layouts are facts of tensors. It is a value: it can be printed, read, checked and compiled
// alone.
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
  std::vector<std::string> backends;  // names of the backends it was lowered for, in order
};

struct LowerOptions {
  // Backends in order; the first that accepts an op runs it: {cpu, ref}.
  std::vector<const executable::Backend *> backends;
  EvaluateOp evaluate;                  // folds transposes that no product reads; empty: they are not folded
  int threads = 1;                      // that kernels and scratch memory are planned for; results never depend on it
  bool sharesScratch = true;            // Device::sharesScratch
  bool fuse = true;                     // false: one kernel per op, plain layouts (tests compare both)
  bool checkFloats = false;             // check results at run time (floating_point_checks.hpp)
  bool roundStochastically = false;     // round 16-bit results stochastically (stochastic_rounding.hpp)
  bool ignoreLabelsOutOfRange = false;  // losses ignore them; otherwise they end the run
  bool checkLog2Scales = true;          // end runs if a log2 scale of FLOAT8 values is out of range
  CollectiveRules collectives;          // how collectives over replicas are merged and split
  bool keepText = false;                // fill Executable::loweredText
  LaneRule lanes = LaneRule::Auto;      // whether stages of a pipeline's cycle run at the same time
  int64_t maxMemoryBytes = 0;           // for one replica; above it memory_allocation_err; 0: no limit
  int replicas = 1;                     // number of replicas that run the program
  int locals = 0;                       // replicas in one process; 0: all
  // Memory of collectives with other processes in one process; empty: none.
  std::function<int64_t(const executable::Executable &)> exchangeBytes;
  std::set<std::string> passesOff;      // names of passes that are switched off (pipeline/passes_off.hpp)
  std::shared_ptr<CompileTimes> times;  // receives the times of lowering passes; null: not recorded
  int threadsInArena() const { return sharesScratch ? threads : 0; }  // those whose large scratch memory is there
  int localReplicas() const { return locals > 0 ? locals : replicas; }
};

// The backends of the options.
Backends remember(const LowerOptions &options);  // throws internal_error if there is none

// "program for cpu, ref" and the graphs. parseProgram(print(p)) compiles to the same executable. parseProgram throws
// popart::error with the line if the text is not a program, and as verify.
std::string print(const Program &program, PrintData data = PrintData::Full);
Program parseProgram(std::string_view text);
// The same with large values in a table and variables without values (programs on disk). `first`: returns the initial
// values of a variable, or nothing; may be empty.
using FirstValues = std::function<TensorData(const TensorId &variable)>;
std::string printWithTable(const Program &program, ValueTable &table);
Program parseProgram(std::string_view text, const FindValues &find, const FirstValues &first = {});
// Throws popart::error, naming op or tensor, for: remaining calls, in-place ops, a body with two callers, unknown
// layouts, layouts of streams and of the program's outputs.
void verify(const Program &program);

// The steps after lowering: schedule, kernels, memory plan, steps. Throws popart::error if an op has no kernel on any
// backend (naming op and reasons), memory_allocation_err above options.maxMemoryBytes.
std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options,
                                                      const Backends &backends);
std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options);

// The intermediate results of compile, for people and tests.
struct Compiled {
  schedule::Schedule schedule;
  memory::MemoryPlan plan;
  std::shared_ptr<const executable::Executable> executable;
};
Compiled compileInSteps(const Program &program, const LowerOptions &options, const Backends &backends);

}  // namespace popart::lower
