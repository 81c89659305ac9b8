// DataFlow and AnchorReturnType: parsing and checks of the public value classes.
#include <popart/dataflow.hpp>

#include <cctype>
#include <set>

#include <popart/error.hpp>
#include <popart/sessionoptions.hpp>

#include "base/hash.hpp"

namespace popart {
namespace {

AnchorReturnTypeId parseKind(const std::string &kind) {
  std::string lower = kind;
  for (char &c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "final") return AnchorReturnTypeId::Final;
  if (lower == "everyn") return AnchorReturnTypeId::EveryN;
  if (lower == "all") return AnchorReturnTypeId::All;
  if (lower == "sum") return AnchorReturnTypeId::Sum;
  throw error("AnchorReturnType: unknown kind: got '{}', expected 'Final', 'EveryN', 'All' or 'Sum'", kind);
}

}  // namespace

std::string toText(AnchorReturnTypeId id) {
  switch (id) {
    case AnchorReturnTypeId::Final:
      return "Final";
    case AnchorReturnTypeId::EveryN:
      return "EveryN";
    case AnchorReturnTypeId::All:
      return "All";
    case AnchorReturnTypeId::Sum:
      return "Sum";
  }
  return "?";
}

std::string toText(ExchangeStrategy strategy) {
  switch (strategy) {
    case ExchangeStrategy::JustInTime:
      return "JustInTime";
    case ExchangeStrategy::OverlapInnerLoop:
      return "OverlapInnerLoop";
    case ExchangeStrategy::OverlapLoops:
      return "OverlapLoops";
    case ExchangeStrategy::OverlapStep:
      return "OverlapStep";
    case ExchangeStrategy::N:
      break;
  }
  return "?";
}

AnchorReturnType::AnchorReturnType(std::string kind, TileSet tileSet, ExchangeStrategy exchangeStrategy)
    : text_(std::move(kind)), id_(parseKind(text_)), tileSet_(tileSet), exchangeStrategy_(exchangeStrategy) {
  if (id_ == AnchorReturnTypeId::EveryN)
    throw error("AnchorReturnType 'EveryN': a return period is missing. Give it as second argument");
}

AnchorReturnType::AnchorReturnType(std::string kind, int returnPeriod, TileSet tileSet,
                                   ExchangeStrategy exchangeStrategy)
    : text_(std::move(kind)),
      id_(parseKind(text_)),
      period_(returnPeriod),
      tileSet_(tileSet),
      exchangeStrategy_(exchangeStrategy) {
  if (id_ != AnchorReturnTypeId::EveryN)
    throw error("AnchorReturnType '{}': a return period is only for 'EveryN': got {}. Leave the period out", text_,
                returnPeriod);
  if (returnPeriod <= 0)
    throw error("AnchorReturnType 'EveryN': bad return period: got {}, expected 1 or more", returnPeriod);
}

int AnchorReturnType::rp() const {
  if (id_ != AnchorReturnTypeId::EveryN) throw error("AnchorReturnType '{}': only 'EveryN' has a return period", text_);
  return period_;
}

std::size_t AnchorReturnType::hash() const {
  std::size_t seed = combineHashes(static_cast<std::size_t>(id_), static_cast<std::size_t>(period_));
  return combineHashes(combineHashes(seed, static_cast<std::size_t>(tileSet_)),
                       static_cast<std::size_t>(exchangeStrategy_));
}

DataFlow::DataFlow(int batchesPerStep) { setBatchesPerStep(batchesPerStep); }

DataFlow::DataFlow(int batchesPerStep, const AnchorReturnTypeMap &anchors) : anchors_(anchors) {
  setBatchesPerStep(batchesPerStep);
}

DataFlow::DataFlow(int batchesPerStep, const std::vector<TensorId> anchorIds, const AnchorReturnType &returnType) {
  for (const TensorId &id : anchorIds) anchors_.emplace(id, returnType);
  setBatchesPerStep(batchesPerStep);
}

void DataFlow::setBatchesPerStep(int batchesPerStep) {
  if (batchesPerStep <= 0) throw error("DataFlow: bad batchesPerStep: got {}, expected 1 or more", batchesPerStep);
  batchesPerStep_ = batchesPerStep;
  checkAnchors();
}

void DataFlow::checkAnchors() const {
  for (const auto &[id, art] : anchors_) {
    if (art.id() != AnchorReturnTypeId::EveryN) continue;
    if (art.rp() > batchesPerStep_)
      throw error(
          "DataFlow anchor '{}': the EveryN return period is larger than batchesPerStep: got {}, expected at most {}",
          id, art.rp(), batchesPerStep_);
    if (batchesPerStep_ % art.rp() != 0)
      throw error(
          "DataFlow anchor '{}': the EveryN return period must divide batchesPerStep: got {}, expected a divisor of {}",
          id, art.rp(), batchesPerStep_);
  }
}

std::vector<TensorId> DataFlow::anchors() const {
  std::vector<TensorId> ids;
  for (const auto &entry : anchors_) ids.push_back(entry.first);
  return ids;
}

const AnchorReturnType &DataFlow::art(const TensorId &id) const {
  auto it = anchors_.find(id);
  if (it == anchors_.end()) throw error("DataFlow: '{}' is not an anchor. Anchors are {}", id, anchors());
  return it->second;
}

unsigned DataFlow::numOutFetchesPerRepl(const SessionOptions &options, const TensorId &id) const {
  const AnchorReturnType &type = art(id);
  const int64_t perStep = batchesPerStep_ * options.getAccumulationFactor();
  switch (type.id()) {
    case AnchorReturnTypeId::All:
      return static_cast<unsigned>(perStep);
    case AnchorReturnTypeId::EveryN:
      return static_cast<unsigned>(perStep / type.rp());
    default:
      return 1;
  }
}

bool DataFlow::isBatchCountingRequired() const { return !rps().empty(); }

std::vector<int> DataFlow::rps() const {
  std::set<int> periods;
  for (const auto &entry : anchors_)
    if (entry.second.id() == AnchorReturnTypeId::EveryN) periods.insert(entry.second.rp());
  return {periods.begin(), periods.end()};
}

std::size_t DataFlow::hash() const {
  std::size_t seed = static_cast<std::size_t>(batchesPerStep_);
  for (const auto &[id, art] : anchors_)
    seed = combineHashes(combineHashes(seed, std::hash<std::string>()(id)), art.hash());
  return seed;
}

}  // namespace popart
