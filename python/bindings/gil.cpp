// See gil.hpp. The unwinding is met at the call that starts it and never left.
#include "gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <thread>

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

// A thread that asks for the lock of an interpreter that is gone crashes (CPython up to 3.13), so none may ask once it
// ends: those that have begun to are waited for.
std::atomic<int> takingTheLock{0};
std::atomic<bool> isEnding{false};
std::thread::id endingThread;  // set before isEnding

}  // namespace

ReleaseGil::~ReleaseGil() {
  callOrWaitForEver([this] { PyEval_RestoreThread(state_); });
}

HoldGil::HoldGil() {
  takingTheLock.fetch_add(1);
  if (isEnding.load() && std::this_thread::get_id() != endingThread) {
    takingTheLock.fetch_sub(1);
    for (;;) pause();
  }
  callOrWaitForEver([this] { state_ = PyGILState_Ensure(); });
  takingTheLock.fetch_sub(1);
}

void keepThreadsFromEndingInterpreter() {
  endingThread = std::this_thread::get_id();
  isEnding.store(true);
  const ReleaseGil released;
  while (takingTheLock.load() > 0) std::this_thread::yield();
}

// No C++ object lives between this call and where the unwinding starts.
PyObject *callPython(PyObject *function, PyObject *args) {
  PyObject *result = nullptr;
  callOrWaitForEver([&] { result = PyObject_CallObject(function, args); });
  return result;
}

}  // namespace popart::python
