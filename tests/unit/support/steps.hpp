// What a test asks of the steps of an executable made for the CPU.
#pragma once
#include <string>
#include <vector>

#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "executable/executable.hpp"

namespace popart::test {

// The backends of the CPU device, in its order.
inline const std::vector<const executable::Backend *> kCpu = {&cpu::backend(), &ref::backend()};

// The loops among the steps of the program itself, in order.
inline std::vector<const executable::Step *> loopsOf(const executable::Program &program) {
  std::vector<const executable::Step *> loops;
  for (const executable::Step &step : program.steps)
    if (step.kind == executable::Step::Kind::Loop) loops.push_back(&step);
  return loops;
}

// How many steps of the kind the program has, those of its lanes and of the programs inside of others among them.
inline size_t countSteps(const executable::Program &program, executable::Step::Kind kind) {
  size_t count = 0;
  for (const executable::Step &step : program.steps) {
    count += step.kind == kind;
    for (const auto &inner : step.programs) count += countSteps(*inner, kind);
  }
  return count;
}

// How many steps of the program itself run a kernel whose name has `name` in it.
inline int kernels(const executable::Program &program, const std::string &name) {
  int count = 0;
  for (const executable::Step &step : program.steps)
    count += step.kernel && step.kernel->name().find(name) != std::string::npos;
  return count;
}

}  // namespace popart::test
