// DataFlow: which tensors are returned to the host (anchors), how, and how many batches one Session::run executes.
// AnchorReturnType says which values of an anchor within a step are returned. Facts: docs/compat/sessions.md.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <popart/inputsettings.hpp>
#include <popart/names.hpp>
#include <popart/tensorlocation.hpp>

namespace popart {

class SessionOptions;

// Which values of a step: the last one, every Nth, all, their sum. Accumulated micro-batches count as values.
enum class AnchorReturnTypeId { Final = 0, EveryN, All, Sum };

std::string toText(AnchorReturnTypeId id);      // the enumerator's name
std::string toText(ExchangeStrategy strategy);  // the enumerator's name; "?" for N

// How the values of one anchor are returned; tile set and strategy are hints.
class AnchorReturnType {
 public:
  AnchorReturnType() : AnchorReturnType("All") {}
  // kind: "final", "everyn", "all" or "sum", any case. Throws popart::error for another text, for "everyn" without a
  // period (first form), for a period <= 0 or a period with another kind (second form).
  AnchorReturnType(std::string kind, TileSet tileSet = TileSet::Compute,
                   ExchangeStrategy exchangeStrategy = ExchangeStrategy::JustInTime);
  AnchorReturnType(std::string kind, int returnPeriod, TileSet tileSet = TileSet::Compute,
                   ExchangeStrategy exchangeStrategy = ExchangeStrategy::JustInTime);

  AnchorReturnTypeId id() const { return id_; }
  int rp() const;                                   // return period; throws popart::error unless EveryN
  const std::string &str() const { return text_; }  // the text it was made from
  TileSet tileSet() const { return tileSet_; }
  ExchangeStrategy exchangeStrategy() const { return exchangeStrategy_; }
  std::size_t hash() const;  // of all fields except str()
  bool operator==(const AnchorReturnType &) const = default;

 private:
  std::string text_;
  AnchorReturnTypeId id_;
  int period_ = -1;
  TileSet tileSet_;
  ExchangeStrategy exchangeStrategy_;
};

// Anchors by tensor id.
using AnchorReturnTypeMap = std::map<TensorId, AnchorReturnType>;

// A step: batchesPerStep batches (of accumulationFactor micro-batches each) and the anchors they return.
class DataFlow {
 public:
  DataFlow() = default;  // zero batches: a placeholder
  // All throw popart::error if batchesPerStep <= 0, or if an EveryN period exceeds or does not divide it.
  explicit DataFlow(int batchesPerStep);
  DataFlow(int batchesPerStep, const AnchorReturnTypeMap &anchors);
  DataFlow(int batchesPerStep, const std::vector<TensorId> anchorIds,
           const AnchorReturnType &returnType = AnchorReturnType("All"));

  bool isAnchored(const TensorId &id) const { return anchors_.count(id) != 0; }
  int nAnchors() const { return static_cast<int>(anchors_.size()); }
  int batchesPerStep() const { return batchesPerStep_; }
  void setBatchesPerStep(int batchesPerStep);  // popart::error as above
  std::vector<TensorId> anchors() const;       // sorted
  // Throws popart::error if `id` is not an anchor.
  const AnchorReturnType &art(const TensorId &id) const;
  const AnchorReturnTypeMap &getAnchorReturnTypeMap() const { return anchors_; }
  // Values of anchor `id` that one replica returns per step.
  unsigned numOutFetchesPerRepl(const SessionOptions &options, const TensorId &id) const;
  bool isBatchCountingRequired() const;  // whether some anchor is EveryN
  std::vector<int> rps() const;          // return periods in use, sorted, without repetitions
  std::size_t hash() const;
  bool operator==(const DataFlow &) const = default;

 private:
  void checkAnchors() const;
  int batchesPerStep_ = 0;
  AnchorReturnTypeMap anchors_;
};

}  // namespace popart

template <>
struct std::hash<popart::AnchorReturnType> {
  std::size_t operator()(const popart::AnchorReturnType &art) const { return art.hash(); }
};
template <>
struct std::hash<popart::DataFlow> {
  std::size_t operator()(const popart::DataFlow &dataFlow) const { return dataFlow.hash(); }
};
