# Compiler settings of our own targets, gathered in the interface target popart_build_flags.
# Third-party code (nanobind's library, generated protobuf files) does not get our warnings.
# Invariant: -ffp-contract=off everywhere, so that fused and unfused kernels agree to the bit.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc looks for garbage of its own from 384 MiB on instead of 128: a tenth less of its time for the same code.
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " --param=ggc-min-heapsize=393216 --param=ggc-min-expand=1000")
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

# Where the first build counts more than what follows (preset native): code that prepares programs and hands over arrays,
# and the reference kernels, with the optimisations that take little time. Kernels and the runtime keep their level.
option(POPART_COMPILE_SOON "Compile in less time: programs take longer to prepare, operators on the reference to run" OFF)
set(POPART_PREPARATION_OPTIONS "")
if(POPART_COMPILE_SOON)
  set(POPART_PREPARATION_OPTIONS -Og)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

if(POPART_SANITIZE)
  # Without optimisation (the CPU kernels excepted): instrumented code takes four times as long to compile at level 2.
  # Left out: checks that another one makes as well (a null or foreign object is an address error) and that double the
  # size of every member access.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0 -g1")
  add_compile_options(-fsanitize=${POPART_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(POPART_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,object-size,vptr)
  endif()
  add_link_options(-fsanitize=${POPART_SANITIZE})
endif()

add_library(popart_build_flags INTERFACE)
target_compile_options(popart_build_flags INTERFACE -Wall -Wextra -ffp-contract=off)
if(POPART_WARNINGS_AS_ERRORS)
  target_compile_options(popart_build_flags INTERFACE -Werror)
endif()
if(POPART_SANITIZE)
  # gcc reports values as maybe uninitialised that only its own instrumentation leaves so.
  target_compile_options(popart_build_flags INTERFACE -Wno-maybe-uninitialized)
endif()
target_compile_definitions(popart_build_flags INTERFACE SPDLOG_FMT_EXTERNAL)
target_include_directories(popart_build_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
