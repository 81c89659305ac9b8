// Device: where programs run. It lists the backends that make its kernels, and gives every engine a queue: memory,
// copies and launches in order. The engine walks over steps and knows no machine; a new device is these two classes.
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

// Whether a kernel wakes as many threads as are worth it (executable/cost.hpp), or one per task, so that tests run even
// tiny tasks concurrently.
enum class Waking : uint8_t { AsPays, Always };

class StepTimes;

// How one engine runs its program.
struct RunSettings {
  int threads = 1;  // of the host, the caller among them, that kernels of a host device share
  Waking waking = Waking::AsPays;
  // Which of the program's replicas this engine is, of how many: numbers that all processes agree on. Kernels see
  // `replica` in their RunContext.
  int replica = 0, replicas = 1;
  // The same among those of this process, which have consecutive numbers: who shares the host's memory and processors.
  int local = 0, locals = 1;
  int firstLocal() const { return replica - local; }
  // How many processes share the processors of this one, itself among them, and its number among them.
  int sharers = 1, sharer = 0;
  ProcessorLimits processors() const { return processorLimits().part(sharer, sharers); }  // of this process
  int process = -1;                                // number of this one in a job of several; -1: there are no others
  bool timesSteps = false;                         // every step is timed (Engine::stepTimes)
  executable::Collectives *collectives = nullptr;  // of all replicas; null: there is one
  int64_t mostEvents = 0;                          // of timed steps that are kept, see step_times.hpp
  StepTimes *events = nullptr;  // set by the engine where it keeps some: its queue adds what threads do
  // Limits of one run: iterations of one loop, and how long it takes, seen between iterations. 0: none.
  int64_t mostIterations = 0;
  std::chrono::nanoseconds longest{0};
};

// A kernel step with every pointer resolved.
class Launch {
 public:
  virtual ~Launch() = default;
  // Runs the kernel after all earlier work of its queue; may return while it runs. No allocation, lookup or lock
  // that the kernel does not need. Throws runtime_error when a kernel reported a value outside its domain, this one or
  // an earlier one of the queue.
  virtual void run() = 0;
};

class Queue;

// Work on one lane. Throws nothing.
using LaneFn = void (*)(void *state, int lane);

// Parts of a queue that work at the same time, each with its share of the queue's threads. While they do, the queue
// itself is not used.
class Lanes {
 public:
  virtual ~Lanes() = default;
  // The lane's own queue, which gives no memory: operands are the memory of the queue that was split. Used by the
  // lane's work alone, but for binding.
  virtual Queue &queue(int lane) = 0;
  // Calls body(state, lane) once for each lane, at the same time, on a thread of the lane; returns when all calls have
  // returned and all that they launched is over. No allocation. Throws what ends the run while the calling thread waits
  // (runtime/interrupt.hpp); then loops in all lanes have ended.
  virtual void run(LaneFn body, void *state) = 0;
};

// One engine's share of a device. Used by one thread at a time; owns everything that it hands out.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual int threads() const { return 1; }  // of the host that it uses, the caller among them

  // Zeroed memory for `bytes` bytes, aligned to 64, to keep until the queue ends. `values`: offsets, ascending from 0
  // to `bytes`, of values that the tasks of kernels cut into contiguous parts; none: all tasks use all of it in turn.
  // Throws memory_allocation_err.
  virtual char *allocate(int64_t bytes, std::span<const int64_t> values) = 0;
  // The same for a variable that kernels never reach: programs copy between it and other memory. A device may keep it
  // where there is more space; what it keeps in a file, the system reads and writes as it needs the memory. Throws
  // memory_allocation_err, runtime_error naming the folder when a file cannot be made.
  virtual char *allocateRemote(int64_t bytes) { return allocate(bytes, {}); }
  // The program will soon copy from these bytes of remote memory.
  virtual void expect(const void *remote, int64_t bytes) { (void)remote, (void)bytes; }
  // Whether the host may read and write this memory by its addresses, and kernels the host's; launches are then over
  // when they return.
  virtual bool isHostMemory() const = 0;
  // Copies after all earlier work; the first two are complete when they return. With zero bytes the host's pointer may
  // be null.
  virtual void copyIn(void *device, const void *host, int64_t bytes) = 0;
  virtual void copyOut(void *host, const void *device, int64_t bytes) = 0;
  virtual void copyWithin(void *to, const void *from, int64_t bytes) = 0;

  // The step's kernel on these operands (null: not connected; a null ends each list), of this queue's memory or, where
  // that is the host's, of constants. Step and lists outlive the launch; each run takes the addresses that the lists
  // have at its call. Throws popart::error, naming step, kernel and device, for a kernel that the device cannot run.
  virtual std::unique_ptr<Launch> bind(const executable::Step &step, const void *const *in, void *const *out) = 0;
  // Parts of this queue on so many threads each, or in that proportion; null: it does one thing after the other. The
  // queue outlives them.
  virtual std::unique_ptr<Lanes> split(std::span<const int> threads) {
    (void)threads;
    return nullptr;
  }
  // Returns when all earlier work is complete. Throws as Launch::run.
  virtual void wait() = 0;
};

// Immutable; lives as long as the engines on it.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu"
  // Factories of its kernels, in order of preference: the first one also decides on fusion and layouts.
  virtual const std::vector<const executable::Backend *> &backends() const = 0;
  // A queue for engines of this executable, which outlives it. Throws memory_allocation_err when the device has not the
  // memory that the executable needs, runtime_error when it cannot be had.
  virtual std::unique_ptr<Queue> open(const executable::Executable &executable, const RunSettings &settings) const = 0;
};

}  // namespace popart::runtime
