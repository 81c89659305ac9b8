#include "lower/kernels.hpp"
#include "ir/layer_names.hpp"

#include <algorithm>

namespace popart::lower {

bool needsKernel(const Op &op) {
  const bool step = op.is(Role::Loop) || op.is(Role::If) || op.is(Role::HostLoad) || op.is(Role::HostStore) ||
                    op.is(Role::RemoteLoad) || op.is(Role::RemoteStore);
  return !step && !executable::takesNoStep(op);
}

bool hasKernel(const Backends &backends, const executable::KernelRequest &request) {
  const auto isLaidOut = [](const executable::OperandDesc &o) { return o.connected && o.layout; };
  const bool asksAll = std::any_of(request.inputs.begin(), request.inputs.end(), isLaidOut) ||
                       std::any_of(request.outputs.begin(), request.outputs.end(), isLaidOut);
  std::string reason;
  for (size_t b = 0; b < (asksAll ? backends.size() : 1); ++b)
    if (backends[b]->createKernel(request, reason)) return true;
  return false;
}

Kernels chooseKernels(const Ir &program, const schedule::Schedule &schedule, const Backends &backends) {
  Kernels result;
  auto choose = [&](const Op &op) {
    const executable::KernelRequest request = executable::requestOf(op);
    std::string reasons;
    for (size_t b = 0; b < backends.size(); ++b) {
      std::string reason;
      if (auto kernel = backends[b]->createKernel(request, reason)) {
        if (b > 0) result.fallbacks.push_back({op.str(), op.name(), backends[b - 1]->name(), reasons});
        return kernel;
      }
      reasons += (reasons.empty() ? "" : "; ") + backends[b]->name() + ": " + reason;
    }
    throw error("{}: no backend of this device has a kernel for it: {}", op.debugName(), reasons);
  };
  for (const auto &[id, order] : schedule.orders) {
    const Graph &graph = program.getGraph(id);
    for (OpIndex o : order)
      if (needsKernel(graph.op(o))) result.of.emplace(&graph.op(o), choose(graph.op(o)));
  }
  return result;
}

}  // namespace popart::lower
