// Engine: memory for one executable on a device: loads weights, connects host streams, runs steps. Knows no graphs and
// no machine.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include <popart/runstatistics.hpp>

#include "executable/executable.hpp"
#include "runtime/device.hpp"

namespace popart::runtime {

// Where the engine gets and puts one micro-batch of a stream. Called from the thread that runs the engine.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Next `bytes` bytes of input stream s; valid until the matching inputDone.
  virtual const void *input(int stream, int64_t bytes) = 0;
  // The same before the program needs it; null: the host has no value yet, and input() will ask for the same one.
  virtual const void *inputAhead(int stream, int64_t bytes) { return input(stream, bytes); }
  virtual void inputDone(int) {}
  // Whether what input() gave keeps its values until the run ends, whatever the run writes: it is then read where it
  // lies.
  virtual bool inputStays(int) const { return false; }
  // Memory for the next value of output stream s that the host will see.
  virtual void *output(int stream, int64_t bytes) = 0;
  virtual void outputDone(int) {}
  // What the next output() of the stream will give, if nobody else uses that memory until then: the value is then made
  // there. Null: it is copied.
  virtual void *outputAhead(int, int64_t) { return nullptr; }
  // Whether values come from code of the host, which may take time, and not from memory.
  virtual bool callsHost() const { return false; }
};

class StepTimes;

class Engine {
 public:
  // Takes memory and loads the values that variables begin with. `before`: the engines of the replicas of this process
  // before this one, in order, to be there as long as this one is used: they own the variables that it shares with
  // them. `device` outlives the engine. With the environment variable POPART_STEP_TIMES=FILE every step is timed, and
  // the destructor appends the table of StepTimes to FILE, in a job to FILE.<process>. Throws popart::error for a
  // kernel that the device cannot run, memory_allocation_err, what Device::open throws.
  Engine(std::shared_ptr<const executable::Executable> executable, const Device &device,
         const RunSettings &settings = {}, std::span<const std::unique_ptr<Engine>> before = {});
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const executable::Executable &executable() const { return *executable_; }
  // Variables by index in executable().variables, in plain layout. data has variables[i].info.nbytes() bytes.
  void writeVariable(int i, const void *data);
  void readVariable(int i, void *data) const;
  // Row `row` of a remote variable, along its first dimension.
  void writeRow(int i, int64_t row, const void *data);
  void readRow(int i, int64_t row, void *data) const;
  // Runs main once. No allocation, lookup or lock on this path. Throws runtime_error when a kernel reports
  // a value outside its domain (executable/run_context.hpp) or a user's kernel throws: the run ends after the step that
  // failed, and the engine can run again. Lanes beside that step run to their end first; of several failures that of
  // the first lane is thrown. Variables then hold what the steps before that one made of them, with two exceptions: one
  // that a loop works on may still hold its value from before the loop, and one that the failing step updates in its
  // own memory may hold a part of that update.
  void run(StreamSource &streams);
  int threads() const;
  StepTimes *stepTimes();  // null: steps are not timed
  // Transfers of this engine alone; runs and seconds are not its own. Not to be asked while it runs.
  const RunStatistics &transfers() const;

 private:
  struct Impl;
  std::shared_ptr<const executable::Executable> executable_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace popart::runtime
