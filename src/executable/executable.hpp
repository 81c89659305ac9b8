// Executable: everything that the runtime needs to run a program, without graphs: buffers at fixed offsets, steps in
// order, variables, host streams. It never changes; any number of engines can use one executable.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/variablesettings.hpp>

#include "executable/kernel.hpp"

namespace popart::executable {

using BufferIndex = int32_t;  // -1: operand not connected

struct Buffer {
  // Row: an element of a stack of values, one for each iteration of a loop; its address advances with the iterations.
  enum class Place : uint8_t { Arena, Variable, Constant, Row };
  Place place = Place::Arena;
  int64_t bytes = 0;
  // Arena: from the arena's start; Row: from the stack's start, in iteration 0; others: index in variables / constants.
  int64_t offset = 0;
  std::string name;
  BufferIndex stack = -1;    // Row: the buffer of the stack
  int64_t stride = 0;        // Row: bytes from one iteration to the next, may be negative
  BufferIndex initial = -1;  // Row: the buffer that replaces it in the first iteration; -1: none
};

struct ConstantSpec {
  TensorData data;  // in its layout
  const Layout *layout = nullptr;
};

// The replicas of a program that run in one process; they have consecutive numbers from `first` on.
struct LocalReplicas {
  int64_t first = 0, count = 1;
};

// The replicas of one process that share the memory of a variable: `size` replicas, whose numbers are `stride`
// apart.
struct Sharers {
  int64_t size = 1, stride = 1;
  bool operator==(const Sharers &) const = default;
  // The replica whose memory `replica` uses, in a process whose first replica is `first`: the lowest of its group
  // there.
  int64_t owner(int64_t replica, int64_t first) const {
    const int64_t lowest = replica - replica / stride % size * stride;
    return lowest >= first ? lowest : lowest + (first - lowest + stride - 1) / stride * stride;
  }
  // The part of `bytes` bytes that each replica counts, on average over the replicas of a process with `locals` of
  // `replicas`; the result is that of the process with the most copies.
  int64_t shareOf(int64_t bytes, int64_t replicas, int64_t locals) const;
};
// " shared by 2 replicas"; empty for one.
std::string toText(const Sharers &sharers);

struct VariableSpec {
  TensorId id;
  TensorInfo info;
  const Layout *layout = nullptr;
  TensorData initial;  // plain; one value, or one for each group of replicas
  bool isOptimizerState = false;
  bool isRemote = false;           // stored in remote memory, which only RemoteLoad and RemoteStore access
  VariableSettings replicas = {};  // which replicas share a value …
  Sharers sharers = {};            // … and which also its memory
};

struct InputStream {
  TensorId id;
  TensorInfo info;  // one micro-batch
};

struct OutputStream {
  TensorId id;
  TensorInfo info;  // one value
};

struct Program;

struct Step {
  enum class Kind : uint8_t { Kernel, HostLoad, HostStore, RemoteLoad, RemoteStore, Copy, Loop, If, Lanes };
  Kind kind = Kind::Kernel;
  std::string name;   // "MatMul.104"
  std::string layer;  // name of its op, which contains the layer (ir/layer_names.hpp): "/fc/MatMul/grad"
  std::string op;     // the op in messages at run time: "MatMul 'name'"
  std::shared_ptr<const Kernel> kernel;
  bool staysInCache = false;  // the data of the loop around it, or of the whole program, fits into a core's cache
  std::vector<BufferIndex> in, out;
  BufferIndex shared = -1;  // Kernel: memory that its tasks share while it runs (Kernel::sharedBytes); -1: none
  // Kernel: scratch memory of the threads that run its tasks, scratchStride() bytes each; -1: each thread's own.
  BufferIndex scratch = -1;
  int32_t stream = -1;  // HostLoad, HostStore
  // HostLoad: in = {buffer that the value has in the arena}, out = {buffer that is read}. With canShareHostMemory,
  // out[0] can be the host's memory, because nothing writes it. HostStore: in[0] can be the host's memory from the
  // start of the program on, because nothing writes it after the store.
  bool canShareHostMemory = false;
  int64_t bytes = 0;  // Copy: in[0] -> out[0]; RemoteLoad, RemoteStore: bytes of a row
  // RemoteLoad: in = {remote variable, number of its row or -1}, out = {value}; RemoteStore: in = {value, row or -1},
  // out = {remote variable}. The number is a scalar, INT32 or UINT32.
  int64_t rowCount = 1;
  bool isSignedRow = false;
  // Loop: in = {trip count (INT64 scalar) or -1, condition (BOOL scalar) or -1}; runs body at most tripCount times.
  //   Before the first iteration `initial` copies run, after each iteration `carried` copies (moves between buffers),
  //   after the last one `results` copies; rows then are those of one further iteration.
  // If: in = {condition}; then `body` else `otherwise`.
  // Lanes: the programs can run at the same time, or one after the other. `threads`: the share of each, of the number
  // of threads that the executable was made for.
  int64_t tripCount = -1;  // Loop: fixed count, -1: read in[0]
  std::vector<std::shared_ptr<const Program>> programs;
  BufferIndex iteration = -1;  // Loop: INT64 scalar the body reads, or -1
  BufferIndex condition = -1;  // Loop: BOOL scalar the body writes, or -1
  struct ScanOutput {
    BufferIndex from;
    BufferIndex to;
    int64_t bytesPerIteration;
  };
  std::vector<ScanOutput> scans;  // copied after each iteration; without results that are written as rows
  std::vector<BufferIndex> rows;  // Loop: the buffers whose address advances with its iterations
  struct Move {
    BufferIndex from;
    BufferIndex to;
    int64_t bytes;
  };
  std::vector<Move> initial, carried, results;
  std::vector<int> threads;  // Lanes: of each program
};

struct Program {
  std::vector<Step> steps;
};

// The largest number of programs that run at the same time; 1 without lanes.
int mostLanes(const Program &program);

// Memory use of a replica. Several replicas share some of it.
struct MemoryReport {
  int64_t arenaBytes = 0;           // for values, and what tasks of a kernel share
  int64_t largestLiveSetBytes = 0;  // of these
  int64_t variableBytes = 0;
  int64_t sharedVariableBytes = 0;  // of these: bytes that are counted for other replicas
  int64_t remoteBytes = 0;          // variables in remote memory; not part of the total
  int64_t constantBytes = 0;
  int64_t scratchBytes = 0;         // of all threads: what each keeps, and what the arena has in addition to arenaBytes
  int64_t scratchBytesInArena = 0;  // of these: what the arena has in addition
  int64_t largestScratchBytes = 0;  // that a kernel has in the arena
  int64_t exchangeBytes = 0;        // of collectives with other processes, for all replicas of this process
  int64_t replicas = 1;             // of this process; they share constants and exchange
  int64_t ownVariableBytes() const { return variableBytes - sharedVariableBytes; }
  int64_t ownConstantBytes() const { return constantBytes / replicas; }
  int64_t ownExchangeBytes() const { return exchangeBytes / replicas; }
  // The bytes of all replicas of a process, divided by their number.
  int64_t total() const {
    return arenaBytes + ownVariableBytes() + ownConstantBytes() + scratchBytes + ownExchangeBytes();
  }
};

struct Fallback {  // an op that no vectorised kernel took
  std::string op, layer, backend, reason;
};

struct Executable {
  std::vector<Buffer> buffers;
  std::vector<ConstantSpec> constants;
  std::vector<VariableSpec> variables;
  std::vector<InputStream> inputs;
  std::vector<OutputStream> outputs;
  Program main;
  int64_t arenaBytes = 0;             // of the whole arena
  int64_t scratchBytesPerThread = 0;  // for the kernels without Step::scratch
  MemoryReport memory;
  std::vector<Fallback> fallbacks;
  std::string loweredText;  // lowered graph as IR text (only when asked for)
};

// Bytes of the variables on the device for which a replica has its own memory.
// `first`: the lowest replica of its process.
int64_t ownVariableBytes(const Executable &executable, int64_t replica, int64_t first);
// Bytes on the device of the replicas of a process, constants counted once.
int64_t totalBytes(const Executable &executable, const LocalReplicas &replicas);

// The collectives, in which replicas wait for each other, in program order.
std::vector<const CollectiveSpec *> collectivesOf(const Executable &executable);

// The executable as text, for people and comparisons: memory, variables, constants (by hash), streams, and one line per
// step: kind, name, kernel, operands as buffers ("a64+256": 256 bytes at 64 of the arena, "v0", "c1").
std::string print(const Executable &executable);

}  // namespace popart::executable
