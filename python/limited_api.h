/* For target popart_limited_api: what Python 3.12 added to the limited API and nanobind uses, where the headers at hand
   are older. The declarations are those of https://docs.python.org/3.12/c-api. Included before all else. */
#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000
extern "C" {
PyObject *PyErr_GetRaisedException(void);
void PyErr_SetRaisedException(PyObject *exception);
PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames);
PyObject *PyObject_VectorcallMethod(PyObject *name, PyObject *const *args, size_t nargsf, PyObject *kwnames);
}
#endif
