// Engine: memory for one executable on a device. It loads weights, connects host streams and runs steps. It does not
// depend on graphs or on the hardware.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include <popart/runstatistics.hpp>

#include "executable/executable.hpp"
#include "runtime/device.hpp"

namespace popart::runtime {

// Where the engine reads or writes one micro-batch of a stream. Called from the thread that runs the engine.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  // Next `bytes` bytes of input stream s; valid until the matching inputDone.
  virtual const void *input(int stream, int64_t bytes) = 0;
  // The same, before the program needs the value. Null: the host has no value yet, and input() will request the same
  // one.
  virtual const void *inputAhead(int stream, int64_t bytes) { return input(stream, bytes); }
  virtual void inputDone(int) {}
  // Whether the values that input() returned stay unchanged until the run ends, whatever the run writes. The program
  // then reads them in place.
  virtual bool inputStays(int) const { return false; }
  // Memory for the next value of output stream s that the host receives.
  virtual void *output(int stream, int64_t bytes) = 0;
  virtual void outputDone(int) {}
  // The address that the next output() of the stream will return, if nothing else uses that memory until then: the
  // value is then computed in place. Null: the value is copied.
  virtual void *outputAhead(int, int64_t) { return nullptr; }
  // Whether values come from code of the host, which may take time, instead of from memory.
  virtual bool callsHost() const { return false; }
};

class StepTimes;

class Engine {
 public:
  // Allocates memory and loads the initial values of variables. `before`: the engines of the earlier replicas of this
  // process, in order, which must outlive this one: they own the variables that this one shares with them. `device`
  // outlives the engine. With the environment variable POPART_STEP_TIMES=FILE every step is timed, and the destructor
  // appends the table of StepTimes to FILE (in a job of several processes: to FILE.<process>). Throws popart::error for
  // a kernel that the device cannot run, memory_allocation_err, and what Device::open throws.
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
  // Runs main once. This path does not allocate, look up or lock anything. Throws runtime_error when a kernel reports a
  // value outside its domain (executable/run_context.hpp) or a user's kernel throws: the run ends after the step that
  // failed, and the engine can run again. Lanes that run at the same time as that step run to their end first; when
  // several lanes fail, the failure of the first of them is thrown. Variables then hold the values from before the step
  // that failed, with two exceptions: a variable that a loop works on may still hold its value from before the loop,
  // and one that the failing step updates in place may hold a part of that update.
  void run(StreamSource &streams);
  int threads() const;
  StepTimes *stepTimes();  // null: steps are not timed
  // Transfers of this engine; its numbers of runs and seconds are not meaningful. Not to be called while it runs.
  const RunStatistics &transfers() const;

 private:
  struct Impl;
  std::shared_ptr<const executable::Executable> executable_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace popart::runtime
