// InputSettings: how an input is streamed from the host.
#pragma once
#include <popart/replicatedstreammode.hpp>
#include <popart/tensorlocation.hpp>

namespace popart {

// When host transfers happen relative to compute (SessionOptions::enableExplicitMainLoops); no result depends on it.
enum class ExchangeStrategy { JustInTime = 0, OverlapInnerLoop, OverlapLoops, OverlapStep, N };

// How one input is streamed; no result of a session with one replica depends on it.
class InputSettings {
 public:
  InputSettings() = default;
  InputSettings(TileSet tileSet, ExchangeStrategy exchangeStrategy)
      : tileSet_(tileSet), exchangeStrategy_(exchangeStrategy) {}
  InputSettings(ReplicatedStreamMode mode) : mode_(mode) {}
  TileSet tileSet() const { return tileSet_; }
  ExchangeStrategy exchangeStrategy() const { return exchangeStrategy_; }
  ReplicatedStreamMode replicatedStreamMode() const { return mode_; }
  const InputSettings &setTileSet(TileSet tileSet) { return tileSet_ = tileSet, *this; }
  const InputSettings &setExchangeStrategy(ExchangeStrategy s) { return exchangeStrategy_ = s, *this; }
  const InputSettings &setReplicatedStreamMode(ReplicatedStreamMode mode) { return mode_ = mode, *this; }
  bool operator==(const InputSettings &) const = default;

 private:
  TileSet tileSet_ = TileSet::Compute;
  ExchangeStrategy exchangeStrategy_ = ExchangeStrategy::JustInTime;
  ReplicatedStreamMode mode_ = ReplicatedStreamMode::Replicate;
};

}  // namespace popart
