// Version of this library. The numbers follow the PopART release whose public behaviour it reproduces (3.4).
#pragma once
#include <string>
#include <tuple>

#define POPART_VERSION_MAJOR 3
#define POPART_VERSION_MINOR 4
#define POPART_VERSION_POINT 0
#define POPART_VERSION_PATCH POPART_VERSION_POINT
#define POPART_VERSION_STRING "3.4.0"
#define POPART_VERSION_HASH "0000000000"
#define POPART_PACKAGE_HASH "0000000000"

namespace popart::core {

inline std::string versionString() { return POPART_VERSION_STRING; }  // "3.4.0"
inline std::tuple<unsigned, unsigned, unsigned> versionNumber() {     // major, minor, point
  return {POPART_VERSION_MAJOR, POPART_VERSION_MINOR, POPART_VERSION_POINT};
}
inline std::string packageHash() { return POPART_PACKAGE_HASH; }  // ten digits

}  // namespace popart::core
