// The Python module popart_core.
#include "bindings.hpp"

NB_MODULE(popart_core, m) {
  using namespace popart::python;
  m.doc() = "Core of PopART: graphs, sessions, devices and optimizers.";
  bindExceptions(m);
  bindEnums(m);
  bindDebug(m);
  bindTensorInfo(m);
  bindVariableSettings(m);
  bindDataFlow(m);
  bindOptions(m);
  bindDevices(m);
  bindStepIo(m);
  bindOptimizers(m);
  bindPatterns(m);
  bindSessions(m);
  bindOperators(m);
  bindBuilder(m);
  bindModelTools(m);
  bindTesting(m);
  bindIr(m);
}
