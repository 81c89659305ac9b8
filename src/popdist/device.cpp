// The device of this instance: as many IPUs as its replicas need.
#include <stdexcept>

#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popdist/context.hpp>

namespace popdist {

int getDeviceId(int ipusPerReplica) {
  using popart::formatText;
  using popart::toText;
  if (ipusPerReplica < 0)
    throw std::invalid_argument(
        formatText("getDeviceId: ipusPerReplica: got {}, expected 0 or more.", {toText(ipusPerReplica)}));
  const int replicas = getNumLocalReplicas();
  const int ipus = replicas * (ipusPerReplica == 0 ? getNumIpusPerReplica() : ipusPerReplica);
  popart::DeviceManager &manager = popart::DeviceManager::createDeviceManager();
  if (const auto device = manager.tryAcquireAvailableDevice(ipus)) {
    device->detach();
    return device->getId();
  }
  const auto devices = manager.enumerateDevices(popart::SyncPattern::Full, ipus);
  if (devices.empty())
    throw std::runtime_error(
        formatText("getDeviceId: there is no device with {} IPUs, for {} local replicas. Set POPART_VIRTUAL_IPUS={} or "
                   "more.",
                   {toText(ipus), toText(replicas), toText(ipus)}));
  return devices.front()->getId();
}

}  // namespace popdist
