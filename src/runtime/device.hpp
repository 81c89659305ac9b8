// Device: where programs run. It lists the backends that make its kernels, and gives every engine a queue for memory,
// copies and launches in order. The engine walks over steps and does not depend on the hardware; a new device
// implements the two classes Device and Queue.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads/processors.hpp"
#include "executable/collectives.hpp"
#include "executable/executable.hpp"

namespace popart::runtime {

// Whether a kernel wakes only as many threads as make it faster (executable/cost.hpp), or one thread per task, so that
// tests run even tiny tasks concurrently.
enum class WakePolicy : uint8_t { WhenFaster, Always };

class StepTimes;

// How one engine runs its program.
struct RunSettings {
  int threads = 1;  // of the host, including the calling thread; the kernels of a host device share them
  WakePolicy wakePolicy = WakePolicy::WhenFaster;
  // The number of this engine's replica, and how many replicas the program has. All processes use the same numbers.
  // Kernels read `replica` from their RunContext.
  int replica = 0, replicas = 1;
  // The same among the replicas of this process, which have consecutive numbers and share the host's memory and cores.
  int local = 0, locals = 1;
  int firstLocal() const { return replica - local; }
  // How many processes share the processors of this process, itself included, and its number among them.
  int sharers = 1, sharer = 0;
  ProcessorLimits processors() const { return processorLimits().part(sharer, sharers); }  // of this process
  int process = -1;                                // number of this process in a job of several; -1: it is the only one
  bool timesSteps = false;                         // every step is timed (Engine::stepTimes)
  executable::Collectives *collectives = nullptr;  // of all replicas; null: there is one
  int64_t mostEvents = 0;                          // of timed steps that are kept, see step_times.hpp
  StepTimes *events = nullptr;  // set by the engine where it keeps some: its queue adds what threads do
  // Limits of one run: the iterations of one loop, and the time, which is checked between iterations. 0: no limit.
  int64_t mostIterations = 0;
  std::chrono::nanoseconds longest{0};
};

// A kernel step with every pointer resolved.
class Launch {
 public:
  virtual ~Launch() = default;
  // Runs the kernel after all earlier work of its queue; may return before the kernel has finished. Does not allocate,
  // look up or lock anything that the kernel does not need. Throws runtime_error when this kernel or an earlier one of
  // the queue reported a value outside its domain.
  virtual void run() = 0;
};

class Queue;

// Memory in the arena that a kernel uses only while it runs; null: none.
struct KernelMemory {
  void *shared = nullptr;    // Step::shared
  void *scratch = nullptr;   // Step::scratch
  int64_t scratchBytes = 0;  // of all threads: at most so many run tasks as have a part of it
};

// The work of one lane. Must not throw.
using LaneFn = void (*)(void *state, int lane);

// Parts of a queue that work at the same time, each with a share of the queue's threads. The queue itself is not used
// while its lanes run.
class Lanes {
 public:
  virtual ~Lanes() = default;
  // The queue of one lane. It allocates no memory: operands are in the memory of the queue that was split. Only the
  // work of the lane uses it, except for binding.
  virtual Queue &queue(int lane) = 0;
  // Calls body(state, lane) once for each lane, at the same time, each on a thread of the lane. Returns when all calls
  // have returned and all their launches have finished. Does not allocate. While the calling thread waits, throws the
  // exception that ends the run (runtime/interrupt.hpp); the loops in all lanes have then ended.
  virtual void run(LaneFn body, void *state) = 0;
};

// One engine's share of a device. Used by one thread at a time; owns all memory that it gives out.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual int threads() const { return 1; }  // of the host that it uses, including the calling thread

  // Zeroed memory of `bytes` bytes, aligned to 64; valid until the queue is destroyed. `values`: the offsets, ascending
  // from 0 to `bytes`, of values that the tasks of kernels divide into contiguous parts; empty: all tasks use all of
  // the memory in turn. Throws memory_allocation_err.
  virtual char *allocate(int64_t bytes, std::span<const int64_t> values) = 0;
  // The same for a variable that kernels never use directly: programs copy between it and other memory. A device may
  // keep it where there is more space; if it keeps it in a file, the system pages the file in and out as needed. Throws
  // memory_allocation_err, and runtime_error with the name of the folder when a file cannot be made.
  virtual char *allocateRemote(int64_t bytes) { return allocate(bytes, {}); }
  // Announces that the program will soon copy from these bytes of remote memory.
  virtual void expect(const void *remote, int64_t bytes) { (void)remote, (void)bytes; }
  // Whether the host can read and write this memory directly, and kernels the host's memory; launches have then
  // finished when they return.
  virtual bool isHostMemory() const = 0;
  // Copies after all earlier work; the first two return when the copy is complete. With zero bytes the host's pointer
  // may be null.
  virtual void copyIn(void *device, const void *host, int64_t bytes) = 0;
  virtual void copyOut(void *host, const void *device, int64_t bytes) = 0;
  virtual void copyWithin(void *to, const void *from, int64_t bytes) = 0;

  // Binds the step's kernel to these operands (null: not connected; a null pointer ends each list), and to the memory
  // of its tasks. Operands are in this queue's memory or, where that is the host's memory, may be constants. The step
  // and the lists outlive the launch; each run uses the addresses that are in the lists at the time. Throws
  // popart::error with step, kernel and device for a kernel that the device cannot run.
  virtual std::unique_ptr<Launch> bind(const executable::Step &step, const void *const *in, void *const *out,
                                       const KernelMemory &memory) = 0;
  // Parts of this queue with these numbers of threads, or with numbers in the same proportion; null: the device runs
  // one step after the other. The queue outlives the parts.
  virtual std::unique_ptr<Lanes> split(std::span<const int> threads) {
    (void)threads;
    return nullptr;
  }
  // Returns when all earlier work is complete. Throws like Launch::run.
  virtual void wait() = 0;
};

// Immutable; lives as long as the engines on it.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu"
  // Factories of its kernels, in order of preference. The first one also decides on fusion and layouts.
  virtual const std::vector<const executable::Backend *> &backends() const = 0;
  // Whether programs may use its memory for large scratch memory of kernels when values do not need it; false where the
  // memory of values is that of another machine.
  virtual bool sharesScratch() const { return true; }
  // A queue for engines of this executable, which outlives the queue. Throws memory_allocation_err when the device has
  // not enough memory for the executable, and runtime_error when the device is not available.
  virtual std::unique_ptr<Queue> open(const executable::Executable &executable, const RunSettings &settings) const = 0;
};

}  // namespace popart::runtime
