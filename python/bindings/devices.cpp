// DeviceManager and DeviceInfo. Programs read DeviceManager's methods from the class and replace them there, so each
// has a name, qualified name and docstring, and the class takes assignments.
#include <popart/devicemanager.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

// What DeviceManager() makes: a handle on the one manager of the process.
struct ManagerHandle {
  DeviceManager &manager = DeviceManager::createDeviceManager();
};

void bindDeviceInfo(nb::module_ &m) {
  nb::class_<DeviceInfo>(m, "DeviceInfo")
      .def("attach", &DeviceInfo::attach)
      .def("tryAttachUntilTimeout", &DeviceInfo::tryAttachUntilTimeout, nb::call_guard<ReleaseGil>())
      .def("detach", &DeviceInfo::detach)
      .def_prop_ro("type", &DeviceInfo::getType)
      .def_prop_ro("connectionType", &DeviceInfo::getConnectionType)
      .def_prop_ro("version", &DeviceInfo::getVersion)
      .def_prop_ro("ipuVersion", &DeviceInfo::getIpuVersion)
      .def_prop_ro("id", &DeviceInfo::getId)
      .def_prop_ro("numIpus", &DeviceInfo::getNumIpus)
      .def_prop_ro("tilesPerIPU", &DeviceInfo::getTilesPerIPU)
      .def_prop_ro("tilesPerIpu", &DeviceInfo::getTilesPerIPU)
      .def_prop_ro("driverIds", &DeviceInfo::getDriverIds)
      .def_prop_ro("isAttached", &DeviceInfo::isAttached)
      .def_prop_ro("numWorkerContexts", &DeviceInfo::getNumWorkerContexts)
      .def("__enter__", [](std::shared_ptr<DeviceInfo> device) { return device; })
      .def("__exit__", [](DeviceInfo &device, nb::args) { device.detach(); })
      .def("__repr__", &DeviceInfo::toString);
}

}  // namespace

void bindDevices(nb::module_ &m) {
  bindDeviceInfo(m);
  using Connection = DeviceConnectionType;
  const auto full = nb::arg("pattern") = SyncPattern::Full;
  const auto always = nb::arg("connectionType") = Connection::Always;
  const auto first = nb::arg("selectionCriterion") = DeviceSelectionCriterion::First;
  using H = const ManagerHandle;
  nb::class_<ManagerHandle>(m, "DeviceManager", nb::dynamic_attr())
      .def(nb::init<>())
      .def(
          "createCpuDevice", [](H &h) { return h.manager.createCpuDevice(); }, "The CPU.")
      .def(
          "createIpuModelDevice",
          [](H &h, nb::object opts) { return h.manager.createIpuModelDevice(toOptionMap(opts)); }, nb::arg("opts"),
          "A software model of IPUs: CPU results with IPU facts.")
      .def(
          "createSimDevice", [](H &h, nb::object opts) { return h.manager.createSimDevice(toOptionMap(opts)); },
          nb::arg("opts"), "A simulated device.")
      .def(
          "createOfflineIPUDevice",
          [](H &h, nb::object opts) { return h.manager.createOfflineIPUDevice(toOptionMap(opts)); }, nb::arg("opts"),
          "A device to compile for without having it.")
      .def(
          "createOfflineIpuFromDeviceInfo",
          [](H &h, const DeviceInfo &info) { return h.manager.createOfflineIpuFromDeviceInfo(info); },
          nb::arg("deviceInfo"), "An offline device like another device.")
      .def(
          "createOfflineIpuFromSystemString",
          [](H &h, const std::string &system, uint32_t numIpus) {
            return h.manager.createOfflineIpuFromSystemString(system, numIpus);
          },
          nb::arg("system"), nb::arg("numIpus"), "An offline device of a named system.")
      .def(
          "enumerateDevices",
          [](H &h, SyncPattern pattern, int numIpus, DeviceType type, Connection connection, int tiles) {
            return h.manager.enumerateDevices(pattern, numIpus, type, connection, tiles);
          },
          full, nb::arg("numIpus") = 1, nb::arg("deviceType") = DeviceType::Ipu, always, nb::arg("tilesPerIPU") = 0,
          "Devices that fit.")
      .def(
          "acquireAvailableDevice",
          [](H &h, int numIpus, int tiles, SyncPattern pattern, Connection connection,
             DeviceSelectionCriterion criterion) {
            return h.manager.acquireAvailableDevice(numIpus, tiles, pattern, connection, criterion);
          },
          nb::arg("numIpus") = 1, nb::arg("tilesPerIpu") = 0, full, always, first,
          "A free device; raises popart_exception when there is none.")
      .def(
          "tryAcquireAvailableDevice",
          [](H &h, int numIpus, int tiles, SyncPattern pattern, Connection connection,
             DeviceSelectionCriterion criterion) {
            return h.manager.tryAcquireAvailableDevice(numIpus, tiles, pattern, connection, criterion);
          },
          nb::arg("numIpus") = 1, nb::arg("tilesPerIpu") = 0, full, always, first, "A free device or None.")
      .def(
          "acquireDeviceById",
          [](H &h, int id, SyncPattern pattern, Connection connection) {
            return h.manager.acquireDeviceById(id, pattern, connection);
          },
          nb::arg("id"), full, always, "The device of that id; raises popart_exception when it is not free.")
      .def(
          "tryAcquireDeviceById",
          [](H &h, int id, SyncPattern pattern, Connection connection) {
            return h.manager.tryAcquireDeviceById(id, pattern, connection);
          },
          nb::arg("id"), full, always, "The device of that id or None.")
      .def(
          "setOnDemandAttachTimeout", [](H &h, unsigned seconds) { h.manager.setOnDemandAttachTimeout(seconds); },
          nb::arg("attachTimeout"), "Seconds to wait for a device acquired on demand.");
}

}  // namespace popart::python
