// See host_team.hpp. All addresses and tasks of a launch are resolved when it is bound.
#include "runtime/host_team.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <popart/error.hpp>

#include "executable/cost.hpp"
#include "executable/host_kernel.hpp"
#include "runtime/remote_memory.hpp"
#include "runtime/step_times.hpp"

namespace popart::runtime {
namespace {

using executable::HostKernel;
using executable::RunContext;
using executable::Step;

constexpr int64_t kLeastCopyBytes = int64_t{256} << 10;  // for one thread; takes a few times as long as waking a thread

// Of the team, that work on a step.
int threadsOf(const Team &team, const Step &step, const HostKernel &kernel, const KernelMemory &memory) {
  const int tasks = executable::widestRound(kernel);
  int threads = team.pool.threads();
  if (memory.scratch)
    threads = static_cast<int>(
        std::min<int64_t>(threads, memory.scratchBytes / executable::scratchStride(kernel.scratchBytes())));
  return team.wakePolicy == WakePolicy::Always
             ? std::clamp(tasks, 1, threads)
             : executable::threadsThatPay(executable::predictedNanoseconds(step), tasks, threads);
}

class HostLaunch : public Launch {
 public:
  HostLaunch(Team &team, const Step &step, const HostKernel &kernel, const void *const *in, void *const *out,
             const KernelMemory &memory)
      : team_(team),
        step_(step),
        kernel_(kernel),
        in_(in),
        out_(out),
        shared_(memory.shared),
        scratch_(memory.scratch ? static_cast<char *>(memory.scratch) : team.scratch),
        scratchStride_(memory.scratch ? executable::scratchStride(kernel.scratchBytes()) : team.scratchStride),
        threads_(threadsOf(team, step, kernel, memory)) {
    handle_ = kernel.takeHandle(team.contexts.front());
    const auto ends = kernel.roundEnds();
    roundEnds_.assign(ends.begin(), ends.end());
    if (ends.empty()) roundEnds_.push_back(kernel.tasks());
  }

  void run() override {
    if (threads_ == 1) {
      for (int task = 0; task < roundEnds_.back(); ++task) runTask(task, 0);
    } else {
      int first = 0;
      for (const int end : roundEnds_) {
        team_.pool.parallel(
            end - first, [this, first](int task, int thread) { runTask(first + task, thread); }, threads_);
        first = end;
      }
    }
    if (team_.failed.load(std::memory_order_relaxed)) [[unlikely]]
      team_.throwFailure(step_);
  }

 protected:
  void runTask(int task, int thread) const {
    kernel_.run(
        {in_, out_, scratch_ + thread * scratchStride_, team_.contexts[static_cast<size_t>(thread)], shared_, handle_},
        task);
  }

  Team &team_;
  const Step &step_;
  const HostKernel &kernel_;
  const void *const *in_;
  void *const *out_;
  void *const shared_;
  char *const scratch_;  // of thread t at t * scratchStride_
  const int64_t scratchStride_;
  const int threads_;
  std::vector<int> roundEnds_;
  executable::CollectiveHandle *handle_ = nullptr;
};

// The same of several threads with what each of them does, for a profile.
class TimedLaunch final : public HostLaunch {
 public:
  TimedLaunch(Team &team, const Step &step, const HostKernel &kernel, const void *const *in, void *const *out,
              const KernelMemory &memory)
      : HostLaunch(team, step, kernel, in, out, memory),
        number_(team.events->numberOf(step)),
        work_(static_cast<size_t>(team.pool.threads())) {}

  void run() override {
    int first = 0;
    for (const int end : roundEnds_) {
      team_.pool.parallel(
          end - first, [this, first](int task, int thread) { runTimed(first + task, thread); }, threads_);
      first = end;
    }
    for (size_t thread = 0; thread < work_.size(); ++thread) {
      const Work done = std::exchange(work_[thread], {});
      if (done.end > 0)
        team_.events->addEvent(
            {number_, team_.firstThread + static_cast<int>(thread), done.begin, done.end, done.busy});
    }
    if (team_.failed.load(std::memory_order_relaxed)) [[unlikely]]
      team_.throwFailure(step_);
  }

 private:
  struct alignas(64) Work {
    int64_t begin = 0, end = 0, busy = 0;
    void add(int64_t from, int64_t to) {
      if (end == 0) begin = from;
      end = to;
      busy += to - from;
    }
  };
  void runTimed(int task, int thread) {
    const int64_t begin = StepTimes::now();
    runTask(task, thread);
    work_[static_cast<size_t>(thread)].add(begin, StepTimes::now());
  }

  const int number_;
  std::vector<Work> work_;  // of each thread in the call that runs
};

}  // namespace

void Team::throwFailure(const Step &step) {
  const RunContext *first = nullptr;
  for (const RunContext &c : contexts)
    if (c.hasFailure() && (!first || c.precedes(*first))) first = &c;
  const RunContext failure = *first;
  for (RunContext &c : contexts) c.clear();
  failed.store(false, std::memory_order_relaxed);
  failure.raise(step.op.empty() ? step.name : step.op);
}

char *TeamQueue::allocate(int64_t bytes, std::span<const int64_t>) {
  throw internal_error("queue of a lane: got a request for {} bytes, expected one to the queue it was split from",
                       bytes);
}

void TeamQueue::expect(const void *remote, int64_t bytes) { RemoteMemory::expect(remote, bytes); }

void TeamQueue::copyWithin(void *to, const void *from, int64_t bytes) {
  const auto parts = static_cast<int>(std::min<int64_t>(team_.pool.threads(), bytes / kLeastCopyBytes));
  if (parts > 1) {
    team_.pool.parallel(parts, [=](int part, int) {
      const int64_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
      std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin,
                  static_cast<size_t>(end - begin));
    });
  } else if (bytes > 0) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

std::unique_ptr<Launch> TeamQueue::bind(const Step &step, const void *const *in, void *const *out,
                                        const KernelMemory &memory) {
  const auto *kernel = dynamic_cast<const HostKernel *>(step.kernel.get());
  check(kernel != nullptr,
        "{}: its kernel '{}' does not run on the host: got device {}, expected the one it was made "
        "for. Load the executable on that device",
        step.op.empty() ? step.name : step.op, step.kernel->name(), device_);
  if (team_.events && threadsOf(team_, step, *kernel, memory) > 1)
    return std::make_unique<TimedLaunch>(team_, step, *kernel, in, out, memory);
  if (team_.events) team_.events->runsOnThread(team_.events->numberOf(step), team_.firstThread);
  return std::make_unique<HostLaunch>(team_, step, *kernel, in, out, memory);
}

}  // namespace popart::runtime
