// See gil.hpp. The unwinding is met at the call that starts it and never left.
#include "gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

namespace popart::python {
namespace {

template <class Call>
void callOrWaitForEver(Call call) {
  try {
    call();
  } catch (const abi::__forced_unwind &) {
    for (;;) pause();
  }
}

}  // namespace

ReleaseGil::~ReleaseGil() {
  callOrWaitForEver([this] { PyEval_RestoreThread(state_); });
}

HoldGil::HoldGil() {
  callOrWaitForEver([this] { state_ = PyGILState_Ensure(); });
}

// No C++ object lives between this call and where the unwinding starts.
PyObject *callPython(PyObject *function, PyObject *args) {
  PyObject *result = nullptr;
  callOrWaitForEver([&] { result = PyObject_CallObject(function, args); });
  return result;
}

}  // namespace popart::python
