// ReleaseGil, HoldGil and callPython: as nanobind's guards and calls, but a thread that asks for the lock while the
// interpreter shuts down waits for ever instead of ending. (Until Python 3.13 the interpreter ends such a thread by
// unwinding its stack: C++ frames that throw nothing answer by ending the process, others give up references without
// the lock.) The process then ends as if the thread were not there.
#pragma once
#include <Python.h>

namespace popart::python {

class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil &) = delete;
  ReleaseGil &operator=(const ReleaseGil &) = delete;

 private:
  PyThreadState *state_;
};

class HoldGil {
 public:
  HoldGil();
  ~HoldGil() { PyGILState_Release(state_); }
  HoldGil(const HoldGil &) = delete;
  HoldGil &operator=(const HoldGil &) = delete;

 private:
  PyGILState_STATE state_;
};

// function(*args): a new reference, null with a Python error set. The caller holds the lock.
PyObject *callPython(PyObject *function, PyObject *args);

// To be called when the interpreter begins to end, by the thread that ends it: other threads that would take the lock
// later wait until the process is gone.
void keepThreadsFromEndingInterpreter();

}  // namespace popart::python
