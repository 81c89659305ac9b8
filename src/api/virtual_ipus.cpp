// Built-in devices (see virtual_ipus.hpp). Attachment is recorded per process, as a set of attached IPU numbers.
#include "api/virtual_ipus.hpp"

#include <mutex>
#include <set>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "backends/ipu_model/machine.hpp"
#include "base/environment.hpp"
#include "base/threads/processors.hpp"

namespace popart {
namespace {

const std::string kVersion = "ipu2";  // of IPUs unless another version is requested
constexpr int kTilesOfSimulation = 4;
constexpr int kWorkerContexts = 6;

std::mutex attachMutex;
std::set<int> &attachedIpus() {
  static std::set<int> ipus;
  return ipus;
}

int tilesOf(const std::string &ipuVersion) {
  if (const ipu_model::Machine *machine = ipu_model::findMachine(ipuVersion)) return machine->tiles;
  throw error("device option 'ipuVersion': got '{}', expected 'ipu1', 'ipu2' or 'ipu21'", ipuVersion);
}

// The part that all built-in devices share.
class HostDevice : public DeviceInfo {
 public:
  struct Shape {
    int id = 0;
    int ipus = 1;
    int tiles = 1;
    std::string ipuVersion;
    std::string version;
    std::vector<int> members;  // virtual IPU numbers; empty: nothing to reserve
    std::map<std::string, std::string> options;
  };
  HostDevice(DeviceType type, DeviceConnectionType connectionType, Shape shape)
      : DeviceInfo(type, connectionType), shape_(std::move(shape)) {}
  ~HostDevice() override { HostDevice::detach(); }

  bool attach() override {
    std::lock_guard lock(attachMutex);
    if (attached_) return true;
    if (getConnectionType() == DeviceConnectionType::Never)
      throw error("device {}: a device of connection type Never cannot be attached. Acquire it with Always or OnDemand",
                  shape_.id);
    for (int ipu : shape_.members)
      if (attachedIpus().count(ipu)) return false;
    attachedIpus().insert(shape_.members.begin(), shape_.members.end());
    return attached_ = true;
  }
  void detach() override {
    std::lock_guard lock(attachMutex);
    if (!attached_) return;
    for (int ipu : shape_.members) attachedIpus().erase(ipu);
    attached_ = false;
  }
  bool isAttached() const override { return attached_; }
  int getId() const override { return shape_.id; }
  std::vector<int> getChildIds() const override { return shape_.ipus > 1 ? shape_.members : std::vector<int>{}; }
  std::string getVersion() const override { return shape_.version; }
  int getNumIpus() const override { return shape_.ipus; }
  int getTilesPerIPU() const override { return shape_.tiles; }
  int getNumWorkerContexts() const override { return kWorkerContexts; }
  std::string getIpuVersion() const override { return shape_.ipuVersion; }
  std::vector<unsigned> getDriverIds() const override {
    if (shape_.members.empty()) return {static_cast<unsigned>(shape_.id)};
    return {shape_.members.begin(), shape_.members.end()};
  }
  bool canCompileOffline() const override { return isHwCompatible(); }
  const std::map<std::string, std::string> getOptionFlags() const override { return shape_.options; }

 private:
  Shape shape_;
  bool attached_ = false;
};

void announceVirtualIpus() {
  static std::once_flag once;
  std::call_once(once, [] {
    logging::devicex::info("no accelerator found: {} virtual IPUs run on the CPU (POPART_VIRTUAL_IPUS sets how many)",
                           virtualIpuCount());
  });
}

std::shared_ptr<DeviceInfo> makeVirtual(int id, int first, int count, int tiles, DeviceConnectionType connectionType) {
  HostDevice::Shape shape{.id = id,
                          .ipus = count,
                          .tiles = tiles > 0 ? tiles : tilesOf(kVersion),
                          .ipuVersion = kVersion,
                          .version = "virtual",
                          .members = {},
                          .options = {}};
  for (int i = 0; i < count; ++i) shape.members.push_back(first + i);
  return std::make_shared<HostDevice>(DeviceType::Ipu, connectionType, std::move(shape));
}

class BuiltInDevices : public DeviceProvider {
 public:
  std::shared_ptr<DeviceInfo> getDevice(SyncPattern, unsigned id, DeviceConnectionType connectionType) override {
    announceVirtualIpus();
    int next = 0;
    for (int group = 1; group <= virtualIpuCount(); group *= 2)
      for (int first = 0; first + group <= virtualIpuCount(); first += group, ++next)
        if (next == static_cast<int>(id)) return makeVirtual(next, first, group, 0, connectionType);
    return nullptr;
  }

  void enumerate(std::vector<std::shared_ptr<DeviceInfo>> &devices, uint32_t numIpus, SyncPattern pattern,
                 DeviceType type, DeviceConnectionType connectionType, uint32_t tiles) override {
    if (type == DeviceType::Cpu && numIpus == 1) devices.push_back(createHostDevice(type, {}, pattern));
    if (type == DeviceType::IpuModel)
      devices.push_back(createHostDevice(type, {{"numIPUs", std::to_string(numIpus)}}, pattern));
    if (type != DeviceType::Ipu || tiles > static_cast<uint32_t>(tilesOf(kVersion))) return;
    announceVirtualIpus();
    int next = 0;
    for (int group = 1; group <= virtualIpuCount(); group *= 2)
      for (int first = 0; first + group <= virtualIpuCount(); first += group, ++next)
        if (group == static_cast<int>(numIpus))
          devices.push_back(makeVirtual(next, first, group, static_cast<int>(tiles), connectionType));
  }

  std::shared_ptr<DeviceInfo> createHostDevice(DeviceType type, const std::map<std::string, std::string> &options,
                                               SyncPattern) override {
    if (type == DeviceType::Cpu) {
      HostDevice::Shape shape{
          .id = 0, .ipus = 1, .tiles = 1, .ipuVersion = "", .version = "cpu", .members = {}, .options = options};
      auto device = std::make_shared<HostDevice>(type, DeviceConnectionType::Always, std::move(shape));
      device->attach();
      return device;
    }
    return modelDevice(type, options);
  }

  std::shared_ptr<DeviceInfo> createOfflineIpuFromDeviceInfo(const DeviceInfo &info) override {
    return modelDevice(DeviceType::OfflineIpu,
                       {{"numIPUs", std::to_string(info.getNumIpus())},
                        {"tilesPerIPU", std::to_string(info.getTilesPerIPU())},
                        {"ipuVersion", info.getIpuVersion().empty() ? kVersion : info.getIpuVersion()}});
  }

  std::shared_ptr<DeviceInfo> createOfflineIpuFromSystemString(const std::string &system, uint32_t numIpus) override {
    if (system.empty())
      throw error("createOfflineIpuFromSystemString: the system string is empty. Give a name such as 'POD16'");
    return modelDevice(DeviceType::OfflineIpu, {{"numIPUs", std::to_string(numIpus)}});
  }

 private:
  static std::shared_ptr<DeviceInfo> modelDevice(DeviceType type, const std::map<std::string, std::string> &options) {
    const bool offline = type == DeviceType::OfflineIpu;
    HostDevice::Shape shape{
        .id = 0, .ipus = 1, .tiles = 0, .ipuVersion = kVersion, .version = "", .members = {}, .options = options};
    for (const auto &[key, value] : options) {
      if (key == "numIPUs")
        shape.ipus = environment::parsePositive(value, "device option 'numIPUs'");
      else if (key == "tilesPerIPU")
        shape.tiles = environment::parsePositive(value, "device option 'tilesPerIPU'");
      else if (key == "ipuVersion")
        shape.ipuVersion = value;
      else if (key == "compileIPUCode" && !offline)
        continue;
      else if ((key == "syncPattern" || key == "gatewayMode") && offline)
        continue;
      else
        throw error("{} device: invalid option '{}'. Known options are numIPUs, tilesPerIPU, ipuVersion{}",
                    toText(type), key, offline ? ", syncPattern, gatewayMode" : ", compileIPUCode");
    }
    const int fullTiles = tilesOf(shape.ipuVersion);
    shape.version = shape.ipuVersion;
    if (shape.tiles == 0) shape.tiles = type == DeviceType::Sim ? kTilesOfSimulation : fullTiles;
    auto connection = offline ? DeviceConnectionType::Never : DeviceConnectionType::Always;
    auto device = std::make_shared<HostDevice>(type, connection, std::move(shape));
    if (!offline) device->attach();
    return device;
  }
};

int checkThreads(int threads, const std::string &what) {
  constexpr int kMostThreads = 1024;
  check(threads <= kMostThreads, "{}: got '{}', expected at most {} threads", what, threads, kMostThreads);
  return threads;
}

}  // namespace

int virtualIpuCount() { return environment::virtualIpus(); }

int computeThreadCount(const ProcessorLimits &limits) {
  const std::optional<int> asked = environment::numThreads();
  return asked ? checkThreads(*asked, "environment variable POPART_NUM_THREADS") : limits.threads();
}

int computeThreadCount(const SessionOptions &options, const ProcessorLimits &limits) {
  const std::string what = "engineOptions: num_threads";
  const auto given = options.engineOptions.find("num_threads");
  if (given == options.engineOptions.end()) return computeThreadCount(limits);
  return checkThreads(environment::parsePositive(given->second, what), what);
}

DeviceProvider &builtInDevices() {
  static BuiltInDevices provider;
  return provider;
}

}  // namespace popart
