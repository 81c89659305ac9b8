// See remedies.hpp. Estimates start from the smallest program that was compiled, since the same choices would be made
// again for a smaller batch or fewer replicas.
#include "fitting/remedies.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <popart/error.hpp>

#include "base/byte_size.hpp"
#include "executable/cost.hpp"
#include "lower/memory_limit.hpp"

namespace popart::fitting {
namespace {

constexpr size_t kNamed = 3;

struct Remedy {
  std::string what;
  int64_t bytes = 0;  // of one replica
  double times = 1;   // the plain program's time
  bool isEstimate = true;
};

class Remedies {
 public:
  explicit Remedies(const Refusal &refusal)
      : refusal_(refusal), base_(refusal.smallest.value_or(Attempt{refusal.plain.executable->memory, 1})) {
    addSmallerBatch();
    addFewerReplicas();
    addFiles();
    addLimits();
    std::ranges::stable_sort(remedies_, {}, &Remedy::times);
  }

  std::string text() const {
    if (remedies_.empty()) return ". Use a smaller batch or smaller layers.";
    std::string text = ". What would help, the least time first:";
    for (const Remedy &r : std::span(remedies_).first(std::min(kNamed, remedies_.size())))
      text += fmt::format("\n  {}: {}{} bytes, {:.2f} times the time", r.what, r.isEstimate ? "about " : "", r.bytes,
                          r.times);
    return text + "\n";
  }

 private:
  bool trains() const { return refusal_.asked.updates.has_value(); }

  // The largest number that divides the first dimension of all streams.
  int64_t batch() const {
    int64_t common = 0;
    for (const Tensor *stream : refusal_.asked.ir->getMainGraph().tensorsOfType(TensorType::Stream))
      if (stream->info.isSet() && stream->info.rank() > 0) common = std::gcd(common, stream->info.shape().front());
    return common;
  }

  // Memory falls with the batch, down to the gradient of the largest weight.
  void addSmallerBatch() {
    int64_t largest = 0, all = 0;
    for (const Tensor *v : refusal_.asked.ir->getMainGraph().tensorsOfType(TensorType::Variable)) {
      largest = std::max(largest, v->info.nbytes());
      all += v->info.nbytes();
    }
    const bool addsAccumulators = trains() && !refusal_.asked.options.factors.accumulates;
    const int64_t size = batch();
    for (int64_t parts = 2; size > 0 && size % parts == 0; parts *= 2) {
      executable::MemoryReport memory = base_.memory;
      memory.arenaBytes = std::max(memory.arenaBytes / parts, trains() ? std::min(memory.arenaBytes, largest) : 0);
      if (addsAccumulators) memory.variableBytes += all;
      if (memory.total() > refusal_.mostBytes) continue;
      const double adding =
          addsAccumulators ? executable::predictedNanoseconds(0, 3.0 * static_cast<double>(all * parts)) * 1e-6 : 0;
      const double times = base_.times + adding / refusal_.plainMilliseconds;
      const int64_t factor = parts * refusal_.asked.options.factors.accumulationFactor;
      remedies_.push_back({trains() ? fmt::format("accumulate over {} micro-batches, each 1/{} of this one "
                                                  "(enableGradientAccumulation, accumulationFactor)",
                                                  factor, parts)
                                    : fmt::format("feed batches of {} in place of {}", size / parts, size),
                           memory.total(), times});
      return;
    }
  }

  void addFewerReplicas() {
    const int64_t all = refusal_.mostBytes * refusal_.replicas, constants = base_.memory.constantBytes;
    for (int count = refusal_.replicas / 2; count > 0; count /= 2) {
      if (constants + count * (base_.memory.total() - constants) > all) continue;
      const double share = static_cast<double>(refusal_.replicas) / count;
      remedies_.push_back({fmt::format("train with {} replicas in place of {} and accumulate {} times as many "
                                       "micro-batches (replicatedGraphCount, accumulationFactor)",
                                       count, refusal_.replicas, share),
                           base_.memory.total(), base_.times * share});
      return;
    }
  }

  void addFiles() {
    if (refusal_.inFiles)
      remedies_.push_back({"let tensors lie in files (POPART_REMOTE_MEMORY=FOLDER)", refusal_.inFiles->memory.total(),
                           refusal_.inFiles->times, false});
  }

  void addLimits() {
    const executable::MemoryReport &plain = refusal_.plain.executable->memory;
    addLimit(base_.memory.total(), base_.times);
    if (plain.total() > base_.memory.total()) addLimit(plain.total(), 1);
  }

  void addLimit(int64_t bytes, double times) {
    if (bytes * refusal_.replicas <= machineMemoryBytes())
      remedies_.push_back({fmt::format("allow {} bytes (max_memory)", bytes * refusal_.replicas), bytes, times, false});
  }

  const Refusal &refusal_;
  const Attempt base_;
  std::vector<Remedy> remedies_;
};

}  // namespace

void throwDoesNotFit(const Refusal &refusal) {
  const std::string text =
      lower::doesNotFitText(refusal.plain.executable->memory, refusal.mostBytes) +
      (refusal.smallest ? fmt::format("; computing again and moving off chip all that can be leaves {} bytes",
                                      refusal.smallest->memory.total())
                        : "");
  throw memory_allocation_err(
      text + Remedies(refusal).text() + "Largest tensors:" + lower::largestTensors(refusal.plain.plan), text);
}

}  // namespace popart::fitting
