// The IPUs that the model knows, with the numbers for a tile from public descriptions. Nothing here is measured. The
// guide "The model of an IPU" has the same numbers, and a test compares both.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace popart::ipu_model {

struct Machine {
  std::string_view version;  // as in DeviceInfo::getIpuVersion
  int tiles;                 // per IPU
  double hertz;
  // Per tile and cycle: operations in FLOAT (a multiplication with its addition counts as two), bytes read and written
  // in its memory.
  double flopsPerCycle, bytesPerCycle;
  int64_t bytesPerTile;
  std::string_view source;
};

// Assumptions, the same for all IPUs, because no description gives them: cycles of the synchronisation before a step,
// and bytes per cycle from the host or remote memory to all tiles of a replica together.
inline constexpr double kSyncCycles = 100, kLinkBytesPerCycle = 15;

const std::vector<Machine> &machines();
// Null for an unknown version.
const Machine *findMachine(std::string_view version);

}  // namespace popart::ipu_model
