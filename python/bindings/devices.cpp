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

[[noreturn]] void raiseUnknownDevice(int id) {
  const nb::object type = nb::module_::import_("popart_core").attr("poplar_exception");
  const std::string text =
      "acquireDeviceById: there is no device with id " + std::to_string(id) + ". enumerateDevices lists the ids";
  PyErr_SetString(type.ptr(), text.c_str());
  throw nb::python_error();
}

void bindDeviceInfo(nb::module_ &m) {
  nb::class_<DeviceInfo>(
      m, "DeviceInfo",
      "A device: the CPU, a model of IPUs, or a group of IPUs. As context manager it detaches at the end.")
      .def("attach", &DeviceInfo::attach,
           "Reserve the device for this process; False when another part of the process has it.")
      .def("tryAttachUntilTimeout", &DeviceInfo::tryAttachUntilTimeout, nb::call_guard<ReleaseGil>(),
           "As attach, waiting up to the seconds that DeviceManager.setOnDemandAttachTimeout set.")
      .def("detach", &DeviceInfo::detach, "Give the device back.")
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
  nb::class_<ManagerHandle>(m, "DeviceManager", nb::dynamic_attr(),
                            "Makes and finds devices. All objects of the class are handles on one manager per process.")
      .def(nb::init<>(), "A handle on the manager of the process.")
      .def(
          "createCpuDevice", [](H &h) { return h.manager.createCpuDevice(); }, "The CPU.")
      .def(
          "createIpuModelDevice",
          [](H &h, nb::object opts) { return h.manager.createIpuModelDevice(toOptionMap(opts)); }, nb::arg("opts"),
          "A software model of IPUs: CPU results with IPU facts.\n"
          "\n"
          "Args:\n"
          "    opts: Dictionary with:\n"
          "\n"
          "        - numIPUs: 1 by default\n"
          "        - tilesPerIPU: that of the version by default\n"
          "        - ipuVersion: 'ipu1', 'ipu2' (the default) or 'ipu21'\n"
          "        - compileIPUCode\n"
          "\n"
          "Raises:\n"
          "    popart_exception: Another key, or a bad value.")
      .def(
          "createSimDevice", [](H &h, nb::object opts) { return h.manager.createSimDevice(toOptionMap(opts)); },
          nb::arg("opts"),
          "A simulated device; here the same as createIpuModelDevice.\n"
          "\n"
          "Args:\n"
          "    opts: As there.")
      .def(
          "createOfflineIPUDevice",
          [](H &h, nb::object opts) { return h.manager.createOfflineIPUDevice(toOptionMap(opts)); }, nb::arg("opts"),
          "A device to compile for without having it.\n"
          "\n"
          "Args:\n"
          "    opts: Dictionary with numIPUs, tilesPerIPU, ipuVersion, syncPattern, gatewayMode.")
      .def(
          "createOfflineIpuFromDeviceInfo",
          [](H &h, const DeviceInfo &info) { return h.manager.createOfflineIpuFromDeviceInfo(info); },
          nb::arg("deviceInfo"),
          "An offline device like another device.\n"
          "\n"
          "Args:\n"
          "    deviceInfo: The other device.")
      .def(
          "createOfflineIpuFromSystemString",
          [](H &h, const std::string &system, uint32_t numIpus) {
            return h.manager.createOfflineIpuFromSystemString(system, numIpus);
          },
          nb::arg("system"), nb::arg("numIpus"),
          "An offline device of a named system.\n"
          "\n"
          "Args:\n"
          "    system: Name, such as 'POD16'.\n"
          "    numIpus: IPUs of the device.")
      .def(
          "enumerateDevices",
          [](H &h, SyncPattern pattern, int numIpus, DeviceType type, Connection connection, int tiles) {
            return h.manager.enumerateDevices(pattern, numIpus, type, connection, tiles);
          },
          full, nb::arg("numIpus") = 1, nb::arg("deviceType") = DeviceType::Ipu, always, nb::arg("tilesPerIPU") = 0,
          "List the devices that fit.\n"
          "\n"
          "Args:\n"
          "    pattern: How IPUs synchronise; kept, no effect here.\n"
          "    numIpus: IPUs of a device, a power of two.\n"
          "    deviceType: Kind of device.\n"
          "    connectionType: When it is attached.\n"
          "    tilesPerIPU: Tiles wanted of each IPU; 0: all.")
      .def(
          "acquireAvailableDevice",
          [](H &h, int numIpus, int tiles, SyncPattern pattern, Connection connection,
             DeviceSelectionCriterion criterion) {
            return h.manager.acquireAvailableDevice(numIpus, tiles, pattern, connection, criterion);
          },
          nb::arg("numIpus") = 1, nb::arg("tilesPerIpu") = 0, full, always, first,
          "Attach a free device.\n"
          "\n"
          "Args:\n"
          "    numIpus: IPUs of the device, a power of two.\n"
          "    tilesPerIpu: Tiles wanted of each IPU; 0: all.\n"
          "    pattern: How IPUs synchronise; kept, no effect here.\n"
          "    connectionType: When it is attached.\n"
          "    selectionCriterion: Which of several to take.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: There is none.")
      .def(
          "tryAcquireAvailableDevice",
          [](H &h, int numIpus, int tiles, SyncPattern pattern, Connection connection,
             DeviceSelectionCriterion criterion) {
            return h.manager.tryAcquireAvailableDevice(numIpus, tiles, pattern, connection, criterion);
          },
          nb::arg("numIpus") = 1, nb::arg("tilesPerIpu") = 0, full, always, first,
          "As acquireAvailableDevice (numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion):\n"
          "None when there is none.")
      .def(
          "acquireDeviceById",
          [](H &h, int id, SyncPattern pattern, Connection connection) {
            if (id < 0 || !h.manager.getDevice(pattern, static_cast<uint32_t>(id), connection)) raiseUnknownDevice(id);
            return h.manager.acquireDeviceById(id, pattern, connection);
          },
          nb::arg("id"), full, always,
          "Attach the device of a number.\n"
          "\n"
          "Args:\n"
          "    id: Number, as enumerateDevices lists them.\n"
          "    pattern: How IPUs synchronise; kept, no effect here.\n"
          "    connectionType: When it is attached.\n"
          "\n"
          "Raises:\n"
          "    popart_exception: It is not free.\n"
          "    poplar_exception: There is no device of this number.")
      .def(
          "tryAcquireDeviceById",
          [](H &h, int id, SyncPattern pattern, Connection connection) {
            return h.manager.tryAcquireDeviceById(id, pattern, connection);
          },
          nb::arg("id"), full, always,
          "As acquireDeviceById (id, pattern, connectionType), but None when it is not free.")
      .def(
          "setOnDemandAttachTimeout", [](H &h, unsigned seconds) { h.manager.setOnDemandAttachTimeout(seconds); },
          nb::arg("attachTimeout"),
          "Set how long to wait for devices of connection type OnDemand.\n"
          "\n"
          "Args:\n"
          "    attachTimeout: Seconds.");
}

}  // namespace popart::python
