// Common ground of the binding files: one bind function per file, called in order by module.cpp. Bindings translate,
// they do not decide: all logic is in libpopart or in the Python packages.
#pragma once
#include <nanobind/eval.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>

#include <popart/error.hpp>
#include <popart/tensorlocation.hpp>

#include "gil.hpp"

namespace nb = nanobind;

// Dictionaries that programs edit in place: options.engineOptions["key"] = "value".
using OptionMap = std::map<std::string, std::string>;
using LocationMap = std::map<std::string, popart::TensorLocation>;
NB_MAKE_OPAQUE(OptionMap)
NB_MAKE_OPAQUE(LocationMap)

namespace popart::python {

void bindExceptions(nb::module_ &m);
void bindErrorLog();  // after all other translators of exceptions: the newest is asked first
void bindEnums(nb::module_ &m);
void bindDebug(nb::module_ &m);
void bindTensorInfo(nb::module_ &m);
void bindVariableSettings(nb::module_ &m);
void bindDataFlow(nb::module_ &m);
void bindOptions(nb::module_ &m);
void bindDevices(nb::module_ &m);
void bindStepIo(nb::module_ &m);
void bindIr(nb::module_ &m);
void bindCustomOps(nb::module_ &m);
void bindGraphEdits(nb::module_ &m);
void bindOptimizers(nb::module_ &m);
void bindPatterns(nb::module_ &m);
void bindSessions(nb::module_ &m);
void bindPopdist(nb::module_ &m);
void bindOperators(nb::module_ &m);
void bindBuilder(nb::module_ &m);
void bindModelTools(nb::module_ &m);
void bindNormalNumbers(nb::module_ &parent);

// Conversion to int, and the printed form "<DataType.FLOAT: 11>".
inline void setEnumForms(nb::object &type) {
  type.attr("__int__") = nb::eval("lambda self: self.value");
  type.attr("__repr__") = nb::module_::import_("enum").attr("Enum").attr("__repr__");
}

// An enumeration as PopART's module has it: Python enum members that convert to int.
template <class E>
nb::object bindEnum(nb::module_ &m, const char *name, const char *doc,
                    std::initializer_list<std::pair<const char *, E>> members) {
  nb::enum_<E> type(m, name, doc);
  std::map<E, const char *> first;
  for (const auto &[member, value] : members)
    if (first.emplace(value, member).second) type.value(member, value);
  nb::object result = m.attr(name);
  for (const auto &[member, value] : members)
    if (first.at(value) != member) {  // another name of a member, as Python has them
      result.attr(member) = result.attr(first.at(value));
      result.attr("_member_map_")[member] = result.attr(member);
    }
  setEnumForms(result);
  return result;
}

// str(value) as a C++ string.
inline std::string pyText(nb::handle value) {
  nb::object text = nb::steal(PyObject_Str(value.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text);
}

// What Python calls a T.
template <class T>
constexpr const char *kPythonName = "another type";
template <>
inline constexpr const char *kPythonName<std::string> = "str";
template <>
inline constexpr const char *kPythonName<bool> = "bool";
template <>
inline constexpr const char *kPythonName<int64_t> = "int";
template <>
inline constexpr const char *kPythonName<float> = "float";
template <>
inline constexpr const char *kPythonName<std::vector<int64_t>> = "a list of int";
template <>
inline constexpr const char *kPythonName<std::vector<float>> = "a list of float";
template <>
inline constexpr const char *kPythonName<std::vector<std::string>> = "a list of str";

// `value` as a T. Throws TypeError naming `what`, the value and the type expected when it is none.
template <class T>
T fromPython(nb::handle value, const std::string &what) {
  T result;
  if (nb::try_cast<T>(value, result)) return result;
  nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  throw nb::type_error((what + ": got " + nb::cast<std::string>(text) + ", expected " + kPythonName<T>).c_str());
}

// A dictionary (or a live option map) with values made text: numbers and booleans as Python prints them.
OptionMap toOptionMap(nb::handle dict);

}  // namespace popart::python
