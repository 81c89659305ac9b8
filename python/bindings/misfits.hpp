// Errors in plain words for calls that fit no overload of a function, instead of nanobind's list of signatures.
#pragma once
#include <string>

#include "bindings.hpp"

namespace popart::python {

// Parameter of an overload that fits when all others do not, conversions included.
struct Misfit {
  nb::handle given;  // the first positional argument; Ellipsis: none
};

// What a call gave, such as "(None, dict, lr=0.1)": numbers and texts as they are, of all else the type.
std::string describeCall(const Misfit &first, const nb::args &rest, const nb::kwargs &named);

}  // namespace popart::python

namespace nanobind::detail {

template <>
struct type_caster<popart::python::Misfit> {
  NB_TYPE_CASTER(popart::python::Misfit, const_name("typing.Never"))
  bool from_python(handle source, uint32_t flags, cleanup_list *) noexcept {
    value.given = source;
    return (flags & cast_flags::convert) != 0;  // set when no overload fits without conversions
  }
};

}  // namespace nanobind::detail

namespace popart::python {

// Adds the last overload of a method of `Class`, or of its constructor ("__init__"): it throws TypeError, with what the
// call gave in front of `advice`, which says what to write.
template <class Class>
void explainMisfits(const char *method, const std::string &advice) {
  const nb::handle type = nb::type<Class>();
  const std::string what = std::string(method) == "__init__" ? nb::cast<std::string>(type.attr("__name__")) : method;
  nb::cpp_function_def(
      [what, advice](Class *, const Misfit &first, const nb::args &rest, const nb::kwargs &named) {
        throw nb::type_error((what + ": got " + describeCall(first, rest, named) + ", expected " + advice).c_str());
      },
      nb::scope(type), nb::name(method), nb::is_method(), nb::arg("misfit").none() = nb::borrow(Py_Ellipsis),
      nb::arg("args"), nb::arg("kwargs"), "Any other call is a misfit: a TypeError says what to write instead.",
      nb::sig((std::string("def ") + method + "(self, misfit: typing.Never, /) -> None").c_str()));
}

}  // namespace popart::python
