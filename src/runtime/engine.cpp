// Engine: one block of arena memory and one block for all variables, on a queue of the device. All pointers are
// resolved when the engine is made; a run walks over the prepared steps.
#include "runtime/engine.hpp"

#include <chrono>
#include <exception>
#include <fstream>
#include <map>
#include <utility>

#include <popart/error.hpp>

#include "base/environment.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/step_times.hpp"

namespace popart::runtime {
namespace {

using executable::Executable;
using executable::Program;
using executable::Step;

// A copy from operands[0] to operands[1].
struct BoundMove {
  void *const *operands;
  int64_t bytes;
};

// A row of a stack: the addresses of the row and of the stack, and all operands that refer to the row.
struct BoundRow {
  void *const *stack;
  void *const *initial;  // its content in iteration 0; null: a part of the stack
  void **row;
  int64_t offset, stride;
  std::vector<void **> operands;
};

// A buffer that can be replaced by memory of the host: its entry in the addresses and all operands that refer to it.
struct SharedBuffer {
  void *own;  // its place in the arena
  void **address;
  std::vector<void **> operands;

  void moveTo(void *memory) const {
    if (*address == memory) return;
    *address = memory;
    for (void **operand : operands) *operand = memory;
  }
};

struct BoundProgram;

// A step with all pointers resolved. Pointers to rows of a loop's stacks change from iteration to iteration.
struct BoundStep {
  Step::Kind kind;
  int clock = 0;                   // number of the step in StepTimes
  std::unique_ptr<Launch> launch;  // Kernel
  const Step *step = nullptr;
  int stream = -1;
  int64_t bytes = 0;
  const BoundStep *nextLoad = nullptr;  // RemoteLoad: the next RemoteLoad of its program
  const void *const *in = nullptr;
  void *const *out = nullptr;
  const SharedBuffer *shared = nullptr;  // HostLoad, HostStore: null when the value is copied
  int64_t tripCount = -1;
  void *iteration = nullptr;
  const void *condition = nullptr;
  std::vector<BoundMove> initial, carried, results, scans;
  std::vector<BoundRow> rows;
  std::vector<std::unique_ptr<BoundProgram>> programs;
  Lanes *lanes = nullptr;                    // Lanes; null: its programs run one after the other
  std::vector<std::exception_ptr> failures;  // of each lane
};
struct BoundProgram {
  std::vector<BoundStep> steps;
  std::vector<const BoundStep *> sharedStores;  // the ones whose values can be written directly to the host's memory
};

// The data that a walk over steps uses.
struct Walk {
  Queue &queue;
  StreamSource &streams;
};

}  // namespace

struct Engine::Impl {
  Impl(const Executable &e, const Device &device, const RunSettings &settings,
       std::span<const std::unique_ptr<Engine>> before)
      : executable(e),
        process(settings.process),
        times(environment::stepTimes() || settings.timesSteps ? std::make_unique<StepTimes>(settings.mostEvents)
                                                              : nullptr),
        queue(device.open(e, withEvents(settings, times.get()))),
        mostIterations(settings.mostIterations > 0 ? settings.mostIterations : -1),
        longest(settings.longest),
        isHostMemory(queue->isHostMemory()),
        arena(queue->allocate(e.arenaBytes, {})),
        variableOffsets(offsetsOf(e, settings)),
        block(queue->allocate(variableOffsets.back(), variableOffsets)),
        addresses(e.buffers.size()),
        sharedBuffers(e.buffers.size()),
        rowOf(e.buffers.size()) {
    for (size_t i = 0; i < e.variables.size(); ++i) variables.push_back(placeOf(i, settings, before));
    for (size_t i = 0; i < e.variables.size(); ++i)
      if (!e.variables[i].initial.empty()) writeVariable(i, initialOf(e.variables[i], settings));
    for (const auto &c : e.constants) constants.push_back(place(c.data));
    for (size_t b = 0; b < e.buffers.size(); ++b) addresses[b] = addressOf(e.buffers[b]);
    if (isHostMemory) findSharedBuffers(e.main);
    main = bind(e.main, *queue);
  }

  static RunSettings withEvents(RunSettings settings, StepTimes *times) {
    settings.events = times && times->keepsEvents() ? times : nullptr;
    return settings;
  }

  // The variable's memory: remote, or in the block of this replica, or in that of the replica that owns it.
  char *placeOf(size_t i, const RunSettings &settings, std::span<const std::unique_ptr<Engine>> before) {
    const executable::VariableSpec &v = executable.variables[i];
    if (v.isRemote) return queue->allocateRemote(executable::storageBytes(v.info, v.layout));
    const int64_t owner = v.sharers.owner(settings.replica, settings.firstLocal());
    if (owner == settings.replica) return block + variableOffsets[i];
    return before[static_cast<size_t>(owner - settings.firstLocal())]->impl_->variables[i];
  }

  // Where each variable begins in the block of this replica, and where the last one ends. Remote variables and those of
  // other replicas take no space there.
  static std::vector<int64_t> offsetsOf(const Executable &e, const RunSettings &settings) {
    constexpr int64_t kAlign = 64;
    std::vector<int64_t> offsets{0};
    for (const auto &v : e.variables) {
      const bool isElsewhere =
          v.isRemote || v.sharers.owner(settings.replica, settings.firstLocal()) != settings.replica;
      const int64_t bytes = isElsewhere ? 0 : executable::storageBytes(v.info, v.layout);
      offsets.push_back(offsets.back() + (bytes + kAlign - 1) / kAlign * kAlign);
    }
    return offsets;
  }

  // The initial value for this replica's group.
  static const char *initialOf(const executable::VariableSpec &v, const RunSettings &settings) {
    const auto *values = static_cast<const char *>(v.initial.data());
    if (v.initial.nbytes() == v.info.nbytes()) return values;
    const ReplicaGrouping groups = v.replicas.getReplicaGrouping(static_cast<unsigned>(settings.replicas));
    return values + groups.getGroupAt(static_cast<unsigned>(settings.replica)) * v.info.nbytes();
  }

  // ---- values of the host -----------------------------------------------------------------------
  char *variable(size_t i) const { return variables[i]; }

  // Layouts are converted on the host: in place when the device's memory is there.
  void writeVariable(size_t i, const void *data) {
    const auto &v = executable.variables.at(i);
    if (!v.layout) return queue->copyIn(variable(i), data, v.info.nbytes());
    if (isHostMemory) return v.layout->pack(v.info, data, variable(i));
    std::vector<char> stored(static_cast<size_t>(v.layout->bytes(v.info)));
    v.layout->pack(v.info, data, stored.data());
    queue->copyIn(variable(i), stored.data(), static_cast<int64_t>(stored.size()));
  }
  void readVariable(size_t i, void *data) const {
    const auto &v = executable.variables.at(i);
    if (!v.layout) return queue->copyOut(data, variable(i), v.info.nbytes());
    if (isHostMemory) return v.layout->unpack(v.info, variable(i), data);
    std::vector<char> stored(static_cast<size_t>(v.layout->bytes(v.info)));
    queue->copyOut(stored.data(), variable(i), static_cast<int64_t>(stored.size()));
    v.layout->unpack(v.info, stored.data(), data);
  }
  int64_t rowBytes(size_t i) const {
    const TensorInfo &info = executable.variables.at(i).info;
    return info.nbytes() / info.shape().front();
  }
  void writeRow(size_t i, int64_t row, const void *data) {
    queue->copyIn(variable(i) + row * rowBytes(i), data, rowBytes(i));
  }
  void readRow(size_t i, int64_t row, void *data) const {
    queue->copyOut(data, variable(i) + row * rowBytes(i), rowBytes(i));
  }
  // The address of a constant for kernels: the executable's memory serves every engine that can read it.
  void *place(const TensorData &data) {
    if (isHostMemory) return const_cast<void *>(data.data());
    char *memory = queue->allocate(data.nbytes(), {});
    queue->copyIn(memory, data.data(), data.nbytes());
    return memory;
  }
  // Trip counts and conditions of loops and branches: read directly where the host can. The bytes of a BOOL may have
  // any value.
  template <class T>
  T read(Queue &from, const void *device) const {
    if (isHostMemory) return *static_cast<const T *>(device);
    T value;
    from.copyOut(&value, device, sizeof value);
    return value;
  }
  bool isTrue(Queue &from, const void *device) const { return read<uint8_t>(from, device) != 0; }
  template <class T>
  void write(Queue &to, void *device, T value) const {
    if (isHostMemory) {
      *static_cast<T *>(device) = value;
    } else {
      to.copyIn(device, &value, sizeof value);
    }
  }

  // ---- binding ----------------------------------------------------------------------------------
  // Null for rows, whose address changes in loops.
  void *addressOf(const executable::Buffer &buffer) const {
    switch (buffer.place) {
      case executable::Buffer::Place::Arena:
        return arena + buffer.offset;
      case executable::Buffer::Place::Variable:
        return variable(static_cast<size_t>(buffer.offset));
      case executable::Buffer::Place::Constant:
        return constants[static_cast<size_t>(buffer.offset)];
      case executable::Buffer::Place::Row:
        break;
    }
    return nullptr;
  }
  void findSharedBuffers(const Program &program) {
    for (const Step &s : program.steps) {
      for (const auto &inner : s.programs) findSharedBuffers(*inner);
      if (!s.canShareHostMemory) continue;
      const auto b = static_cast<size_t>(s.kind == Step::Kind::HostLoad ? s.out[0] : s.in[0]);
      sharedBuffers[b] = std::make_unique<SharedBuffer>(SharedBuffer{addresses[b], &addresses[b], {}});
    }
  }
  int64_t bytesOf(executable::BufferIndex b) const {
    return b < 0 ? 0 : executable.buffers[static_cast<size_t>(b)].bytes;
  }
  void *address(executable::BufferIndex b) const { return b < 0 ? nullptr : addresses[static_cast<size_t>(b)]; }

  void *const *operands(const std::vector<executable::BufferIndex> &list) {
    auto pointers = std::make_unique<void *[]>(list.size() + 1);
    for (size_t i = 0; i < list.size(); ++i) {
      pointers[i] = address(list[i]);
      if (list[i] >= 0 && rowOf[static_cast<size_t>(list[i])])
        rowOf[static_cast<size_t>(list[i])]->operands.push_back(&pointers[i]);
      if (list[i] >= 0 && sharedBuffers[static_cast<size_t>(list[i])])
        sharedBuffers[static_cast<size_t>(list[i])]->operands.push_back(&pointers[i]);
    }
    pointerLists.push_back(std::move(pointers));
    return pointerLists.back().get();
  }

  std::vector<BoundMove> bindMoves(const std::vector<Step::Move> &moves) {
    std::vector<BoundMove> bound;
    for (const auto &m : moves)
      if (m.from != m.to) bound.push_back({operands({m.from, m.to}), m.bytes});
    return bound;
  }

  std::vector<BoundRow> bindRows(const std::vector<executable::BufferIndex> &rows) {
    std::vector<BoundRow> bound;
    for (const auto b : rows) {
      const executable::Buffer &buffer = executable.buffers[static_cast<size_t>(b)];
      bound.push_back({&addresses[static_cast<size_t>(buffer.stack)],
                       buffer.initial < 0 ? nullptr : &addresses[static_cast<size_t>(buffer.initial)],
                       &addresses[static_cast<size_t>(b)],
                       buffer.offset,
                       buffer.stride,
                       {}});
    }
    moveRows(bound, 0);
    for (size_t i = 0; i < rows.size(); ++i) rowOf[static_cast<size_t>(rows[i])] = &bound[i];
    return bound;
  }

  // The lanes with these shares of the threads; null when the device has none.
  Lanes *lanesOf(const std::vector<int> &threads) {
    const auto [known, fresh] = lanes.try_emplace(threads);
    if (fresh) known->second = queue->split(threads);
    return known->second.get();
  }

  std::unique_ptr<BoundProgram> bind(const Program &program, Queue &own) {
    auto bound = std::make_unique<BoundProgram>();
    for (const Step &s : program.steps) {
      BoundStep b;
      b.kind = s.kind;
      b.step = &s;
      if (times) b.clock = times->registerStep(s);
      b.in = const_cast<const void *const *>(operands(s.in));
      b.out = operands(s.out);
      if (s.kernel) b.launch = own.bind(s, b.in, b.out, {address(s.shared), address(s.scratch), bytesOf(s.scratch)});
      b.stream = s.stream;
      if (isHostMemory && s.canShareHostMemory)
        b.shared = sharedBuffers[static_cast<size_t>(s.kind == Step::Kind::HostLoad ? s.out[0] : s.in[0])].get();
      b.bytes = s.bytes;
      b.tripCount = s.tripCount;
      b.iteration = address(s.iteration);
      b.condition = address(s.condition);
      b.initial = bindMoves(s.initial);
      b.rows = bindRows(s.rows);  // before the steps that read them
      b.carried = bindMoves(s.carried);
      b.results = bindMoves(s.results);
      for (const auto &scan : s.scans) b.scans.push_back({operands({scan.from, scan.to}), scan.bytesPerIteration});
      if (s.kind == Step::Kind::Lanes) b.lanes = lanesOf(s.threads);
      b.failures.resize(b.lanes ? s.programs.size() : 0);
      for (size_t i = 0; i < s.programs.size(); ++i)
        b.programs.push_back(bind(*s.programs[i], b.lanes ? b.lanes->queue(static_cast<int>(i)) : own));
      bound->steps.push_back(std::move(b));
    }
    for (const BoundStep &b : bound->steps)
      if (b.shared && b.kind == Step::Kind::HostStore) bound->sharedStores.push_back(&b);
    const BoundStep *nextLoad = nullptr;
    for (size_t i = bound->steps.size(); i-- > 0;)
      if (BoundStep &b = bound->steps[i]; b.kind == Step::Kind::RemoteLoad) b.nextLoad = std::exchange(nextLoad, &b);
    return bound;
  }

  // ---- running ----------------------------------------------------------------------------------
  void run(StreamSource &streams) {
    const RunDeadline deadline(longest);
    const Walk walk{*queue, streams};
    runInner(*main, walk);
    queue->wait();
  }

  void runProgram(BoundProgram &program, const Walk &walk) {
    for (BoundStep &s : program.steps) runStep(s, walk);
  }

  // Loops, branches and lanes are not timed: the steps in them are. A step begins where the one before it ends, so that
  // the clock is read once for each.
  void runTimedProgram(BoundProgram &program, const Walk &walk) {
    int64_t begin = StepTimes::now();
    for (BoundStep &s : program.steps) {
      runStep(s, walk);
      walk.queue.wait();
      const int64_t end = StepTimes::now();
      if (s.programs.empty()) times->add(s.clock, begin, end);
      begin = end;
    }
  }

  void runInner(BoundProgram &program, const Walk &walk) {
    for (const BoundStep *store : program.sharedStores) {
      void *memory = walk.streams.outputAhead(store->stream, store->bytes);
      store->shared->moveTo(memory ? memory : store->shared->own);
    }
    times ? runTimedProgram(program, walk) : runProgram(program, walk);
  }

  void runStep(BoundStep &s, const Walk &walk) {
    switch (s.kind) {
      case Step::Kind::Kernel:
        return s.launch->run();
      case Step::Kind::HostLoad:
        return load(s, walk.streams);
      case Step::Kind::HostStore:
        return store(s, walk.streams);
      case Step::Kind::RemoteLoad:
        return remoteLoad(s);
      case Step::Kind::RemoteStore:
        queue->copyWithin(static_cast<char *>(s.out[0]) + rowOffset(s), s.in[0], s.bytes);
        return;
      case Step::Kind::Copy:
        return walk.queue.copyWithin(s.out[0], s.in[0], s.bytes);
      case Step::Kind::Loop:
        return runLoop(s, walk);
      case Step::Kind::If:
        return runInner(*s.programs[isTrue(walk.queue, s.in[0]) ? 0 : 1], walk);
      case Step::Kind::Lanes:
        return runLanes(s, walk);
    }
  }

  // All lanes run to their end or to their failure, so that the same failure is thrown every time.
  void runLanes(BoundStep &s, const Walk &walk) {
    if (!s.lanes) {
      for (const auto &program : s.programs) runInner(*program, walk);
      return;
    }
    auto one = [&](int lane) {
      const auto i = static_cast<size_t>(lane);
      try {
        runInner(*s.programs[i], {s.lanes->queue(lane), walk.streams});
      } catch (...) {
        s.failures[i] = std::current_exception();
      }
    };
    std::exception_ptr first;
    try {
      s.lanes->run([](void *body, int lane) { (*static_cast<decltype(one) *>(body))(lane); }, &one);
    } catch (...) {
      first = std::current_exception();
    }
    for (std::exception_ptr &failure : s.failures)
      if (std::exception_ptr own = std::exchange(failure, nullptr); own && !first) first = std::move(own);
    if (first) std::rethrow_exception(first);
  }

  void load(const BoundStep &s, StreamSource &streams) {
    const void *from = streams.input(s.stream, s.bytes);
    if (s.shared && streams.inputStays(s.stream)) {
      s.shared->moveTo(const_cast<void *>(from));  // nothing writes to it
    } else {
      if (s.shared) s.shared->moveTo(const_cast<void *>(s.in[0]));
      queue->copyIn(s.out[0], from, s.bytes);
    }
    streams.inputDone(s.stream);
    ++transfers.transfersFromHost;
    transfers.bytesFromHost += s.bytes;
  }

  void store(const BoundStep &s, StreamSource &streams) {
    void *to = streams.output(s.stream, s.bytes);
    if (to != s.in[0]) queue->copyOut(to, s.in[0], s.bytes);
    streams.outputDone(s.stream);
    ++transfers.transfersToHost;
    transfers.bytesToHost += s.bytes;
  }

  // Bytes from the start of a remote variable to the row that a step works on.
  int64_t rowOffset(const BoundStep &s) const {
    if (!s.in[1]) return 0;
    const int64_t row =
        s.step->isSignedRow ? int64_t{read<int32_t>(*queue, s.in[1])} : int64_t{read<uint32_t>(*queue, s.in[1])};
    if (row < 0 || row >= s.step->rowCount)
      throw runtime_error("{}: the offset is out of range: got {}, expected 0 to {}", s.step->op, row,
                          s.step->rowCount - 1);
    return row * s.bytes;
  }

  // Programs go through remote memory in order: after a row they need one of its neighbours, or the row of the next
  // load.
  void remoteLoad(const BoundStep &s) const {
    const auto *base = static_cast<const char *>(s.in[0]);
    const int64_t offset = rowOffset(s);
    queue->copyWithin(s.out[0], base + offset, s.bytes);
    if (offset > 0) queue->expect(base + offset - s.bytes, s.bytes);
    if (offset + s.bytes < s.step->rowCount * s.bytes) queue->expect(base + offset + s.bytes, s.bytes);
    if (s.nextLoad && !s.nextLoad->in[1]) queue->expect(s.nextLoad->in[0], s.nextLoad->bytes);
  }

  static void copy(Queue &own, const BoundMove &m) { own.copyWithin(m.operands[1], m.operands[0], m.bytes); }

  static void moveRows(std::vector<BoundRow> &rows, int64_t iteration) {
    for (BoundRow &r : rows) {
      *r.row =
          r.initial && iteration == 0 ? *r.initial : static_cast<char *>(*r.stack) + r.offset + iteration * r.stride;
      for (void **operand : r.operands) *operand = *r.row;
    }
  }

  void runLoop(BoundStep &s, const Walk &walk) {
    Queue &own = walk.queue;
    for (const BoundMove &m : s.initial) copy(own, m);
    const int64_t bound = s.tripCount >= 0 ? s.tripCount : INT64_MAX;
    const int64_t trips = s.in[0] ? std::min(bound, read<int64_t>(own, s.in[0])) : bound;
    bool go = s.in[1] ? isTrue(own, s.in[1]) : true;
    InterruptPace pace;
    int64_t i = 0;
    for (; i < trips && go; ++i) {
      if (i > 0) pace.iteration();
      if (i == mostIterations) [[unlikely]]
        throw runtime_error(
            "{}: the loop continues after as many iterations as max_loop_iterations allows: got more than {}. Raise "
            "the "
            "limit, or leave it out of engineOptions",
            s.step->op, i);
      write(own, s.iteration, i);
      moveRows(s.rows, i);
      runInner(*s.programs[0], walk);
      for (const BoundMove &scan : s.scans)
        own.copyWithin(static_cast<char *>(scan.operands[1]) + i * scan.bytes, scan.operands[0], scan.bytes);
      go = isTrue(own, s.condition);
      for (const BoundMove &m : s.carried) copy(own, m);
    }
    if (s.results.empty()) return;
    moveRows(s.rows, i);
    for (const BoundMove &m : s.results)
      if (m.operands[0] != m.operands[1]) copy(own, m);  // the loop may not have run
  }

  const Executable &executable;
  const int process;
  std::unique_ptr<StepTimes> times;
  std::unique_ptr<Queue> queue;
  std::map<std::vector<int>, std::unique_ptr<Lanes>> lanes;  // by the threads of each
  const int64_t mostIterations;                              // of one loop; -1: no limit
  const std::chrono::nanoseconds longest;
  const bool isHostMemory;
  char *arena;
  std::vector<int64_t> variableOffsets;
  char *block;                    // of the variables that are not remote
  std::vector<char *> variables;  // where each begins
  std::vector<void *> constants;
  std::vector<void *> addresses;                             // of the buffers; those of rows change while loops run
  std::vector<std::unique_ptr<SharedBuffer>> sharedBuffers;  // by buffer; null: cannot be in the host's memory
  std::vector<BoundRow *> rowOf;  // while binding: the rows of the loops around a step, by buffer
  std::vector<std::unique_ptr<void *[]>> pointerLists;
  std::unique_ptr<BoundProgram> main;
  RunStatistics transfers;
};

Engine::Engine(std::shared_ptr<const Executable> executable, const Device &device, const RunSettings &settings,
               std::span<const std::unique_ptr<Engine>> before)
    : executable_(std::move(executable)), impl_(std::make_unique<Impl>(*executable_, device, settings, before)) {}

Engine::~Engine() {
  std::optional<std::string> file = environment::stepTimes();
  if (!impl_->times || !file) return;
  if (impl_->process >= 0) *file += "." + std::to_string(impl_->process);  // so that no two processes write to one file
  std::ofstream(*file, std::ios::app) << impl_->times->table();
}

StepTimes *Engine::stepTimes() { return impl_->times.get(); }

int Engine::threads() const { return impl_->queue->threads(); }

const RunStatistics &Engine::transfers() const { return impl_->transfers; }

void Engine::writeVariable(int i, const void *data) { impl_->writeVariable(static_cast<size_t>(i), data); }

void Engine::readVariable(int i, void *data) const { impl_->readVariable(static_cast<size_t>(i), data); }

void Engine::writeRow(int i, int64_t row, const void *data) { impl_->writeRow(static_cast<size_t>(i), row, data); }

void Engine::readRow(int i, int64_t row, void *data) const { impl_->readRow(static_cast<size_t>(i), row, data); }

void Engine::run(StreamSource &streams) { impl_->run(streams); }

}  // namespace popart::runtime
