// DeviceManager: argument checks and the search over providers; the devices themselves come from the providers.
#include <popart/devicemanager.hpp>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <random>
#include <thread>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "api/virtual_ipus.hpp"

namespace popart {
namespace {

void checkRequest(int numIpus, DeviceConnectionType connectionType, int tilesPerIPU) {
  if (numIpus < 1 || (numIpus & (numIpus - 1)) != 0)
    throw error("acquireAvailableDevice: the number of IPUs must be a power of two: got {}, expected 1, 2, 4, …",
                numIpus);
  if (tilesPerIPU < 0)
    throw error("acquireAvailableDevice: bad tilesPerIPU: got {}, expected 0 (all) or more", tilesPerIPU);
  if (connectionType == DeviceConnectionType::Never)
    throw error(
        "acquireAvailableDevice: connection type Never cannot run programs. Use createOfflineIPUDevice to compile "
        "without a device");
}

}  // namespace

std::string toText(DeviceType type) {
  switch (type) {
    case DeviceType::IpuModel:
      return "ipu-model";
    case DeviceType::Cpu:
      return "cpu";
    case DeviceType::Ipu:
      return "ipu";
    case DeviceType::OfflineIpu:
      return "offline-ipu";
    case DeviceType::Sim:
      return "sim";
  }
  return "?";
}

std::string toText(DeviceConnectionType type) {
  switch (type) {
    case DeviceConnectionType::Always:
      return "always";
    case DeviceConnectionType::OnDemand:
      return "on-demand";
    case DeviceConnectionType::Never:
      return "never";
  }
  return "?";
}

std::string toText(SyncPattern pattern) {
  switch (pattern) {
    case SyncPattern::Full:
      return "full";
    case SyncPattern::SinglePipeline:
      return "singlePipeline";
    case SyncPattern::ReplicaAndLadder:
      return "replicaAndLadder";
  }
  return "?";
}

SyncPattern syncPatternFromString(const std::string &text) {
  for (SyncPattern pattern : {SyncPattern::Full, SyncPattern::SinglePipeline, SyncPattern::ReplicaAndLadder})
    if (toText(pattern) == text) return pattern;
  throw error("SyncPattern: got '{}', expected 'full', 'singlePipeline' or 'replicaAndLadder'", text);
}

std::string syncPatternToString(const SyncPattern &pattern) { return toText(pattern); }

std::string DeviceInfo::toString() const {
  std::string ids;
  for (unsigned id : getDriverIds()) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  return formatText("Device Type:{} Connection Type:{} Id:{} Version:{} NumIPUs:{} NumTilesPerIPU:{} DeviceIds: ",
                    {toText(getType()), toText(getConnectionType()), toText(getId()), getVersion(),
                     toText(getNumIpus()), toText(getTilesPerIPU())}) +
         "{" + ids + "}";
}

bool DeviceInfo::tryAttachUntilTimeout() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(attachTimeoutSeconds_);
  do {
    if (attach()) return true;
    if (attachTimeoutSeconds_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < end);
  return attach();
}

std::size_t DeviceInfo::hash() const {
  const std::string text = toText(type_) + ":" + getIpuVersion() + ":" + std::to_string(getNumIpus()) + ":" +
                           std::to_string(getTilesPerIPU());
  return std::hash<std::string>()(text);
}

std::ostream &operator<<(std::ostream &os, const DeviceInfo &info) { return os << info.toString(); }

DeviceManager::DeviceManager() : providers_{&builtInDevices()} {}

DeviceManager &DeviceManager::createDeviceManager() {
  static DeviceManager manager;
  return manager;
}

void DeviceManager::registerDeviceProvider(DeviceProvider *provider) {
  check(provider != nullptr,
        "registerDeviceProvider: the provider is a null pointer. Pass one that lives as long as the process");
  providers_.push_back(provider);
}

void DeviceManager::enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, unsigned requiredNumIPUs,
                              SyncPattern pattern, DeviceType type, DeviceConnectionType connectionType,
                              unsigned requiredTilesPerIPU) {
  for (DeviceProvider *provider : providers_)
    provider->enumerate(devices, requiredNumIPUs, pattern, type, connectionType, requiredTilesPerIPU);
}

std::vector<std::shared_ptr<DeviceInfo>> DeviceManager::enumerateDevices(SyncPattern pattern, int numIpus,
                                                                         DeviceType deviceType,
                                                                         DeviceConnectionType connectionType,
                                                                         int tilesPerIPU) {
  if (numIpus < 1) throw error("enumerateDevices: bad number of IPUs: got {}, expected 1 or more", numIpus);
  std::vector<std::shared_ptr<DeviceInfo>> devices;
  enumerate(devices, static_cast<unsigned>(numIpus), pattern, deviceType, connectionType,
            static_cast<unsigned>(std::max(tilesPerIPU, 0)));
  return devices;
}

std::shared_ptr<DeviceInfo> DeviceManager::getDevice(SyncPattern pattern, uint32_t deviceManagerId,
                                                     DeviceConnectionType connectionType) {
  for (DeviceProvider *provider : providers_)
    if (auto device = provider->getDevice(pattern, deviceManagerId, connectionType)) {
      device->setOnDemandAttachTimeout(attachTimeoutSeconds_);
      return device;
    }
  return nullptr;
}

std::shared_ptr<DeviceInfo> DeviceManager::tryAcquireAvailableDevice(int numIpus, int tilesPerIPU, SyncPattern pattern,
                                                                     DeviceConnectionType connectionType,
                                                                     DeviceSelectionCriterion criterion) {
  checkRequest(numIpus, connectionType, tilesPerIPU);
  auto devices = enumerateDevices(pattern, numIpus, DeviceType::Ipu, connectionType, tilesPerIPU);
  if (criterion == DeviceSelectionCriterion::Random) {
    std::mt19937 generator{std::random_device{}()};
    std::shuffle(devices.begin(), devices.end(), generator);
  }
  for (auto &device : devices) {
    device->setOnDemandAttachTimeout(attachTimeoutSeconds_);
    if (connectionType == DeviceConnectionType::OnDemand || device->attach()) return device;
  }
  return nullptr;
}

std::shared_ptr<DeviceInfo> DeviceManager::acquireAvailableDevice(int numIpus, int tilesPerIPU, SyncPattern pattern,
                                                                  DeviceConnectionType connectionType,
                                                                  DeviceSelectionCriterion criterion) {
  auto device = tryAcquireAvailableDevice(numIpus, tilesPerIPU, pattern, connectionType, criterion);
  if (!device)
    throw error(
        "acquireAvailableDevice: no free device: got {} IPUs with {} tiles asked for, this process has {} virtual "
        "IPUs. Detach devices no longer used, or raise POPART_VIRTUAL_IPUS",
        numIpus, tilesPerIPU, virtualIpuCount());
  return device;
}

std::shared_ptr<DeviceInfo> DeviceManager::tryAcquireDeviceById(int id, SyncPattern pattern,
                                                                DeviceConnectionType connectionType) {
  checkRequest(1, connectionType, 0);
  if (id < 0) return nullptr;
  auto device = getDevice(pattern, static_cast<uint32_t>(id), connectionType);
  if (!device) return nullptr;
  if (connectionType == DeviceConnectionType::Always && !device->attach()) return nullptr;
  return device;
}

std::shared_ptr<DeviceInfo> DeviceManager::acquireDeviceById(int id, SyncPattern pattern,
                                                             DeviceConnectionType connectionType) {
  auto device = tryAcquireDeviceById(id, pattern, connectionType);
  if (!device)
    throw error(
        "acquireDeviceById: no free device with id {}. enumerateDevices lists the ids; detach devices no longer used",
        id);
  return device;
}

std::shared_ptr<DeviceInfo> DeviceManager::createHostDevice(DeviceType type,
                                                            const std::map<std::string, std::string> &options) {
  if (type == DeviceType::Ipu) throw error("createHostDevice: an IPU is not a host device. Use acquireAvailableDevice");
  return builtInDevices().createHostDevice(type, options);
}

std::shared_ptr<DeviceInfo> DeviceManager::createCpuDevice() { return createHostDevice(DeviceType::Cpu, {}); }

std::shared_ptr<DeviceInfo> DeviceManager::createIpuModelDevice(const std::map<std::string, std::string> &options) {
  return createHostDevice(DeviceType::IpuModel, options);
}

std::shared_ptr<DeviceInfo> DeviceManager::createSimDevice(const std::map<std::string, std::string> &options) {
  return createHostDevice(DeviceType::Sim, options);
}

std::shared_ptr<DeviceInfo> DeviceManager::createOfflineIPUDevice(const std::map<std::string, std::string> &options) {
  return createHostDevice(DeviceType::OfflineIpu, options);
}

std::shared_ptr<DeviceInfo> DeviceManager::createOfflineIpuFromDeviceInfo(const DeviceInfo &deviceInfo) {
  return builtInDevices().createOfflineIpuFromDeviceInfo(deviceInfo);
}

std::shared_ptr<DeviceInfo> DeviceManager::createOfflineIpuFromSystemString(const std::string &system,
                                                                            uint32_t numIpus) {
  return builtInDevices().createOfflineIpuFromSystemString(system, numIpus);
}

}  // namespace popart
