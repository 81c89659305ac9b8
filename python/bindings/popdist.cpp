// The room popdist: getters of the job, begin and end of communication, collectives of hosts on bytes.
#include <popdist/backend.hpp>
#include <popdist/collectives.hpp>

#include "bindings.hpp"

#include "exchange/load_mpi.hpp"
#include "popdist/errors.hpp"
#include "popdist/hosts.hpp"

namespace popart::python {
namespace {

using namespace popdist;

// What popdist asks of a program in Python: a warning, the end of communication before the interpreter ends (mpi4py
// finalises MPI then), and whether mpi4py is there.
void useLanguage() {
  popdist::language() = {
      .warn =
          [](const std::string &text) {
            const HoldGil held;
            if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) != 0) throw nb::python_error();
          },
      .begun =
          [] {
            const HoldGil held;
            static bool isRegistered = false;
            if (isRegistered) return;
            nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
              const ReleaseGil released;
              popdist::finalizeBackend();
            }));
            isRegistered = true;
          },
      .othersCallMpi =
          [] {
            const HoldGil held;
            return nb::cast<bool>(nb::module_::import_("sys").attr("modules").attr("__contains__")(nb::str("mpi4py")));
          },
  };
}

void translateError(const std::exception_ptr &thrown, void *) {
  try {
    std::rethrow_exception(thrown);
  } catch (const popdist::type_error &e) {
    PyErr_SetString(PyExc_TypeError, e.what());
  } catch (const popdist::missing_file_error &e) {
    PyErr_SetString(PyExc_FileNotFoundError, e.what());
  } catch (const popdist::unsupported_error &e) {
    PyErr_SetString(PyExc_NotImplementedError, e.what());
  }
}

// InstanceScope as a context of Python.
class ScopeContext {
 public:
  explicit ScopeContext(std::vector<int64_t> instances) : instances_(std::move(instances)) {}
  bool enter() {
    const ReleaseGil released;
    scope_.emplace(instances_);
    return scope_->isMember();
  }
  void leave(const nb::args &) { scope_.reset(); }

 private:
  std::vector<int64_t> instances_;
  std::optional<popdist::InstanceScope> scope_;
};

nb::bytes toBytes(const std::string &text) { return nb::bytes(text.data(), text.size()); }

bytes::Memory toMemory(const nb::bytes &values, const std::string &what) {
  return {values.c_str(), values.size(), what};
}

// Element type by NumPy's name; UNDEFINED where there is none.
DataType typeOf(const std::string &name) {
  try {
    return dataTypeFromString(name);
  } catch (const error &) {
    return DataType::UNDEFINED;
  }
}

void bindBackend(nb::module_ &m) {
  using Quiet = nb::call_guard<ReleaseGil>;  // joining a job waits for others
  m.def("init", popdist::init, Quiet());
  m.def("registerDefaultBackend", popdist::registerDefaultBackend, Quiet());
  m.def("registerBackend", popdist::registerBackend, nb::arg("file"), Quiet());
  m.def("initializeBackend", popdist::initializeBackend, Quiet());
  m.def("isBackendInitialized", popdist::isBackendInitialized, Quiet());
  m.def("finalizeBackend", popdist::finalizeBackend, Quiet());
}

void bindContext(nb::module_ &m) {
  m.def("isPopdistEnvSet", popdist::isPopdistEnvSet);
  m.def("getNumTotalReplicas", popdist::getNumTotalReplicas);
  m.def("getNumLocalReplicas", popdist::getNumLocalReplicas);
  m.def("getReplicaIndexOffset", popdist::getReplicaIndexOffset);
  m.def("getNumIpusPerReplica", popdist::getNumIpusPerReplica);
  m.def("checkNumIpusPerReplica", popdist::checkNumIpusPerReplica, nb::arg("numIpusPerReplica"));
  m.def("getNumInstances", popdist::getNumInstances);
  m.def("getInstanceIndex", popdist::getInstanceIndex);
  m.def("getLocalInstanceIndex", popdist::getLocalInstanceIndex);
  m.def("getDeviceId", popdist::getDeviceId, nb::arg("ipusPerReplica"));
  m.def("defaultCommunicatorId", popdist::defaultCommunicatorId);
  m.def("registerCommunicator", popdist::registerParticipants, nb::arg("participants"), nb::arg("communicator"),
        nb::call_guard<ReleaseGil>());
  nb::class_<ScopeContext>(m, "InstanceScope", "Collectives inside are restricted to some instances.")
      .def(nb::init<std::vector<int64_t>>(), nb::arg("instances"))
      .def("__enter__", &ScopeContext::enter, "Whether this instance is one of them.")
      .def("__exit__", &ScopeContext::leave);
}

void bindCollectives(nb::module_ &m) {
  bindEnum<Reduction>(
      m, "Reduction", "How elements are joined.",
      {{"sum", Reduction::Sum}, {"mean", Reduction::Mean}, {"min", Reduction::Min}, {"max", Reduction::Max}});
  m.def("members", bytes::members, nb::arg("communicator"), nb::call_guard<ReleaseGil>());
  m.def("synchronize", popdist::synchronize, nb::arg("communicator"), nb::call_guard<ReleaseGil>());
  m.def(
      "allReduce",
      [](const nb::bytes &values, const std::string &what, const std::string &type, Reduction how,
         int64_t communicator) {
        const bytes::Memory memory = toMemory(values, what);
        std::string result;
        {
          const ReleaseGil released;
          result = bytes::allReduce(memory, typeOf(type), how, {}, communicator);
        }
        return toBytes(result);
      },
      nb::arg("values"), nb::arg("what"), nb::arg("type"), nb::arg("how"), nb::arg("communicator"));
  m.def(
      "allGather",
      [](const nb::bytes &values, const std::string &what, int64_t communicator) {
        const bytes::Memory memory = toMemory(values, what);
        std::vector<std::string> all;
        {
          const ReleaseGil released;
          all = bytes::allGather(memory, {}, communicator);
        }
        nb::list result;
        for (const std::string &one : all) result.append(toBytes(one));
        return result;
      },
      nb::arg("values"), nb::arg("what"), nb::arg("communicator"));
  m.def(
      "broadcast",
      [](const nb::bytes &values, const std::string &what, int64_t root, int64_t communicator) {
        const bytes::Memory memory = toMemory(values, what);
        std::string result;
        {
          const ReleaseGil released;
          result = bytes::broadcast(memory, root, {}, communicator);
        }
        return toBytes(result);
      },
      nb::arg("values"), nb::arg("what"), nb::arg("root"), nb::arg("communicator"));
}

}  // namespace

void bindPopdist(nb::module_ &module) {
  nb::module_ m =
      module.def_submodule("_popdist", "What the package popdist is made of; its functions have documentation.");
  nb::register_exception_translator(&translateError);
  useLanguage();
  bindBackend(m);
  bindContext(m);
  bindCollectives(m);
  m.def("noteExitCode", exchange::noteExitCode, nb::arg("code"),
        "Tells the job with which code this process ends, where another library finalises MPI.");
}

}  // namespace popart::python
