// Processes of a job that exchange bytes of their hosts: what popdist is made on in jobs of several instances.
#include "exchange/host_group.hpp"

#include <chrono>

#include "bindings.hpp"

#include "exchange/load_mpi.hpp"
#include "runtime/interrupt.hpp"

namespace popart::python {
namespace {

using exchange::HostGroup;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

nb::list exchangeBytes(HostGroup &group, const std::vector<nb::bytes> &parts, const std::string &what) {
  std::vector<std::string_view> texts;
  for (const nb::bytes &part : parts) texts.emplace_back(part.c_str(), part.size());
  std::vector<std::string> got;
  {
    const ReleaseGil released;
    got = group.exchange(texts, what);
  }
  nb::list result;
  for (std::string &text : got) {
    result.append(nb::bytes(text.data(), text.size()));
    std::string().swap(text);
  }
  return result;
}

}  // namespace

void bindHostGroup(nb::module_ &m) {
  nb::class_<HostGroup>(m, "_HostGroup", "Processes that exchange bytes, numbered from 0; popdist._processes uses it.")
      .def_prop_ro("member", &HostGroup::member, "Number of this process in the group.")
      .def_prop_ro("members", &HostGroup::members, "Number of all processes of the group.")
      .def("describe", &HostGroup::describe, nb::arg("member"), "Process, host and replicas of a member, as text.")
      .def("exchange", exchangeBytes, nb::arg("parts"), nb::arg("what"),
           "Gives each member its bytes, and returns what each gave this one. All members call it.")
      .def(
          "subset", [](const HostGroup &group, const std::vector<int> &members) { return group.subset(members); },
          nb::arg("members"), "A group of some members; None where this process is none of them.");
  m.def(
      "_load_mpi",
      [] {
        const ReleaseGil released;
        exchange::loadMpi();
      },
      "Loads Open MPI and what uses it; an error says what to install.");
  m.def("_note_exit_code", exchange::noteExitCode, nb::arg("code"),
        "Tells the job with which code this process ends, where another library finalises MPI.");
  m.def(
      "_join_host_group",
      [](int processes, bool othersCallMpi, int replicas, int locals, int firstLocal, double timeout) {
        const ReleaseGil released;
        exchange::HostGroupSettings settings{.timeout = milliseconds(timeout), .look = runtime::askInterruptCheck};
        settings.warnAfter = std::min(settings.warnAfter, settings.timeout / 2);
        return exchange::joinHostGroup(
            {.processes = processes, .othersCallMpi = othersCallMpi, .timeout = settings.timeout},
            {replicas, locals, firstLocal}, settings);
      },
      nb::arg("processes"), nb::arg("others_call_mpi"), nb::arg("replicas"), nb::arg("locals"), nb::arg("first_local"),
      nb::arg("timeout"), "Joins the job on MPI; a group of all its processes. All of them call it.");
}

}  // namespace popart::python
