// What planning expects kernels to cost, and how well their tasks keep threads busy. A model of few numbers, stated in
// cost.cpp: it decides how many threads a kernel wakes, never what it computes.
#pragma once
#include <string>
#include <vector>

#include "executable/executable.hpp"

namespace popart::executable {

// Nanoseconds that one thread needs for the kernel, or for so many operations on so many bytes.
double predictedNanoseconds(const Kernel &kernel);
double predictedNanoseconds(double flops, double bytes);
double predictedCachedNanoseconds(double flops, double bytes);  // of bytes that are in the core's cache
// The same for the kernel of a step, whose operands may be in the cache.
double predictedNanoseconds(const Step &step);
// Whether a core's cache keeps so many bytes while a program works on them again and again.
bool staysInCache(int64_t bytes);
// The same for a copy of so many bytes, within memory or to and from remote memory.
double copyNanoseconds(int64_t bytes);
// The same for bytes that some threads have written and others read next.
double exchangeNanoseconds(int64_t bytes);
// Nanoseconds of one run on `threads` threads, loops with all their iterations: kernels, copies, transfers. Nothing is
// taken to hide behind anything else. A loop whose length is not known counts once, of branches the longer one.
double predictedRunNanoseconds(const Executable &executable, int threads);

// Nanoseconds of one run of the kernel where at most `threads` threads work on it: those that pay, with what it costs
// to wake them and with threads that wait for the last task of a round. `wakingNanoseconds`: of so many, the caller
// among them.
// `staysInCache`: as of a step.
double elapsedNanoseconds(const Kernel &kernel, int threads, bool staysInCache = false);
double wakingNanoseconds(int threads);

// Number of threads worth waking, in [1, threads], for `nanoseconds` of work in `tasks` equal tasks: each must save
// more than it costs to wake it and wait for it.
int threadsThatPay(double nanoseconds, int tasks, int threads);

// Most tasks that a round of the kernel has.
int widestRound(const Kernel &kernel);

// How one kernel uses the threads.
struct KernelUse {
  std::string step, kernel;
  int tasks = 1;
  int threads = 1;         // that it wakes, the caller among them
  double nanoseconds = 0;  // predicted, on one thread
  double elapsed = 0;      // predicted nanoseconds with these threads, waking not counted
  double busy(int available) const { return elapsed > 0 ? nanoseconds / (elapsed * available) : 1; }
};

// One row per kernel step of the program and of the programs inside its loops and branches, in order.
std::vector<KernelUse> threadUse(const Executable &executable, int threads);

// The rows as a table with a line of column titles; the last line sums up the kernels with more than 20 microseconds of
// work per thread.
std::string threadUseText(const std::vector<KernelUse> &rows, int threads);

}  // namespace popart::executable
