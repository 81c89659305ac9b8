// The host's queue: memory of the system, a thread pool, scratch memory and a run context per thread. What a launch
// needs is resolved when it is bound.
#include "runtime/host_device.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include <popart/error.hpp>

#include "base/byte_size.hpp"
#include "base/environment.hpp"
#include "base/threads/processors.hpp"
#include "base/threads/thread_pool.hpp"
#include "executable/cost.hpp"
#include "executable/host_kernel.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/remote_memory.hpp"

namespace popart::runtime {
namespace {

using executable::Executable;
using executable::HostKernel;
using executable::RunContext;
using executable::Step;

// Each worker is bound to a core when there is one thread per allowed core, over all replicas; otherwise the system
// places them better. With more threads than the CPU quota allows, waiting threads do not poll: they would use up the
// others' quota.
ThreadPoolOptions poolOptions(const RunSettings &settings) {
  const ProcessorLimits limits = processorLimits();
  const int all = settings.threads * settings.replicas;
  ThreadPoolOptions options;
  if (settings.threads > 1 && all == limits.threads() && limits.cores.size() == static_cast<size_t>(all)) {
    const auto first = limits.cores.begin() + settings.replica * settings.threads;
    options.processors.assign(first + 1, first + settings.threads);
  }
  if (limits.quota && all > std::max(1.0, std::ceil(*limits.quota))) options.spin = std::chrono::nanoseconds(0);
  return options;
}

// All memory is committed at the start: an allocation that the machine cannot back would end the process later.
void requireMemoryFor(const Executable &e) {
  constexpr int64_t kAlwaysThere = int64_t{64} << 20;
  const int64_t remote = environment::remoteMemory() ? 0 : e.memory.remoteBytes;
  const int64_t needed = e.memory.arenaBytes + e.memory.variableBytes + e.memory.scratchBytes + remote;
  if (needed <= kAlwaysThere) return;
  const int64_t free = freeMemoryBytes();
  if (needed <= free) return;
  const std::string text =
      "the engine needs more memory than is free: got " + toText(needed) + " bytes, expected at most " + toText(free);
  const char *files = remote > 0 ? ", or set POPART_REMOTE_MEMORY to a folder for remote variables" : "";
  throw memory_allocation_err(text + ". Use a smaller batch or free memory" + files, text);
}

constexpr int64_t kLeastCopyBytes = int64_t{256} << 10;  // of one thread; takes some times what waking a thread costs

class HostQueue final : public Queue {
 public:
  HostQueue(std::string device, const Executable &e, const RunSettings &settings)
      : device_(std::move(device)),
        waking_(settings.waking),
        pool_(settings.threads, poolOptions(settings)),
        scratchStride_(HostMemory::aligned(e.scratchBytesPerThread)),
        scratch_(scratchStride_ * pool_.threads()),
        shared_(e.sharedScratchBytes),
        contexts_(static_cast<size_t>(pool_.threads()), RunContext(failed_, settings.replica, settings.collectives)) {
    touchInTurn(shared_);
    pool_.onEachThread(
        [this](int thread, int) { scratch_.touch(thread * scratchStride_, (thread + 1) * scratchStride_); });
  }

  int threads() const override { return pool_.threads(); }

  char *allocate(int64_t bytes, std::span<const int64_t> values) override {
    const HostMemory &block = blocks_.emplace_back(bytes);
    if (values.empty()) {
      touchInTurn(block);
    } else {
      touchInParts(block, values);
    }
    return block.data();
  }

  char *allocateRemote(int64_t bytes) override { return remote_.emplace_back(bytes).data(); }
  void expect(const void *remote, int64_t bytes) override { RemoteMemory::expect(remote, bytes); }

  bool isHostMemory() const override { return true; }
  void copyIn(void *device, const void *host, int64_t bytes) override { copyWithin(device, host, bytes); }
  void copyOut(void *host, const void *device, int64_t bytes) override { copyWithin(host, device, bytes); }
  void copyWithin(void *to, const void *from, int64_t bytes) override {
    const auto parts = static_cast<int>(std::min<int64_t>(pool_.threads(), bytes / kLeastCopyBytes));
    if (parts > 1) {
      pool_.parallel(parts, [=](int part, int) {
        const int64_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
        std::memcpy(static_cast<char *>(to) + begin, static_cast<const char *>(from) + begin,
                    static_cast<size_t>(end - begin));
      });
    } else if (bytes > 0) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }

  std::unique_ptr<Launch> bind(const Step &step, const void *const *in, void *const *out) override {
    const auto *kernel = dynamic_cast<const HostKernel *>(step.kernel.get());
    check(kernel != nullptr,
          "{}: its kernel '{}' does not run on the host: got device {}, expected the one it was made "
          "for. Load the executable on that device",
          step.op.empty() ? step.name : step.op, step.kernel->name(), device_);
    return std::make_unique<HostLaunch>(*this, step, *kernel, in, out);
  }
  void wait() override {}  // launches return when they are done

 private:
  class HostLaunch final : public Launch {
   public:
    HostLaunch(HostQueue &queue, const Step &step, const HostKernel &kernel, const void *const *in, void *const *out)
        : queue_(queue), step_(step), kernel_(kernel), in_(in), out_(out) {
      const auto ends = kernel.roundEnds();
      roundEnds_.assign(ends.begin(), ends.end());
      if (ends.empty()) roundEnds_.push_back(kernel.tasks());
      const int tasks = executable::widestRound(kernel), threads = queue.pool_.threads();
      threads_ = queue.waking_ == Waking::Always
                     ? std::clamp(tasks, 1, threads)
                     : executable::threadsThatPay(executable::predictedNanoseconds(kernel), tasks, threads);
    }

    void run() override {
      if (threads_ == 1) {
        for (int task = 0; task < roundEnds_.back(); ++task) runTask(task, 0);
      } else {
        int first = 0;
        for (const int end : roundEnds_) {
          queue_.pool_.parallel(
              end - first, [this, first](int task, int thread) { runTask(first + task, thread); }, threads_);
          first = end;
        }
      }
      if (queue_.failed_.load(std::memory_order_relaxed)) [[unlikely]]
        queue_.throwFailure(step_);
    }

   private:
    void runTask(int task, int thread) const {
      kernel_.run({in_, out_, queue_.scratch_.data() + thread * queue_.scratchStride_,
                   queue_.contexts_[static_cast<size_t>(thread)], queue_.shared_.data()},
                  task);
    }

    HostQueue &queue_;
    const Step &step_;
    const HostKernel &kernel_;
    const void *const *in_;
    void *const *out_;
    std::vector<int> roundEnds_;
    int threads_ = 1;
  };

  // Memory that every thread uses: first touched in interleaved blocks.
  void touchInTurn(const HostMemory &memory) {
    pool_.onEachThread([&](int thread, int) {
      constexpr auto kBlock = static_cast<int64_t>(HostMemory::kHugePage);
      for (int64_t at = thread * kBlock; at < memory.bytes(); at += pool_.threads() * kBlock)
        memory.touch(at, at + kBlock);
    });
  }
  // Each value in contiguous parts, as kernels partition it into tasks.
  void touchInParts(const HostMemory &memory, std::span<const int64_t> values) {
    pool_.onEachThread([&](int thread, int) {
      const int64_t threads = pool_.threads();
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        const int64_t begin = values[i], bytes = values[i + 1] - begin;
        memory.touch(begin + bytes * thread / threads, begin + bytes * (thread + 1) / threads);
      }
    });
  }

  // Ends the run with what the tasks of this step reported first.
  [[noreturn]] void throwFailure(const Step &step) {
    const RunContext *first = nullptr;
    for (const RunContext &c : contexts_)
      if (c.hasFailure() && (!first || c.precedes(*first))) first = &c;
    const RunContext failure = *first;
    for (RunContext &c : contexts_) c.clear();
    failed_.store(false, std::memory_order_relaxed);
    failure.raise(step.op.empty() ? step.name : step.op);
  }

  const std::string device_;
  const Waking waking_;
  ThreadPool pool_;
  const int64_t scratchStride_;
  HostMemory scratch_, shared_;
  std::atomic<bool> failed_{false};
  std::vector<RunContext> contexts_;  // one per thread
  std::vector<HostMemory> blocks_;
  std::vector<RemoteMemory> remote_;
};

}  // namespace

std::unique_ptr<Queue> HostDevice::open(const Executable &executable, const RunSettings &settings) const {
  requireMemoryFor(executable);
  return std::make_unique<HostQueue>(name_, executable, settings);
}

}  // namespace popart::runtime
