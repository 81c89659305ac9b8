// SessionOptions: environment defaults, derived values, and comparison and hash made from the list of fields.
#include <popart/sessionoptions.hpp>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "api/option_fields.hpp"
#include "base/environment.hpp"
#include "base/hash.hpp"

namespace popart {
namespace {

std::size_t hashOf(const std::string &v) { return std::hash<std::string>()(v); }
std::size_t hashOf(const TensorLocation &v) {
  std::size_t seed = 0;
  for (int64_t field : v.serialize()) seed = combineHashes(seed, std::hash<int64_t>()(field));
  return seed;
}
template <class T>
requires std::is_arithmetic_v<T> std::size_t hashOf(T v) { return std::hash<T>()(v); }
template <class T>
requires std::is_enum_v<T> std::size_t hashOf(T v) { return static_cast<std::size_t>(v); }
template <class T>
std::size_t hashOf(const std::vector<T> &v) {
  std::size_t seed = v.size();
  for (const auto &e : v) seed = combineHashes(seed, hashOf(e));
  return seed;
}
template <class T>
std::size_t hashOf(const std::set<T> &v) {
  std::size_t seed = v.size();
  for (const auto &e : v) seed = combineHashes(seed, hashOf(e));
  return seed;
}
template <class K, class T>
std::size_t hashOf(const std::map<K, T> &v) {
  std::size_t seed = v.size();
  for (const auto &[key, value] : v) seed = combineHashes(combineHashes(seed, hashOf(key)), hashOf(value));
  return seed;
}
template <class... T>
std::size_t hashFields(const T &...fields) {
  std::size_t seed = 0;
  ((seed = combineHashes(seed, hashOf(fields))), ...);
  return seed;
}
std::size_t hashOf(const AccumulateOuterFragmentSettings &v) { return hashFields(v.schedule, v.excludedVirtualGraphs); }
std::size_t hashOf(const AutodiffSettings &v) { return hashFields(v.stitchStrategy); }
std::size_t hashOf(const AutomaticLossScalingSettings &v) {
  return hashFields(v.enabled, v.binEdgeLocation, v.thresholdUpperCountProportion,
                    v.toTrackTensors.value_or(std::vector<TensorId>{}), v.updatePeriod, v.gradientTensorTrackingMethod);
}
std::size_t hashOf(const BatchSerializationSettings &v) {
  return hashFields(v.factor, v.concatOnVirtualGraphChange, v.concatOnExecutionPhaseChange,
                    v.concatOnPipelineStageChange, v.transformContext, v.method, v.batchSchedule);
}
std::size_t hashOf(const DeveloperSettings &v) { return hashFields(v.minTensorsForPrefetch); }
std::size_t hashOf(const ExecutionPhaseSettings &v) {
  return hashFields(v.phases, v.stages, v.weightIOSchedule, v.activationIOSchedule, v.optimizerStateIOSchedule,
                    v.accumulatorIOSchedule, v.schedule);
}
std::size_t hashOf(const ExperimentalSettings &v) {
  return hashFields(v.customTransformApplierSettings, v.createHostTransferableTensorWithOffset);
}
std::size_t hashOf(const NumIOTiles &v) { return hashFields(v.numIOTiles); }
std::size_t hashOf(const ReplicatedCollectivesSettings &v) {
  return hashFields(v.prepareScheduleForMergingCollectives, v.mergeAllReduceCollectives,
                    v.mergeReduceScatterCollectives, v.mergeAllGatherCollectives);
}
std::size_t hashOf(const TensorLocationSettings &v) {
  return hashFields(v.location, v.minElementsForOffChip, v.minElementsForReplicatedTensorSharding);
}

}  // namespace

SessionOptions::SessionOptions() {
  const std::optional<std::string> popart = environment::cacheFolder(), popxl = environment::popxlCacheFolder();
  if (popart && popxl && *popart != *popxl)
    logging::session::warn("POPART_CACHE_DIR '{}' and POPXL_CACHE_DIR '{}' differ: the latter is used", *popart,
                           *popxl);
  if (const std::optional<std::string> &path = popxl ? popxl : popart) {
    enableEngineCaching = true;
    cachePath = *path;
  }
}

void SessionOptions::enableExplicitIR(bool enable) {
  useHostCopyOps = enable;
  enableExplicitMainLoops = enable;
  explicitRecomputation = enable;
}

bool SessionOptions::shouldDelayVarUpdates() const {
  return delayVarUpdates && executionPhaseSettings.phases < 2 && batchSerializationSettings.factor < 2 &&
         !explicitRecomputation && !enableExplicitMainLoops;
}

int64_t SessionOptions::getAccumulationFactor() const {
  if (!enableGradientAccumulation && accumulationFactor > 1)
    throw error(
        "SessionOptions: accumulationFactor is {}, but enableGradientAccumulation is off. Turn it on, or set "
        "accumulationFactor to 1",
        accumulationFactor);
  return enableGradientAccumulation ? accumulationFactor : 1;
}

int64_t SessionOptions::getGlobalReplicationFactor() const {
  return enableDistributedReplicatedGraphs ? globalReplicationFactor : getLocalReplicationFactor();
}

unsigned SessionOptions::getBufferingDepth(const TensorId &id, bool rearrangedOnHost) const {
  auto it = bufferingDepthMap.find(id);
  const unsigned depth = it == bufferingDepthMap.end()
                             ? (enablePrefetchDatastreams && !rearrangedOnHost ? defaultBufferingDepth : 1)
                             : it->second;
  if (depth < 1)
    throw error("SessionOptions: bad buffering depth of stream '{}': got {}, expected 1 or more", id, depth);
  if (depth > 1 && rearrangedOnHost)
    throw error("SessionOptions: stream '{}' is rearranged on the host: got buffering depth {}, expected 1", id, depth);
  return depth;
}

bool SessionOptions::operator==(const SessionOptions &other) const {
  bool equal = true;
  forEachOption([&](const char *, auto member) { equal = equal && this->*member == other.*member; });
  return equal;
}

std::size_t SessionOptions::hash() const {
  std::size_t seed = 0;
  forEachOption([&](const char *, auto member) { seed = combineHashes(seed, hashOf(this->*member)); });
  return seed;
}

}  // namespace popart
