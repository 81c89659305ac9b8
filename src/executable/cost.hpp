// The predicted cost of kernels, and how well their tasks keep threads busy. The model has a few numbers, in cost.cpp.
// It decides how many threads a kernel uses, never its results.
#pragma once
#include <string>
#include <vector>

#include "executable/executable.hpp"

namespace popart::executable {

// Nanoseconds that one thread needs for the kernel, or for these numbers of operations and bytes.
double predictedNanoseconds(const Kernel &kernel);
double predictedNanoseconds(double flops, double bytes);
double predictedCachedNanoseconds(double flops, double bytes);  // for bytes that are in the core's cache
// The same for the kernel of a step, whose operands may be in the cache.
double predictedNanoseconds(const Step &step);
// Whether a program's data of this size stays in a core's cache.
bool staysInCache(int64_t bytes);
// Nanoseconds of a copy of this size, within memory or to and from remote memory.
double copyNanoseconds(int64_t bytes);
// Nanoseconds for bytes that some threads have written and others read next.
double exchangeNanoseconds(int64_t bytes);
// Nanoseconds of one run on `threads` threads, with all iterations of loops: kernels, copies, transfers, without any
// overlap. A loop of unknown length counts once; of branches, the longer one counts.
double predictedRunNanoseconds(const Executable &executable, int threads);

// Nanoseconds of one run of the kernel with at most `threads` threads: as many as make it faster, including the cost of
// waking them and the wait for the last task of a round. `wakeUpNanoseconds`: the cost of waking this many threads,
// including the caller.
// `staysInCache`: as of a step.
double elapsedNanoseconds(const Kernel &kernel, int threads, bool staysInCache = false);
double wakeUpNanoseconds(int threads);

// Number of threads worth waking, in [1, threads], for `nanoseconds` of work in `tasks` equal tasks: each must save
// more time than it costs to wake it and wait for it.
int threadsThatPay(double nanoseconds, int tasks, int threads);

// The largest number of tasks in a round of the kernel.
int widestRound(const Kernel &kernel);

// How one kernel uses the threads.
struct KernelUse {
  std::string step, kernel;
  int tasks = 1;
  int available = 1;       // threads of its program: of programs that run at the same time, each has a share
  int threads = 1;         // that it uses, including the caller
  double nanoseconds = 0;  // predicted, on one thread
  double elapsed = 0;      // predicted nanoseconds with these threads, without waking
  double busy() const { return elapsed > 0 ? nanoseconds / (elapsed * available) : 1; }
};

// One row per kernel step of the program and of the programs inside its loops and branches, in order.
std::vector<KernelUse> threadUse(const Executable &executable, int threads);

// The rows as a table with column titles, for a program of `threads` threads. The last line sums up the kernels with
// more than 20 microseconds of work per thread.
std::string threadUseText(const std::vector<KernelUse> &rows, int threads);

}  // namespace popart::executable
