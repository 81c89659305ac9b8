// Program → Schedule → MemoryPlan → Executable.
#include <chrono>

#include <popart/logging.hpp>

#include "lower/emit.hpp"
#include "lower/memory_limit.hpp"
#include "lower/program.hpp"

namespace popart::lower {
namespace {

// Names and times of the steps of one compilation, logged together when it ends.
class StepLog {
 public:
  explicit StepLog(CompileTimes *times) : times_(times) {}
  StepLog(const StepLog &) = delete;
  ~StepLog() {
    try {
      if (!text_.empty()) logging::devicex::info("compile time by step: {}", text_);
    } catch (const std::exception &) {  // failure to write the log is ignored
    }
  }
  template <class Step>
  auto timed(const char *name, Step &&step) {
    const auto start = std::chrono::steady_clock::now();
    auto result = step();
    const auto end = std::chrono::steady_clock::now();
    if (times_) times_->spans.push_back({"Plan", name, start, end});
    const std::chrono::duration<double, std::milli> took = end - start;
    if (logging::shouldLog(logging::Module::devicex, logging::Level::Info))
      text_ += (text_.empty() ? "" : ", ") + logging::format("{} {} ms", name, took.count());
    return result;
  }

 private:
  CompileTimes *const times_;
  std::string text_;
};

}  // namespace

namespace {

// The steps after scheduling.
Compiled compileScheduled(const Program &program, schedule::Schedule schedule, const Kernels &kernels,
                          const LowerOptions &options, StepLog &log,
                          std::shared_ptr<executable::Executable> &executable) {
  const Ir &ir = *program.ir;
  Compiled result;
  result.schedule = std::move(schedule);
  result.plan = log.timed("planMemory", [&] {
    return memory::planMemory(
        ir, result.schedule, [&](const Op &op) { return kernels.find(op); }, options.threadsInArena());
  });
#ifndef NDEBUG
  schedule::verify(result.schedule, ir);
  memory::verify(result.plan);
  memory::verifyLanes(result.plan, ir, result.schedule);
  memory::verifySharedVariables(result.plan, ir, result.schedule);
#endif
  executable = log.timed("emit", [&] { return emit(ir, result.schedule, kernels, result.plan); });
  executable->memory.scratchBytes += executable->scratchBytesPerThread * options.threads;
  executable->memory.replicas = options.localReplicas();
  if (options.exchangeBytes) executable->memory.exchangeBytes = options.exchangeBytes(*executable);
  for (const auto &v : executable->variables) {
    if (v.sharers.size == 1) continue;
    const int64_t bytes = executable::storageBytes(v.info, v.layout);
    executable->memory.sharedVariableBytes +=
        bytes - v.sharers.shareOf(bytes, options.replicas, options.localReplicas());
  }
  return result;
}

}  // namespace

Compiled compileInSteps(const Program &program, const LowerOptions &options, const Backends &backends) {
  const Ir &ir = *program.ir;
  StepLog log(options.times.get());
  const auto plain = log.timed("schedule", [&] { return schedule::schedule(ir); });
  const Kernels kernels = log.timed("chooseKernels", [&] { return chooseKernels(ir, plain, backends); });
  auto chosen =
      log.timed("chooseLanes", [&] { return chooseLanes(ir, plain, kernels, options.threads, options.lanes); });
  const bool hasLanes = !chosen.sections.empty();
  std::shared_ptr<executable::Executable> executable;
  Compiled result = compileScheduled(program, std::move(chosen), kernels, options, log, executable);
  const bool isTooLarge = options.maxMemoryBytes > 0 && executable->memory.total() > options.maxMemoryBytes;
  if (hasLanes && isTooLarge && options.lanes == LaneRule::Auto) {
    logging::devicex::info("lanes run one after the other: at the same time they need {} bytes, the limit is {}",
                           executable->memory.total(), options.maxMemoryBytes);
    result = compileScheduled(program, plain, kernels, options, log, executable);
  }
  if (options.keepText) executable->loweredText = print(program, PrintData::Summary);
  checkMemoryLimit(executable->memory, result.plan, options.maxMemoryBytes);
  result.executable = std::move(executable);
  return result;
}

std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options,
                                                      const Backends &backends) {
  return compileInSteps(program, options, backends).executable;
}

std::shared_ptr<const executable::Executable> compile(const Program &program, const LowerOptions &options) {
  return compile(program, options, remember(options));
}

}  // namespace popart::lower
