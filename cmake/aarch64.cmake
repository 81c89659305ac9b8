# Toolchain of the preset aarch64: Debian's compiler for 64-bit ARM, its libraries in a folder of their own, and qemu for the programs
# that the build itself runs. tools/wheels/machines.py makes that folder; see docs/decisions/0046-wheels.md.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

cmake_path(SET popart_root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root)
if(NOT EXISTS ${popart_root}/usr/include/aarch64-linux-gnu)
  message(FATAL_ERROR "aarch64: ${popart_root} has no headers of arm64. Run ./dev wheel --machine aarch64, which makes it.")
endif()
set(CMAKE_SYSROOT ${popart_root})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${popart_root})

# Programs are this machine's (protoc, Python); headers and libraries are those of the folder. nanobind is a package of Python.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
if(NOT DEFINED Python_INCLUDE_DIR)  # of Debian's Python; a wheel says which it is for
  file(GLOB Python_INCLUDE_DIR ${popart_root}/usr/include/python3.[0-9]*)
endif()
