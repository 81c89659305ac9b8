// DeviceManager hands out the devices that sessions run on, DeviceInfo describes one (PopART C++ API, "devicemanager").
// Devices: the CPU; software models of IPUs (createIpuModelDevice); and "IPUs", which on this machine are virtual ones
// computed by the CPU, as many as POPART_VIRTUAL_IPUS says (default 16). Offline devices describe hardware to compile
// for.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace popart {

enum class DeviceType { IpuModel = 0, Cpu, Ipu, OfflineIpu, Sim };
enum class DeviceConnectionType { Always = 0, OnDemand, Never };
enum class DeviceSelectionCriterion { First = 0, Random };
enum class SyncPattern { Full = 0, SinglePipeline, ReplicaAndLadder };

std::string toText(DeviceType type);            // "ipu-model", "cpu", "ipu", "offline-ipu", "sim"
std::string toText(DeviceConnectionType type);  // "always", "on-demand", "never"
std::string toText(SyncPattern pattern);
// "full", "singlePipeline", "replicaAndLadder". The first throws popart::error for another text.
SyncPattern syncPatternFromString(const std::string &text);
std::string syncPatternToString(const SyncPattern &pattern);

class DeviceProvider;

class DeviceInfo {
 public:
  DeviceInfo(DeviceType type, DeviceConnectionType connectionType) : type_(type), connectionType_(connectionType) {}
  virtual ~DeviceInfo() = default;

  // False when the device is in use by somebody else.
  virtual bool attach() = 0;
  virtual void detach() = 0;
  virtual bool isAttached() const = 0;
  virtual int getId() const = 0;
  virtual std::vector<int> getChildIds() const = 0;
  virtual std::string getVersion() const = 0;
  virtual int getNumIpus() const = 0;
  virtual int getTilesPerIPU() const = 0;
  virtual int getNumWorkerContexts() const = 0;
  virtual std::string getIpuVersion() const = 0;
  virtual std::vector<unsigned> getDriverIds() const = 0;
  virtual bool canCompileOffline() const { return false; }
  virtual const std::map<std::string, std::string> getOptionFlags() const { return {}; }

  DeviceType getType() const { return type_; }
  DeviceConnectionType getConnectionType() const { return connectionType_; }
  // "Device Type:cpu Connection Type:always Id:0 Version:<v> NumIPUs:1 NumTilesPerIPU:<t> DeviceIds: {0}"
  std::string toString() const;
  void setOnDemandAttachTimeout(unsigned seconds) { attachTimeoutSeconds_ = seconds; }
  unsigned getOnDemandAttachTimeout() const { return attachTimeoutSeconds_; }
  // Tries to attach until the time-out has passed; a time-out of 0 tries once.
  bool tryAttachUntilTimeout();
  // Whether programs for it would run on real IPUs.
  bool isHwCompatible() const { return type_ == DeviceType::Ipu || type_ == DeviceType::OfflineIpu; }
  std::size_t hash() const;

 private:
  DeviceType type_;
  DeviceConnectionType connectionType_;
  unsigned attachTimeoutSeconds_ = 0;
};

std::ostream &operator<<(std::ostream &os, const DeviceInfo &info);

// A source of devices beside the built-in one.
class DeviceProvider {
 public:
  virtual ~DeviceProvider() = default;
  virtual std::shared_ptr<DeviceInfo> getDevice(SyncPattern pattern, unsigned deviceManagerId,
                                                DeviceConnectionType connectionType) = 0;
  virtual void enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, uint32_t numIpus, SyncPattern pattern,
                         DeviceType type, DeviceConnectionType connectionType, uint32_t requiredTilesPerIpu) = 0;
  virtual std::shared_ptr<DeviceInfo> createHostDevice(DeviceType type,
                                                       const std::map<std::string, std::string> &options,
                                                       SyncPattern pattern = SyncPattern::Full) = 0;
  virtual std::shared_ptr<DeviceInfo> createOfflineIpuFromDeviceInfo(const DeviceInfo &deviceInfo) = 0;
  virtual std::shared_ptr<DeviceInfo> createOfflineIpuFromSystemString(const std::string &system, uint32_t numIpus) = 0;
};

class DeviceManager {
 public:
  // The one manager of the process.
  static DeviceManager &createDeviceManager();
  void registerDeviceProvider(DeviceProvider *provider);

  std::vector<std::shared_ptr<DeviceInfo>> enumerateDevices(
      SyncPattern pattern = SyncPattern::Full, int numIpus = 1, DeviceType deviceType = DeviceType::Ipu,
      DeviceConnectionType connectionType = DeviceConnectionType::Always, int tilesPerIPU = 0);
  void enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, unsigned requiredNumIPUs, SyncPattern pattern,
                 DeviceType type, DeviceConnectionType connectionType, unsigned requiredTilesPerIPU);
  // nullptr when there is none of that id.
  std::shared_ptr<DeviceInfo> getDevice(SyncPattern pattern = SyncPattern::Full, uint32_t deviceManagerId = 0,
                                        DeviceConnectionType connectionType = DeviceConnectionType::Always);

  // Throw popart::error when no such device is free; the try… forms return nullptr instead. numIpus must be a power of
  // two, the connection type not Never (popart::error in both forms). tilesPerIPU 0: all.
  std::shared_ptr<DeviceInfo> acquireAvailableDevice(
      int numIpus = 1, int tilesPerIPU = 0, SyncPattern pattern = SyncPattern::Full,
      DeviceConnectionType connectionType = DeviceConnectionType::Always,
      DeviceSelectionCriterion selectionCriterion = DeviceSelectionCriterion::First);
  std::shared_ptr<DeviceInfo> tryAcquireAvailableDevice(
      int numIpus = 1, int tilesPerIPU = 0, SyncPattern pattern = SyncPattern::Full,
      DeviceConnectionType connectionType = DeviceConnectionType::Always,
      DeviceSelectionCriterion selectionCriterion = DeviceSelectionCriterion::First);
  std::shared_ptr<DeviceInfo> acquireDeviceById(int id, SyncPattern pattern = SyncPattern::Full,
                                                DeviceConnectionType connectionType = DeviceConnectionType::Always);
  std::shared_ptr<DeviceInfo> tryAcquireDeviceById(int id, SyncPattern pattern = SyncPattern::Full,
                                                   DeviceConnectionType connectionType = DeviceConnectionType::Always);

  std::shared_ptr<DeviceInfo> createHostDevice(DeviceType type, const std::map<std::string, std::string> &options);
  std::shared_ptr<DeviceInfo> createCpuDevice();
  // Options: numIPUs, tilesPerIPU, compileIPUCode, ipuVersion. Throws popart::error ("invalid option") for others.
  std::shared_ptr<DeviceInfo> createIpuModelDevice(const std::map<std::string, std::string> &options);
  std::shared_ptr<DeviceInfo> createSimDevice(const std::map<std::string, std::string> &options);
  // Options as above and syncPattern, gatewayMode. Offline devices have connection type Never: they compile, they do
  // not run.
  std::shared_ptr<DeviceInfo> createOfflineIPUDevice(const std::map<std::string, std::string> &options);
  std::shared_ptr<DeviceInfo> createOfflineIpuFromDeviceInfo(const DeviceInfo &deviceInfo);
  std::shared_ptr<DeviceInfo> createOfflineIpuFromSystemString(const std::string &system, uint32_t numIpus);

  void setOnDemandAttachTimeout(unsigned seconds) { attachTimeoutSeconds_ = seconds; }

 private:
  DeviceManager();
  std::vector<DeviceProvider *> providers_;
  unsigned attachTimeoutSeconds_ = 0;
};

}  // namespace popart
