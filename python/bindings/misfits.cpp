#include "misfits.hpp"

namespace popart::python {
namespace {

std::string describe(nb::handle value) {
  const bool isShort = value.is_none() || PyBool_Check(value.ptr()) || PyLong_Check(value.ptr()) ||
                       PyFloat_Check(value.ptr()) || (PyUnicode_Check(value.ptr()) && nb::len(value) <= 80);
  return isShort ? nb::cast<std::string>(nb::repr(value)) : nb::cast<std::string>(value.type().attr("__name__"));
}

}  // namespace

std::string describeCall(const Misfit &first, const nb::args &rest, const nb::kwargs &named) {
  std::string text;
  const auto add = [&](const std::string &item) { text += (text.empty() ? "" : ", ") + item; };
  if (!first.given.is(nb::handle(Py_Ellipsis))) add(describe(first.given));
  for (nb::handle value : rest) add(describe(value));
  for (auto [name, value] : named) add(nb::cast<std::string>(name) + "=" + describe(value));
  return "(" + text + ")";
}

}  // namespace popart::python
