// DeviceManager provides the devices on which sessions run; DeviceInfo describes one of them. Devices: the CPU;
// software models of IPUs (createIpuModelDevice); and "IPUs", which on this machine are virtual and computed by the
// CPU. Their number is POPART_VIRTUAL_IPUS (default 16). Offline devices describe hardware to compile for.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace popart {

// Names and order as in PopART. Sim devices behave like IpuModel devices with another type.
enum class DeviceType { IpuModel = 0, Cpu, Ipu, OfflineIpu, Sim };
// When sessions attach: at acquisition, when they load, never (offline).
enum class DeviceConnectionType { Always = 0, OnDemand, Never };
// Which of several free devices acquireAvailableDevice takes.
enum class DeviceSelectionCriterion { First = 0, Random };
// Exists for programs that name it; no device here depends on it.
enum class SyncPattern { Full = 0, SinglePipeline, ReplicaAndLadder };

std::string toText(DeviceType type);            // "ipu-model", "cpu", "ipu", "offline-ipu", "sim"
std::string toText(DeviceConnectionType type);  // "always", "on-demand", "never"
std::string toText(SyncPattern pattern);        // the names below
// "full", "singlePipeline", "replicaAndLadder". The first throws popart::error for another text.
SyncPattern syncPatternFromString(const std::string &text);
std::string syncPatternToString(const SyncPattern &pattern);

class DeviceProvider;

// One device. Sessions share it; destroying it detaches.
class DeviceInfo {
 public:
  DeviceInfo(DeviceType type, DeviceConnectionType connectionType) : type_(type), connectionType_(connectionType) {}
  virtual ~DeviceInfo() = default;

  // False if something else uses the device. Throws popart::error for connection type Never.
  virtual bool attach() = 0;
  virtual void detach() = 0;  // no effect if it is not attached
  virtual bool isAttached() const = 0;
  virtual int getId() const = 0;                     // as in enumerateDevices; 0 for host devices
  virtual std::vector<int> getChildIds() const = 0;  // ids of the single IPUs of a group; none for one IPU
  virtual std::string getVersion() const = 0;        // "cpu", "virtual" or the type's text
  virtual int getNumIpus() const = 0;
  virtual int getTilesPerIPU() const = 0;         // 1 for the CPU
  virtual int getNumWorkerContexts() const = 0;   // threads per tile
  virtual std::string getIpuVersion() const = 0;  // "ipu1", "ipu2", "ipu21"; empty for the CPU
  virtual std::vector<unsigned> getDriverIds() const = 0;
  virtual bool canCompileOffline() const { return false; }  // IPUs and offline IPUs
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
  std::size_t hash() const;  // of type, IPU version, number of IPUs and tiles

 private:
  DeviceType type_;
  DeviceConnectionType connectionType_;
  unsigned attachTimeoutSeconds_ = 0;
};

std::ostream &operator<<(std::ostream &os, const DeviceInfo &info);  // writes toString()

// A source of devices in addition to the built-in one. Arguments are those of DeviceManager's methods of the same
// names. Ids are the provider's own; null means that there is no such device.
class DeviceProvider {
 public:
  virtual ~DeviceProvider() = default;
  virtual std::shared_ptr<DeviceInfo> getDevice(SyncPattern pattern, unsigned deviceManagerId,  // null: no such id
                                                DeviceConnectionType connectionType) = 0;
  // appends to `devices`
  virtual void enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, uint32_t numIpus, SyncPattern pattern,
                         DeviceType type, DeviceConnectionType connectionType, uint32_t requiredTilesPerIpu) = 0;
  // These are called only on the built-in provider.
  virtual std::shared_ptr<DeviceInfo> createHostDevice(DeviceType type,
                                                       const std::map<std::string, std::string> &options,
                                                       SyncPattern pattern = SyncPattern::Full) = 0;
  virtual std::shared_ptr<DeviceInfo> createOfflineIpuFromDeviceInfo(const DeviceInfo &deviceInfo) = 0;
  virtual std::shared_ptr<DeviceInfo> createOfflineIpuFromSystemString(const std::string &system, uint32_t numIpus) = 0;
};

// A handle on the devices of the process. Not thread-safe.
class DeviceManager {
 public:
  // The one manager of the process.
  static DeviceManager &createDeviceManager();
  // Called after the built-in provider; `provider` must outlive the process's use of devices. Throws popart::error for
  // null.
  void registerDeviceProvider(DeviceProvider *provider);

  // Devices of exactly numIpus IPUs with at least tilesPerIPU tiles, attached or not; a new device for Cpu and
  // IpuModel. Throws popart::error for numIpus < 1.
  std::vector<std::shared_ptr<DeviceInfo>> enumerateDevices(
      SyncPattern pattern = SyncPattern::Full, int numIpus = 1, DeviceType deviceType = DeviceType::Ipu,
      DeviceConnectionType connectionType = DeviceConnectionType::Always, int tilesPerIPU = 0);
  // The same, appended to `devices`.
  void enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, unsigned requiredNumIPUs, SyncPattern pattern,
                 DeviceType type, DeviceConnectionType connectionType, unsigned requiredTilesPerIPU);
  // nullptr if no device has that id.
  std::shared_ptr<DeviceInfo> getDevice(SyncPattern pattern = SyncPattern::Full, uint32_t deviceManagerId = 0,
                                        DeviceConnectionType connectionType = DeviceConnectionType::Always);

  // Throw popart::error if no such device is free; the try… forms return nullptr instead. Both forms throw
  // popart::error unless numIpus is a power of two, and for connection type Never. tilesPerIPU 0: all.
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

  // One of the devices below by type. Throws popart::error for Ipu.
  std::shared_ptr<DeviceInfo> createHostDevice(DeviceType type, const std::map<std::string, std::string> &options);
  std::shared_ptr<DeviceInfo> createCpuDevice();  // id 0, 1 IPU, attached
  // Options: numIPUs (default 1), tilesPerIPU (all), ipuVersion ("ipu2"), compileIPUCode. Throws popart::error for
  // other keys ("invalid option"), for values that are not numbers of 1 or more, and for unknown versions.
  std::shared_ptr<DeviceInfo> createIpuModelDevice(const std::map<std::string, std::string> &options);
  std::shared_ptr<DeviceInfo> createSimDevice(const std::map<std::string, std::string> &options);
  // Options as above, and syncPattern and gatewayMode. Offline devices have connection type Never: they compile, but do
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

template <>
struct std::hash<popart::DeviceInfo> {
  std::size_t operator()(const popart::DeviceInfo &device) const { return device.hash(); }
};
