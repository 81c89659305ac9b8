# Several source files as one translation unit: what a file costs is mostly its headers and the templates it shares with
# its neighbours, and both are then compiled once. Off where one file is compiled often: preset tsan, and dev unless the variable
# POPART_UNITS of the environment is ON, as in continuous integration.
# Invariant: names of one room differ, in unnamed namespaces as well (tools/checks/units.py).
# Files of vectors, and in release builds all of the CPU backend, stay alone, so that their code does not depend on neighbours.
option(POPART_UNITS "Compile the files of a room together: a full build takes half the time, a small change longer" ON)

# Joins the given files of a target, neighbours in the given order, in units of about `size` files.
function(popart_join target name size)
  list(LENGTH ARGN count)
  if(NOT POPART_UNITS OR count LESS 2)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # gcc takes the files of a unit for headers, in which types with members of an unnamed namespace would be a mistake.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  math(EXPR units "(${count} + ${size} - 1) / ${size}")
  set(index 0)
  foreach(source ${ARGN})
    math(EXPR unit "${index} * ${units} / ${count}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${name}_${unit}")
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# Compiles the given headers, and those of the standard library that most files include, once before the files of a target.
# ccache must be told that it may take part.
function(popart_precompile target)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <bit> <cmath> <cstring> <functional> <limits>
    <map> <memory> <numeric> <optional> <set> <span> <string> <unordered_map> <vector> ${ARGN})
  if(CCACHE_PROGRAM)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
