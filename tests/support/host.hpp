// The host as a device for executables that are compiled already.
#pragma once
#include "runtime/host_device.hpp"

namespace popart::test {

inline const runtime::Device &host() {
  static const runtime::HostDevice device("host", {});
  return device;
}

}  // namespace popart::test
