// IrSession: runs a hand-written Ir (popxl, popart.ir). Every op in reachable graphs executes, once per run; there is
// no loop over batches. Each execution of a host load or store takes the next slice of its stream's buffer.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <popart/devicemanager.hpp>
#include <popart/ir.hpp>
#include <popart/runstatistics.hpp>

namespace popart {

// The settings of an IrSession.
struct IrSessionOptions {
  DeviceType device = DeviceType::Cpu;
  int64_t transfers = 1;  // slices of each stream buffer and replica; after the last slice a stream starts again
  int replicas = 1;       // of this process; they run at the same time, each with its share of the threads
  int total = 0;          // replicas of all processes; 0: all are in this process
  int firstLocal = 0;     // number of the first one here
  bool roundStochastically = false;  // results of 16-bit floats are rounded at random
  bool checkLog2Scales = true;       // runs end when a log2 scale of FLOAT8 values is out of range
  bool checkOrder = true;            // refuse a program whose result depends on an order that is not specified
  std::string cacheFolder;           // where compiled programs are stored; empty: they are not stored
  std::map<std::string, std::string> engineOptions;  // as SessionOptions::engineOptions
};

// A compiled copy of an Ir; later changes of the Ir have no effect on it. Used by one thread at a time.
class IrSession {
 public:
  // A stream of the program.
  struct Stream {
    TensorId id;      // of the stream's tensor
    TensorInfo info;  // one slice
  };
  // Compiles a copy of `ir`. With replicas in other processes, all processes must make their session, load and run it,
  // and read variables of which not every process has all values. Throws like session::joinJob; popart::error for a
  // program that is invalid or not supported, or, where that is checked, whose result depends on an order that is not
  // specified (an op modifies memory that another, unordered op reads); memory_allocation_err for a program that does
  // not fit max_memory, POPART_MAX_MEMORY or the machine.
  IrSession(const Ir &ir, const IrSessionOptions &options);
  ~IrSession();

  const std::vector<Stream> &inputs() const;  // used by at least one host load or store
  const std::vector<Stream> &outputs() const;
  int64_t ipus() const;  // highest IPU with an op, plus 1
  // Allocates memory, starts threads and attaches the device; for a loaded program it keeps the variables and only
  // attaches. Throws like Session::prepareDevice.
  void load(DeviceInfo &device);
  bool hasVariable(const TensorId &id) const;  // unused variables are not in the program
  // Plain C order, one value for each group of replicas that share the variable. These two and run throw popart::error
  // when there is no such variable, and runtime_error before load.
  void writeVariable(const TensorId &id, const void *data);
  void readVariable(const TensorId &id, void *data) const;
  void readReplicas(const TensorId &id, void *data) const;  // the same, one value for each replica
  // Row `row`, along the first dimension, of a remote variable: one value for each replica. Throw like the functions
  // above, and popart::error for a row that the variable does not have.
  void writeRow(const TensorId &id, int64_t row, const void *data);
  void readRow(const TensorId &id, int64_t row, void *data) const;
  // Buffers are in the order of inputs() and outputs(), each with `transfers` times `replicas` slices in C order.
  // Throws popart::runtime_error when a user kernel failed or another run is in progress.
  void run(std::span<const void *const> inputs, std::span<void *const> outputs);
  // The state of stochastic rounding, which every run advances. The first state is random, and the same in all
  // processes.
  // Without stochastic rounding it is 0 and has no effect. Throw runtime_error before load.
  std::array<uint32_t, 2> rngState() const;
  void setRngState(const std::array<uint32_t, 2> &state);
  RunStatistics statistics() const;  // of the runs since load
  std::string summary() const;       // memory and fallbacks, for people
  // Like Session::getReport; engineOptions["profile"] records the first runs. Throws runtime_error before load.
  std::string getReport() const;
  std::string getLoweredModel(PrintData values) const;  // as Session::getLoweredModel
  std::pair<size_t, size_t> runsToProfile() const;
  // Like Session::profileRuns and Session::endProfile: record `runs` runs after `before` others; record no more.
  void profileRuns(int runs, int before);
  void endProfile();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace popart
