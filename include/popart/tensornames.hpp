// Prefixes of tensor names that PopART reserves (docs/compat/builder.md).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <popart/names.hpp>

namespace popart {

// One prefix.
struct ReservedPrefix {
  const char *function;  // name of the function that returns it: "reservedGradientPrefix"
  const char *text;      // "Gradient___"
};

// Every public prefix, in the documented order.
const std::vector<ReservedPrefix> &reservedPrefixes();
// Public and internal prefixes.
std::vector<std::string> allReservedPrefixes();
// Throws popart::error if `id` contains a reserved prefix. `what` is the kind of the name: "graph input".
void checkNoReservedPrefix(const TensorId &id, const std::string &what);

// Prefixes of names that this library creates: gradients, accumulators, optimizer state, activations off chip, step
// counters.
inline std::string reservedGradientPrefix() { return "Gradient___"; }
inline std::string reservedAccumPrefix() { return "Accum___"; }
inline std::string reservedAcclPrefix() { return "Accl___"; }
inline std::string reservedAccl1Prefix() { return "Accl1___"; }
inline std::string reservedAccl2Prefix() { return "Accl2___"; }
inline std::string reservedAccl3Prefix() { return "Accl3___"; }
inline std::string reservedRemoteArgPrefix() { return "RemoteArg___"; }
inline std::string reservedStepPrefix() { return "Step___"; }
// name under which a gradient is anchored
inline TensorId getGradId(const TensorId &id) { return reservedGradientPrefix() + id; }

}  // namespace popart
