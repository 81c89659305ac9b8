// The IPUs that the model knows: what public descriptions say of a tile. Nothing here is measured. The guide "The model
// of an IPU" has the same numbers, and a test compares both.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace popart::ipu_model {

struct Machine {
  std::string_view version;  // as DeviceInfo::getIpuVersion
  int tiles;                 // of an IPU
  double hertz;
  // Of a tile, in one cycle: operations in FLOAT (a multiplication with its addition counts two), bytes read and
  // written in its memory.
  double flopsPerCycle, bytesPerCycle;
  int64_t bytesPerTile;
  std::string_view source;
};

// Assumptions, the same for all IPUs: no description gives them. Cycles in which all tiles wait for each other before a
// step, and bytes that come in one cycle from the host or from remote memory, to all tiles of a replica together.
inline constexpr double kSyncCycles = 100, kLinkBytesPerCycle = 15;

const std::vector<Machine> &machines();
// Null for a version that is not known.
const Machine *findMachine(std::string_view version);

}  // namespace popart::ipu_model
