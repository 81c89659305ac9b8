// Engine: one block of arena memory, one block for all variables, scratch per thread. All operand pointers are resolved
// when the engine is made; running is a walk over prepared steps.
#include "runtime/engine.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/byte_size.hpp"
#include "base/environment.hpp"
#include "base/threads/processors.hpp"
#include "base/threads/thread_pool.hpp"
#include "executable/cost.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/step_times.hpp"

namespace popart::runtime {
namespace {

using executable::Executable;
using executable::KernelArgs;
using executable::Program;
using executable::RunContext;
using executable::Step;

constexpr size_t kAlign = 64;

// Aligned, zeroed block. Large blocks are pages of the system, which come zeroed: huge ones where it offers them, but
// for the last part, which would be rounded up. They come into memory when they are touched, near the thread that does.
class Block {
 public:
  explicit Block(int64_t bytes) : bytes_(bytes > 0 ? static_cast<size_t>(aligned(bytes)) : kAlign) {
    if (bytes_ >= kHuge) {
      takePages();
      return;
    }
    data_ = static_cast<char *>(std::aligned_alloc(kAlign, bytes_));
    if (!data_) refuse();
    std::memset(data_, 0, bytes_);
  }
  ~Block() {
    if (pages_) {
      munmap(pages_, bytes_ + kHuge);
    } else {
      std::free(data_);
    }
  }
  Block(Block &&o) noexcept
      : bytes_(o.bytes_), data_(std::exchange(o.data_, nullptr)), pages_(std::exchange(o.pages_, nullptr)) {}
  Block &operator=(Block &&) = delete;
  char *data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }
  // Brings bytes [begin, end) into memory; they keep their zeros. Not for bytes that were written.
  void touch(int64_t begin, int64_t end) const {
    static const auto kPage = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
    for (int64_t at = begin; pages_ && at < std::min(end, bytes()); at += kPage)
      *const_cast<volatile char *>(data_ + at) = 0;
  }
  static constexpr size_t kHuge = size_t{2} << 20;
  static int64_t aligned(int64_t bytes) {
    constexpr auto kStep = static_cast<int64_t>(kAlign);
    return (bytes + kStep - 1) / kStep * kStep;
  }

 private:
  void takePages() {
    void *pages = mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) refuse();
    pages_ = pages;
    data_ = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(pages) + kHuge - 1) / kHuge * kHuge);
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes_ / kHuge * kHuge, MADV_HUGEPAGE);
#endif
  }
  [[noreturn]] void refuse() const {
    throw memory_allocation_err(
        "the engine cannot allocate " + toText(bytes_) + " bytes. Use a smaller batch or free memory", "");
  }

  size_t bytes_;
  char *data_ = nullptr;
  void *pages_ = nullptr;
};

struct BoundMove {
  const void *from;
  void *to;
  size_t bytes;
};
struct BoundScan {
  const void *from;
  char *to;
  size_t bytes;
};

struct BoundProgram;

// A step with every pointer resolved.
struct BoundStep {
  Step::Kind kind;
  const Step *step = nullptr;
  const executable::Kernel *kernel = nullptr;
  std::vector<int> roundEnds;
  int threads = 1;
  const void *const *in = nullptr;
  void *const *out = nullptr;
  int stream = -1;
  int64_t bytes = 0;
  int64_t tripCount = -1;
  int clock = 0;  // number of the step in StepTimes
  int64_t *iteration = nullptr;
  const bool *condition = nullptr;
  std::vector<BoundMove> initial, carried;
  std::vector<BoundScan> scans;
  std::vector<std::unique_ptr<BoundProgram>> programs;
};
struct BoundProgram {
  std::vector<BoundStep> steps;
};

// Each worker is bound to a core when there is one thread per allowed core; otherwise the system places them better.
// More threads than the CPU quota feeds do not poll: that would use up what the others compute with.
ThreadPoolOptions poolOptions(int threads) {
  const ProcessorLimits limits = processorLimits();
  ThreadPoolOptions options;
  if (threads > 1 && threads == limits.threads() && limits.cores.size() == static_cast<size_t>(threads))
    options.processors.assign(limits.cores.begin() + 1, limits.cores.end());
  if (limits.quota && threads > std::max(1.0, std::ceil(*limits.quota))) options.spin = std::chrono::nanoseconds(0);
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(const Executable &e, int threads, Waking waking)
      : executable(requireMemoryFor(e)),
        waking(waking),
        times(environment::stepTimes() ? std::make_unique<StepTimes>() : nullptr),
        pool(threads, poolOptions(threads)),
        arena(e.memory.arenaBytes),
        variableOffsets(offsetsOf(e)),
        variables(variableOffsets.back()),
        scratchStride(Block::aligned(e.scratchBytesPerThread)),
        scratch(scratchStride * pool.threads()),
        shared(e.sharedScratchBytes),
        contexts(static_cast<size_t>(pool.threads()), RunContext(failed)) {
    touchMemory();
    for (size_t i = 0; i < e.variables.size(); ++i) {
      const auto &v = e.variables[i];
      if (!v.initial.empty()) executable::pack(v.info, v.layout, v.initial.data(), variable(i));
    }
    main = bind(e.main);
  }

  // All blocks are in memory from the start: what the machine cannot give now would end the process later.
  static const Executable &requireMemoryFor(const Executable &e) {
    constexpr int64_t kAlwaysThere = int64_t{64} << 20;
    const int64_t needed = e.memory.arenaBytes + e.memory.variableBytes + e.memory.scratchBytes;
    if (needed <= kAlwaysThere) return e;
    const int64_t free = freeMemoryBytes();
    if (needed <= free) return e;
    const std::string text =
        "the engine needs more memory than is free: got " + toText(needed) + " bytes, expected at most " + toText(free);
    throw memory_allocation_err(text + ". Use a smaller batch or free memory", text);
  }

  // All memory is touched before the first run, by the threads that will use it: scratch by its thread, a variable in
  // the contiguous parts that kernels' tasks fall into. The arena is used by every thread in turn: in blocks.
  void touchMemory() {
    pool.onEachThread([this](int thread, int) {
      const int64_t threads = pool.threads();
      constexpr auto kBlock = static_cast<int64_t>(Block::kHuge);
      for (const Block *block : {&arena, &shared})
        for (int64_t at = thread * kBlock; at < block->bytes(); at += threads * kBlock) block->touch(at, at + kBlock);
      for (size_t i = 0; i + 1 < variableOffsets.size(); ++i) {
        const int64_t begin = variableOffsets[i], bytes = variableOffsets[i + 1] - begin;
        variables.touch(begin + bytes * thread / threads, begin + bytes * (thread + 1) / threads);
      }
      scratch.touch(thread * scratchStride, (thread + 1) * scratchStride);
    });
  }

  // Start of each variable in their block, and the end of the last.
  static std::vector<int64_t> offsetsOf(const Executable &e) {
    std::vector<int64_t> offsets{0};
    for (const auto &v : e.variables)
      offsets.push_back(offsets.back() + Block::aligned(executable::storageBytes(v.info, v.layout)));
    return offsets;
  }
  char *variable(size_t i) const { return variables.data() + variableOffsets[i]; }

  void *address(executable::BufferIndex b) {
    if (b < 0) return nullptr;
    const auto &buffer = executable.buffers[b];
    switch (buffer.place) {
      case executable::Buffer::Place::Arena:
        return arena.data() + buffer.offset;
      case executable::Buffer::Place::Variable:
        return variable(static_cast<size_t>(buffer.offset));
      case executable::Buffer::Place::Constant:
        return const_cast<char *>(static_cast<const char *>(executable.constants[buffer.offset].data.data()));
    }
    return nullptr;
  }

  void *const *addresses(const std::vector<executable::BufferIndex> &list) {
    auto pointers = std::make_unique<void *[]>(list.size() + 1);
    for (size_t i = 0; i < list.size(); ++i) pointers[i] = address(list[i]);
    pointerLists.push_back(std::move(pointers));
    return pointerLists.back().get();
  }

  std::vector<BoundMove> bindMoves(const std::vector<Step::Move> &moves) {
    std::vector<BoundMove> bound;
    for (const auto &m : moves)
      if (address(m.from) != address(m.to))
        bound.push_back({address(m.from), address(m.to), static_cast<size_t>(m.bytes)});
    return bound;
  }

  std::unique_ptr<BoundProgram> bind(const Program &program) {
    auto bound = std::make_unique<BoundProgram>();
    for (const Step &s : program.steps) {
      BoundStep b;
      b.kind = s.kind;
      b.step = &s;
      if (times) b.clock = times->registerStep(s);
      b.kernel = s.kernel.get();
      if (b.kernel) bindTasks(s, b);
      b.in = const_cast<const void *const *>(addresses(s.in));
      b.out = addresses(s.out);
      b.stream = s.stream;
      b.bytes = s.bytes;
      b.tripCount = s.tripCount;
      b.iteration = static_cast<int64_t *>(address(s.iteration));
      b.condition = static_cast<const bool *>(address(s.condition));
      b.initial = bindMoves(s.initial);
      b.carried = bindMoves(s.carried);
      for (const auto &scan : s.scans)
        b.scans.push_back(
            {address(scan.from), static_cast<char *>(address(scan.to)), static_cast<size_t>(scan.bytesPerIteration)});
      for (const auto &inner : s.programs) b.programs.push_back(bind(*inner));
      bound->steps.push_back(std::move(b));
    }
    return bound;
  }

  void bindTasks(const Step &s, BoundStep &b) const {
    const auto ends = b.kernel->roundEnds();
    b.roundEnds.assign(ends.begin(), ends.end());
    if (ends.empty()) b.roundEnds.push_back(b.kernel->tasks());
    const int tasks = executable::widestRound(*b.kernel);
    b.threads = waking == Waking::Always ? std::clamp(tasks, 1, pool.threads())
                                         : executable::threadsThatPay(executable::predictedNanoseconds(executable, s),
                                                                      tasks, pool.threads());
  }

  void runProgram(const BoundProgram &program, StreamSource &streams) {
    for (const BoundStep &s : program.steps) runStep(s, streams);
  }

  // Loops and branches are not timed: the steps in them are.
  void runTimedProgram(const BoundProgram &program, StreamSource &streams) {
    using Clock = std::chrono::steady_clock;
    for (const BoundStep &s : program.steps) {
      const auto start = Clock::now();
      runStep(s, streams);
      if (s.kind != Step::Kind::Loop && s.kind != Step::Kind::If)
        times->add(s.clock, std::chrono::nanoseconds(Clock::now() - start).count());
    }
  }

  void runInner(const BoundProgram &program, StreamSource &streams) {
    times ? runTimedProgram(program, streams) : runProgram(program, streams);
  }

  void runStep(const BoundStep &s, StreamSource &streams) {
    switch (s.kind) {
      case Step::Kind::Kernel:
        return runKernel(s);
      case Step::Kind::HostLoad:
        return load(s, streams);
      case Step::Kind::HostStore:
        return store(s, streams);
      case Step::Kind::Copy:
        std::memcpy(s.out[0], s.in[0], static_cast<size_t>(s.bytes));
        return;
      case Step::Kind::Loop:
        return runLoop(s, streams);
      case Step::Kind::If:
        return runInner(*s.programs[*static_cast<const bool *>(s.in[0]) ? 0 : 1], streams);
    }
  }

  void runKernel(const BoundStep &s) {
    if (s.threads == 1) {
      for (int task = 0; task < s.roundEnds.back(); ++task)
        s.kernel->run({s.in, s.out, scratch.data(), contexts.front(), shared.data()}, task);
    } else {
      int first = 0;
      for (const int end : s.roundEnds) {
        const auto run = [&s, this, first](int task, int thread) {
          s.kernel->run({s.in, s.out, scratch.data() + thread * scratchStride, contexts[static_cast<size_t>(thread)],
                         shared.data()},
                        first + task);
        };
        pool.parallel(end - first, run, s.threads);
        first = end;
      }
    }
    if (failed.load(std::memory_order_relaxed)) [[unlikely]]
      throwFailure(*s.step);
  }

  // Ends the run with what the tasks of this step reported first.
  [[noreturn]] void throwFailure(const Step &step) {
    const RunContext *first = nullptr;
    for (const RunContext &c : contexts)
      if (c.hasFailure() && (!first || c.precedes(*first))) first = &c;
    const std::string message = first->message(step.op.empty() ? step.name : step.op);
    for (RunContext &c : contexts) c.clear();
    failed.store(false, std::memory_order_relaxed);
    throw runtime_error("{}", message);
  }

  void load(const BoundStep &s, StreamSource &streams) {
    const void *value = streams.input(s.stream, s.bytes);
    // The host's pointer to no bytes may be null.
    if (s.bytes > 0) std::memcpy(s.out[0], value, static_cast<size_t>(s.bytes));
    streams.inputDone(s.stream);
  }

  void store(const BoundStep &s, StreamSource &streams) {
    void *target = streams.output(s.stream, s.bytes);
    if (s.bytes > 0) std::memcpy(target, s.in[0], static_cast<size_t>(s.bytes));
    streams.outputDone(s.stream);
  }

  void runLoop(const BoundStep &s, StreamSource &streams) {
    for (const BoundMove &m : s.initial) std::memcpy(m.to, m.from, m.bytes);
    const int64_t trips = s.in[0] ? *static_cast<const int64_t *>(s.in[0]) : s.tripCount >= 0 ? s.tripCount : INT64_MAX;
    bool go = s.in[1] ? *static_cast<const bool *>(s.in[1]) : true;
    InterruptPace pace;
    for (int64_t i = 0; i < trips && go; ++i) {
      if (i > 0) pace.iteration();
      *s.iteration = i;
      runInner(*s.programs[0], streams);
      for (const BoundScan &scan : s.scans)
        std::memcpy(scan.to + i * static_cast<int64_t>(scan.bytes), scan.from, scan.bytes);
      go = *s.condition;
      for (const BoundMove &m : s.carried) std::memcpy(m.to, m.from, m.bytes);
    }
  }

  const Executable &executable;
  Waking waking;
  std::unique_ptr<StepTimes> times;
  ThreadPool pool;
  Block arena;
  std::vector<int64_t> variableOffsets;
  Block variables;
  int64_t scratchStride;
  Block scratch, shared;
  std::atomic<bool> failed{false};
  std::vector<RunContext> contexts;  // one per thread
  std::vector<std::unique_ptr<void *[]>> pointerLists;
  std::unique_ptr<BoundProgram> main;
};

Engine::Engine(std::shared_ptr<const Executable> executable, int threads, Waking waking)
    : executable_(std::move(executable)), impl_(std::make_unique<Impl>(*executable_, threads, waking)) {}

Engine::~Engine() {
  const std::optional<std::string> file = environment::stepTimes();
  if (impl_->times && file) std::ofstream(*file, std::ios::app) << impl_->times->table();
}

int Engine::threads() const { return impl_->pool.threads(); }

void Engine::writeVariable(int i, const void *data) {
  const auto &v = executable_->variables.at(i);
  executable::pack(v.info, v.layout, data, impl_->variable(static_cast<size_t>(i)));
}

void Engine::readVariable(int i, void *data) const {
  const auto &v = executable_->variables.at(i);
  executable::unpack(v.info, v.layout, impl_->variable(static_cast<size_t>(i)), data);
}

void Engine::run(StreamSource &streams) { impl_->runInner(*impl_->main, streams); }

}  // namespace popart::runtime
