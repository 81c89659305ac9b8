/* For the sources of nanobind: the types that it makes may get attributes, which python/popart/_signatures.py gives them.
   Included before all else. */
#include <Python.h>
#undef Py_TPFLAGS_IMMUTABLETYPE
#define Py_TPFLAGS_IMMUTABLETYPE 0
