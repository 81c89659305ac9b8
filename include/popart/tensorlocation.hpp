// TensorLocation: where a tensor is stored.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/commgroup.hpp>

namespace popart {

// In the memory of the device, or outside it.
enum class TensorStorage { OnChip = 0, OffChip };
enum class TileSet { Compute = 0, IO, Undefined, N };
enum class ReplicatedTensorSharding { Off = 0, On };

// Where a tensor is stored: on the device or in remote memory, whole or divided among replicas. Results do not depend
// on it.
class TensorLocation {
 public:
  TensorLocation() = default;
  TensorLocation(TensorStorage s) : storage(s) {}
  TensorLocation(TensorStorage s, ReplicatedTensorSharding r) : storage(s), replicatedTensorSharding(r) {}
  TensorLocation(TensorStorage s, ReplicatedTensorSharding r, CommGroup domain)
      : storage(s), replicatedTensorSharding(r), shardingDomain(domain) {}
  TensorLocation(TensorStorage s, TileSet load, TileSet store, ReplicatedTensorSharding r)
      : storage(s), loadTileSet(load), storageTileSet(store), replicatedTensorSharding(r) {}
  TensorLocation(TensorStorage s, TileSet load, TileSet store, ReplicatedTensorSharding r, CommGroup domain)
      : storage(s), loadTileSet(load), storageTileSet(store), replicatedTensorSharding(r), shardingDomain(domain) {}
  bool isRemote() const {  // off chip, or sharded
    return storage == TensorStorage::OffChip || replicatedTensorSharding == ReplicatedTensorSharding::On;
  }
  // storage, loadTileSet, storageTileSet, replicatedTensorSharding, shardingDomain.type, replicaGroupSize
  std::vector<int64_t> serialize() const;
  bool operator==(const TensorLocation &) const = default;

  // Fields and defaults as documented. Sets of tiles say where a tensor is computed and stored.
  TensorStorage storage = TensorStorage::OnChip;
  TileSet loadTileSet = TileSet::Compute;
  TileSet storageTileSet = TileSet::Compute;
  ReplicatedTensorSharding replicatedTensorSharding = ReplicatedTensorSharding::Off;
  CommGroup shardingDomain;
};

}  // namespace popart
