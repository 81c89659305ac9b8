// The devices of this machine: the device that each PopART device type uses, and the kernels that it runs. The first
// backend also decides which ops are fused and decomposed; it leaves user operators to the second.
#include "api/compile_options.hpp"

#include <algorithm>

#include "api/user_kernels.hpp"
#include "backends/collectives/collectives.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ipu_model/ipu_model.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes_off.hpp"
#include "runtime/host_device.hpp"

namespace popart {
namespace {

std::vector<const executable::Backend *> hostBackends() {
  return {&cpu::backend(), &userKernelBackend(), &collectives::backend(), &ref::backend()};
}

}  // namespace

const runtime::Device &deviceFor(DeviceType type) {
  static const runtime::HostDevice host("cpu", hostBackends());
  static const ipu_model::IpuModel model(hostBackends());
  struct Row {
    DeviceType type;
    const runtime::Device &device;
  };
  static const Row kRows[] = {
      {DeviceType::Cpu, host},        {DeviceType::IpuModel, model}, {DeviceType::Ipu, host},  // virtual IPUs
      {DeviceType::OfflineIpu, host},  // compiles and does not run
      {DeviceType::Sim, model},
  };
  for (const Row &row : kRows)
    if (row.type == type) return row.device;
  throw internal_error("deviceFor: there is no device of type {}", static_cast<int>(type));
}

std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions, DeviceType type) {
  return pipeline::passesOff(engineOptions, *deviceFor(type).backends()[0]);
}

session::CompileOptions compileOptionsFor(DeviceType type, int threads, int replicas) {
  session::CompileOptions options;
  options.device = &deviceFor(type);
  options.evaluate = ref::evaluate;
  options.threads = std::max(1, threads / replicas);
  options.replicas = replicas;
  return options;
}

}  // namespace popart
