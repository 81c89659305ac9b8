// Engine: one block of arena memory, one block for all variables, scratch per thread. All operand pointers are resolved
// when the engine is made; running is a walk over prepared steps.
#include "runtime/engine.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include <popart/half.hpp>

#include "base/threads/thread_pool.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/step_times.hpp"

namespace popart::runtime {
namespace {

using executable::Executable;
using executable::KernelArgs;
using executable::OutputStream;
using executable::Program;
using executable::RunContext;
using executable::Step;

constexpr size_t kAlign = 64;
constexpr const char *kStepTimesFile = "POPART_STEP_TIMES";

// Aligned, zeroed block, in memory from the start so that no run pays for page faults. Large blocks are pages of the
// system, which come zeroed: huge ones where it offers them, but for the last part, which would be rounded up.
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
  static int64_t aligned(int64_t bytes) {
    constexpr auto kStep = static_cast<int64_t>(kAlign);
    return (bytes + kStep - 1) / kStep * kStep;
  }

 private:
  static constexpr size_t kHuge = size_t{2} << 20;

  void takePages() {
    void *pages = mmap(nullptr, bytes_ + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) refuse();
    pages_ = pages;
    data_ = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(pages) + kHuge - 1) / kHuge * kHuge);
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes_ / kHuge * kHuge, MADV_HUGEPAGE);
#endif
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t at = 0; at < bytes_; at += page) *const_cast<volatile char *>(data_ + at) = 0;
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
  int tasks = 1;
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

template <class T>
void addInto(void *sum, const void *value, int64_t bytes) {
  T *s = static_cast<T *>(sum);
  const T *v = static_cast<const T *>(value);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) s[i] = static_cast<T>(s[i] + v[i]);
}

// Element-wise sum of anchors (AnchorReturnType "Sum"); integer types wrap.
void accumulate(DataType type, void *sum, const void *value, int64_t bytes) {
  switch (type) {
    case DataType::FLOAT:
      return addInto<float>(sum, value, bytes);
    case DataType::DOUBLE:
      return addInto<double>(sum, value, bytes);
    case DataType::FLOAT16:
      return addInto<Half>(sum, value, bytes);
    case DataType::BFLOAT16:
      return addInto<BFloat16>(sum, value, bytes);
    case DataType::INT64:
    case DataType::UINT64:
      return addInto<uint64_t>(sum, value, bytes);
    case DataType::INT32:
    case DataType::UINT32:
      return addInto<uint32_t>(sum, value, bytes);
    case DataType::INT16:
    case DataType::UINT16:
      return addInto<uint16_t>(sum, value, bytes);
    default:
      return addInto<uint8_t>(sum, value, bytes);
  }
}

}  // namespace

struct Engine::Impl {
  Impl(const Executable &e, int threads)
      : executable(e),
        times(std::getenv(kStepTimesFile) ? std::make_unique<StepTimes>() : nullptr),
        arena(e.memory.arenaBytes),
        variableOffsets(offsetsOf(e)),
        variables(variableOffsets.back()),
        scratchStride(Block::aligned(e.scratchBytesPerThread)),
        pool(threads),
        scratch(scratchStride * pool.threads()),
        contexts(static_cast<size_t>(pool.threads()), RunContext(failed)) {
    for (size_t i = 0; i < e.variables.size(); ++i) {
      const auto &v = e.variables[i];
      if (!v.initial.empty()) executable::pack(v.info, v.layout, v.initial.data(), variable(i));
    }
    for (const auto &o : e.outputs) sums.emplace_back(o.kind == OutputStream::Return::Sum ? o.info.nbytes() : 0);
    counters.assign(e.outputs.size(), 0);
    main = bind(e.main);
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
        return arena.data() + buffer.offset + buffer.byteOffset;
      case executable::Buffer::Place::Variable:
        return variable(static_cast<size_t>(buffer.offset)) + buffer.byteOffset;
      case executable::Buffer::Place::Constant:
        return const_cast<char *>(static_cast<const char *>(executable.constants[buffer.offset].data.data())) +
               buffer.byteOffset;
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
      b.tasks = b.kernel ? b.kernel->tasks() : 1;
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
    if (s.tasks == 1) {
      s.kernel->run({s.in, s.out, scratch.data(), contexts.front()}, 0);
    } else {
      pool.parallel(s.tasks, [&s, this](int task, int thread) {
        s.kernel->run({s.in, s.out, scratch.data() + thread * scratchStride, contexts[static_cast<size_t>(thread)]},
                      task);
      });
    }
    if (failed.load(std::memory_order_relaxed)) [[unlikely]]
      throwFailure(*s.step);
  }

  // Ends the run with what the tasks of this step reported first.
  [[noreturn]] void throwFailure(const Step &step) {
    const RunContext *first = nullptr;
    for (const RunContext &c : contexts)
      if (c.hasFailure() && (!first || c.precedes(*first))) first = &c;
    const std::string message = first->message(step.name);
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
    const OutputStream &o = executable.outputs[s.stream];
    const bool last = iteration + 1 == executable.iterations;
    const void *value = s.in[0];
    switch (o.kind) {
      case OutputStream::Return::All:
        break;
      case OutputStream::Return::Final:
        if (!last) return;
        break;
      case OutputStream::Return::EveryN:
        if (++counters[s.stream] % o.period != 0) return;
        break;
      case OutputStream::Return::Sum:
        if (iteration == 0) std::memset(sums[s.stream].data(), 0, static_cast<size_t>(s.bytes));
        accumulate(o.info.dataType(), sums[s.stream].data(), value, s.bytes);
        if (!last) return;
        value = sums[s.stream].data();
        break;
    }
    void *target = streams.output(s.stream, s.bytes);
    if (s.bytes > 0) std::memcpy(target, value, static_cast<size_t>(s.bytes));
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
  std::unique_ptr<StepTimes> times;
  Block arena;
  std::vector<int64_t> variableOffsets;
  Block variables;
  std::vector<Block> sums;
  int64_t scratchStride;
  ThreadPool pool;
  Block scratch;
  std::atomic<bool> failed{false};
  std::vector<RunContext> contexts;  // one per thread
  std::vector<std::unique_ptr<void *[]>> pointerLists;
  std::vector<int64_t> counters;
  std::unique_ptr<BoundProgram> main;
  int64_t iteration = 0;
};

Engine::Engine(std::shared_ptr<const Executable> executable, int threads)
    : executable_(std::move(executable)), impl_(std::make_unique<Impl>(*executable_, threads)) {}

Engine::~Engine() {
  const char *file = std::getenv(kStepTimesFile);
  if (impl_->times && file) std::ofstream(file, std::ios::app) << impl_->times->table();
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

void Engine::run(StreamSource &streams) {
  std::fill(impl_->counters.begin(), impl_->counters.end(), 0);
  InterruptPace pace;
  for (impl_->iteration = 0; impl_->iteration < executable_->iterations; ++impl_->iteration) {
    if (impl_->iteration > 0) pace.iteration();
    impl_->runInner(*impl_->main, streams);
  }
}

}  // namespace popart::runtime
