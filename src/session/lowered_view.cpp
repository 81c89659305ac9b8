// See lowered_view.hpp.
#include "session/lowered_view.hpp"

#include <map>
#include <utility>

#include "ir/layer_names.hpp"
#include "lower/fused_ops.hpp"
#include "onnx/lowered_model.hpp"
#include "runtime/step_times.hpp"

namespace popart::session {
namespace {

using Steps = std::map<std::string, const executable::Step *>;

void addSteps(const executable::Program &program, Steps &steps) {
  for (const executable::Step &step : program.steps) {
    steps[step.name] = &step;
    for (const auto &inner : step.programs) addSteps(*inner, steps);
  }
}

onnx::StepFacts factsOf(const executable::Step &step, const Op &op) {
  onnx::StepFacts facts{{"kernel", runtime::kernelName(step)}};
  if (const LayerOf layer = layerOf(step.layer); !step.layer.empty()) {
    facts.emplace_back("layer", layer.layer);
    facts.emplace_back("phase", std::string(phaseName(layer.phase)));
  }
  if (std::vector<std::string> fused = lower::fusedOps(op); !fused.empty())
    facts.emplace_back("fused", std::move(fused));
  return facts;
}

}  // namespace

std::string loweredView(const Ir &ir, const schedule::Schedule &schedule, const executable::Executable &executable,
                        PrintData values) {
  Steps steps;
  addSteps(executable.main, steps);
  return onnx::loweredModel(ir, schedule, values, [&](const Op &op) {
    const auto found = steps.find(op.str());
    return found == steps.end() ? onnx::StepFacts() : factsOf(*found->second, op);
  });
}

}  // namespace popart::session
