// The host's queue: a team of threads, with memory from the system.
#include "runtime/host_device.hpp"
#include "base/host_memory.hpp"

#include <algorithm>
#include <cmath>

#include <popart/error.hpp>

#include "base/byte_size.hpp"
#include "base/environment.hpp"
#include "runtime/host_lanes.hpp"
#include "runtime/remote_memory.hpp"

namespace popart::runtime {
namespace {

using executable::Executable;

// Each worker is bound to a core when there is one thread per allowed core, over all replicas of the process; otherwise
// the system places them better. With more threads than the CPU quota allows, waiting threads do not poll: they would
// use up the others' quota.
ThreadPoolOptions poolOptions(const RunSettings &settings) {
  const ProcessorLimits limits = settings.processors();
  const int all = settings.threads * settings.locals;
  ThreadPoolOptions options;
  if (settings.threads > 1 && all == limits.threads() && limits.cores.size() == static_cast<size_t>(all)) {
    const auto first = limits.cores.begin() + settings.local * settings.threads;
    options.processors.assign(first + 1, first + settings.threads);
  }
  if (limits.quota && all > std::max(1.0, std::ceil(*limits.quota))) options.spin = std::chrono::nanoseconds(0);
  return options;
}

// All memory is committed at the start; otherwise the system could end the process later, when memory runs out.
void requireMemoryFor(const Executable &e, const RunSettings &settings) {
  constexpr int64_t kAlwaysThere = int64_t{64} << 20;
  const int64_t remote = environment::remoteMemory() ? 0 : e.memory.remoteBytes;
  const int64_t variables = ownVariableBytes(e, settings.replica, settings.firstLocal());
  const int64_t needed = e.memory.arenaBytes + variables + e.memory.scratchBytes + remote;
  if (needed <= kAlwaysThere) return;
  const int64_t free = freeMemoryBytes();
  if (needed <= free) return;
  const std::string text =
      "the engine needs more memory than is free: got " + toText(needed) + " bytes, expected at most " + toText(free);
  const char *files = remote > 0 ? ", or set POPART_REMOTE_MEMORY to a folder for remote variables" : "";
  throw memory_allocation_err(text + ". Use a smaller batch or free memory" + files, text);
}

// The state that exists before the queue that uses it.
struct AllThreads {
  explicit AllThreads(const RunSettings &settings)
      : team(settings.threads, poolOptions(settings), settings.wakePolicy, settings) {}
  Team team;
};

class HostQueue final : private AllThreads, public TeamQueue {
 public:
  HostQueue(const std::string &device, const Executable &e, const RunSettings &settings)
      : AllThreads(settings),
        TeamQueue(device, team),
        device_(device),
        settings_(settings),
        scratch_(executable::scratchStride(e.scratchBytesPerThread) * team.pool.threads()) {
    team.scratchStride = executable::scratchStride(e.scratchBytesPerThread);
    team.scratch = scratch_.data();
    team.pool.onEachThread(
        [this](int thread, int) { scratch_.touch(thread * team.scratchStride, (thread + 1) * team.scratchStride); });
  }

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

  std::unique_ptr<Lanes> split(std::span<const int> asked) override {
    const std::vector<int> threads = threadsOfLanes(asked, team.pool.threads());
    if (threads.empty()) return nullptr;
    return std::make_unique<HostLanes>(device_, team, threads, settings_);
  }

 private:
  // Memory that every thread uses: threads touch its blocks in turn.
  void touchInTurn(const HostMemory &memory) {
    team.pool.onEachThread([&](int thread, int) {
      constexpr auto kBlock = static_cast<int64_t>(HostMemory::kHugePage);
      for (int64_t at = thread * kBlock; at < memory.bytes(); at += team.pool.threads() * kBlock)
        memory.touch(at, at + kBlock);
    });
  }
  // Memory that threads use in parts: each value is touched in contiguous parts, as kernels divide it into tasks.
  void touchInParts(const HostMemory &memory, std::span<const int64_t> values) {
    team.pool.onEachThread([&](int thread, int) {
      const int64_t threads = team.pool.threads();
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        const int64_t begin = values[i], bytes = values[i + 1] - begin;
        memory.touch(begin + bytes * thread / threads, begin + bytes * (thread + 1) / threads);
      }
    });
  }

  const std::string device_;
  const RunSettings settings_;
  HostMemory scratch_;
  std::vector<HostMemory> blocks_;
  std::vector<RemoteMemory> remote_;
};

}  // namespace

std::unique_ptr<Queue> HostDevice::open(const Executable &executable, const RunSettings &settings) const {
  requireMemoryFor(executable, settings);
  return std::make_unique<HostQueue>(name_, executable, settings);
}

}  // namespace popart::runtime
