// Which kernel providers serve a device, in order of preference. The one place that knows. The first one also decides
// what is fused and decomposed; it leaves user operators to the second.
#include "api/compile_options.hpp"
#include "api/user_kernels.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"

namespace popart {

std::vector<const executable::Backend *> backendsFor(DeviceType) {
  return {&cpu::backend(), &userKernelBackend(), &ref::backend()};
}

session::CompileOptions compileOptionsFor(DeviceType device, int threads) {
  session::CompileOptions options;
  options.backends = backendsFor(device);
  options.evaluate = ref::evaluate;
  options.threads = threads;
  return options;
}

}  // namespace popart
