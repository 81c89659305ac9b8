// See remedies.hpp. Estimates start from the unchanged program and, if that is not enough, from the smallest compiled
// one, because the same choices would be made again for a smaller batch or fewer replicas.
#include "fitting/remedies.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

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
  int64_t bytes = 0;  // memory of one replica
  double times = 1;   // time as a multiple of the plain program's time
  bool isEstimate = true;
};

class Remedies {
 public:
  explicit Remedies(const Refusal &refusal)
      : refusal_(refusal), plain_{refusal.plain.executable->memory, 1}, smallest_(smallestOf(refusal, plain_)) {
    if (!addSmallerBatch(plain_)) addSmallerBatch(smallest_);
    if (!addFewerReplicas(plain_)) addFewerReplicas(smallest_);
    if (isPopxl()) addRemoteVariables();
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
  // Replicas do not share memory off chip, so all choices together may need more memory than before.
  static Attempt smallestOf(const Refusal &refusal, const Attempt &plain) {
    const bool saves = refusal.smallest && refusal.smallest->memory.total() < plain.memory.total();
    return saves ? *refusal.smallest : plain;
  }
  bool isPopxl() const { return refusal_.asked.words == Asked::Words::Popxl; }
  bool accumulatesOnRequest() const { return !isPopxl() && refusal_.asked.keepsGradients; }

  // The largest number that divides the first dimension of all streams.
  int64_t batch() const {
    int64_t common = 0;
    for (const Tensor *stream : refusal_.asked.ir.getMainGraph().tensorsOfType(TensorType::Stream))
      if (stream->info.isSet() && stream->info.rank() > 0) common = std::gcd(common, stream->info.shape().front());
    return common;
  }

  // The arena decreases with the batch, down to the gradient of the largest weight and the largest scratch memory.
  bool addSmallerBatch(const Attempt &base) {
    int64_t largest = 0, all = 0;
    for (const Tensor *v : refusal_.asked.ir.getMainGraph().tensorsOfType(TensorType::Variable)) {
      largest = std::max(largest, v->info.nbytes());
      all += v->info.nbytes();
    }
    const bool addsAccumulators = accumulatesOnRequest() && !refusal_.asked.accumulates;
    const int64_t least = refusal_.asked.keepsGradients ? std::min(base.memory.arenaBytes, largest) : 0;
    const int64_t size = batch();
    for (int64_t parts = 2; size > 0 && size % parts == 0; parts *= 2) {
      executable::MemoryReport memory = base.memory;
      const int64_t arena =
          std::max((memory.arenaBytes + memory.scratchBytesInArena) / parts, memory.largestScratchBytes);
      memory.arenaBytes = std::max(memory.arenaBytes / parts, least);
      memory.scratchBytes += std::max<int64_t>(0, arena - memory.arenaBytes) - memory.scratchBytesInArena;
      if (addsAccumulators) memory.variableBytes += all;
      if (memory.total() > refusal_.mostBytes) continue;
      const double adding =
          addsAccumulators ? executable::predictedNanoseconds(0, 3.0 * static_cast<double>(all * parts)) * 1e-6 : 0;
      const double times = base.times + adding / refusal_.plainMilliseconds;
      const int64_t factor = parts * refusal_.asked.accumulationFactor;
      remedies_.push_back({accumulatesOnRequest()
                               ? fmt::format("accumulate over {} micro-batches, each 1/{} of this one "
                                             "(enableGradientAccumulation, accumulationFactor)",
                                             factor, parts)
                               : fmt::format("feed batches of {} instead of {}", size / parts, size),
                           memory.total(), times});
      return true;
    }
    return false;
  }

  // Memory that replicas share does not change; variables are usually shared by all.
  executable::MemoryReport ofFewer(executable::MemoryReport memory, int count) const {
    if (refusal_.replicas > 1)
      memory.sharedVariableBytes =
          memory.sharedVariableBytes * refusal_.replicas / (refusal_.replicas - 1) * (count - 1) / count;
    memory.replicas = count;
    return memory;
  }

  bool addFewerReplicas(const Attempt &base) {
    const int64_t all = refusal_.mostBytes * refusal_.replicas;
    for (int count = refusal_.replicas / 2; count > 0; count /= 2) {
      const executable::MemoryReport memory = ofFewer(base.memory, count);
      if (memory.total() * count > all) continue;
      const double share = static_cast<double>(refusal_.replicas) / count;
      remedies_.push_back({isPopxl()
                               ? fmt::format("run on {} replicas instead of {} (popxl.Ir(replication=…)), each {} "
                                             "times as often",
                                             count, refusal_.replicas, share)
                               : fmt::format("train with {} replicas instead of {} and accumulate {} times as many "
                                             "micro-batches (replicatedGraphCount, accumulationFactor)",
                                             count, refusal_.replicas, share),
                           memory.total(), base.times * share});
      return true;
    }
    return false;
  }

  // The largest variable must be in memory; all are loaded, and stored again if they change.
  void addRemoteVariables() {
    int64_t largest = 0;
    for (const Tensor *variable : refusal_.plain.plan.variables)
      if (!variable->isRemote) largest = std::max(largest, variable->info.nbytes());
    executable::MemoryReport memory = plain_.memory;
    const double moved = 2.0 * static_cast<double>(std::exchange(memory.variableBytes, largest));
    memory.sharedVariableBytes = 0;
    if (memory.total() > refusal_.mostBytes) return;
    const double moving = executable::predictedNanoseconds(0, moved) * 1e-6;
    remedies_.push_back({"keep variables off chip and load them where they are used (popxl.remote_variable)",
                         memory.total(), 1 + moving / refusal_.plainMilliseconds});
  }

  void addFiles() {
    if (refusal_.inFiles)
      remedies_.push_back({"keep tensors in files (POPART_REMOTE_MEMORY=FOLDER)", refusal_.inFiles->memory.total(),
                           refusal_.inFiles->times, false});
  }

  void addLimits() {
    addLimit(smallest_);
    if (plain_.memory.total() > smallest_.memory.total()) addLimit(plain_);
  }

  void addLimit(const Attempt &base) {
    const int64_t bytes = base.memory.total(), all = bytes * refusal_.replicas;
    if (all <= machineMemoryBytes())
      remedies_.push_back({fmt::format("allow {} bytes ({})", all, isPopxl() ? "POPART_MAX_MEMORY" : "max_memory"),
                           bytes, base.times, false});
  }

  const Refusal &refusal_;
  const Attempt plain_, smallest_;
  std::vector<Remedy> remedies_;
};

}  // namespace

Asked askedOf(const pipeline::PrepareRequest &request) {
  const OptimizerFactors &factors = request.options.factors;
  return {*request.ir, Asked::Words::Popart, request.updates.has_value(), factors.accumulates,
          factors.accumulationFactor};
}

void throwDoesNotFit(const Refusal &refusal) {
  const std::string text =
      lower::doesNotFitText(refusal.plain.executable->memory, refusal.mostBytes) +
      (refusal.smallest ? fmt::format("; computing again and moving off chip all that can be leaves {} bytes",
                                      refusal.smallest->memory.total())
                        : "");
  const std::string activations =
      refusal.asked.words == Asked::Words::Popxl
          ? fmt::format(
                "Activations are {} bytes: keep less from the forward for the backward pass "
                "(popxl.transforms.recompute_graph)\n",
                refusal.plain.executable->memory.arenaBytes)
          : "";
  throw memory_allocation_err(
      text + Remedies(refusal).text() + activations + "Largest tensors:" + lower::largestTensors(refusal.plain.plan),
      text);
}

}  // namespace popart::fitting
