// The Python module popart_core.
#include "bindings.hpp"
#include "exchange/load_mpi.hpp"
#include "gil.hpp"
#include "losses.hpp"

namespace {

// Daemon threads that are still there when the interpreter ends do not use it any more. An exception that ends the
// program is noted for the other processes of a job.
void prepareForEnd() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    if (nb::hasattr(nb::module_::import_("sys"), "last_type")) popart::exchange::noteExitCode(1);
    popart::python::keepThreadsFromEndingInterpreter();
  }));
  popart::exchange::setLateExitCode([] {
    const popart::python::HoldGil held;
    nb::module_::import_("popart._exit_code").attr("watch")();
  });
}

}  // namespace

NB_MODULE(popart_core, m) {
  using namespace popart::python;
  m.doc() = "Core of PopART: graphs, sessions, devices and optimizers.";
  // Programs may keep objects until they end: in a global, in a cycle, in a daemon thread. That is no leak to print.
  nb::set_leak_warnings(false);
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
  bindPopdist(m);
  bindOperators(m);
  bindBuilder(m);
  bindLosses(m);
  bindModelTools(m);
  bindNormalNumbers(m);
  bindIr(m);
  bindCustomOps(m);
  bindErrorLog();
  popart::exchange::setPythonPrefix(nb::cast<std::string>(nb::module_::import_("sys").attr("prefix")));
  prepareForEnd();
}
