# Instruction sets that the CPU's kernels are compiled for, see docs/decisions/0075-one-instruction-set.md.
# `all`: the library takes the best set of the processor it runs on. `native`: the set that `all` would take on this machine and
# no other, with the same target of Highway; on a processor without it the library's first use of the backend is an error.
set(POPART_CPU_TARGETS "all" CACHE STRING
  "Instruction sets of the CPU's kernels: all, or native (what this machine would choose; compiles in less time, runs on processors like this one)")
set_property(CACHE POPART_CPU_TARGETS PROPERTY STRINGS all native)
# Three instruction sets on x86: SSE4 (the baseline, wanted even though the compiler's default is older),
# AVX2 and AVX-512 at Skylake's level. Each one more costs compile time in every kernel file.
# NEON alone on 64-bit ARM: kernels keep vectors in arrays and classes, so the compiler must know their size, which SVE leaves open.
set(disabled_targets "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX3_DL)")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(disabled_targets "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE_256|HWY_SVE2|HWY_SVE2_128)")
endif()
set(cpu_targets HWY_WANT_SSE4=1 ${disabled_targets})

if(POPART_CPU_TARGETS STREQUAL "native")
  # The program is compiled once and asked each time: a build folder may have come from another machine.
  set(best_target ${CMAKE_BINARY_DIR}/best_target)
  set(best_target_source ${CMAKE_CURRENT_LIST_DIR}/best_target.cpp)
  if(NOT EXISTS ${best_target} OR ${best_target_source} IS_NEWER_THAN ${best_target})
    try_compile(best_target_compiled ${CMAKE_BINARY_DIR}/best_target_build SOURCES ${best_target_source}
      COMPILE_DEFINITIONS "-DHWY_WANT_SSE4=1" "-D${disabled_targets}" LINK_LIBRARIES hwy::hwy
      CXX_STANDARD 20 OUTPUT_VARIABLE best_target_messages COPY_FILE ${best_target})
    if(NOT best_target_compiled)
      message(FATAL_ERROR "POPART_CPU_TARGETS=native: ${best_target_source} does not compile:\n${best_target_messages}")
    endif()
  endif()
  execute_process(COMMAND ${best_target} OUTPUT_VARIABLE best_target_found RESULT_VARIABLE best_target_result)
  if(NOT best_target_result EQUAL 0 OR NOT best_target_found MATCHES "^([0-9]+) ([A-Z0-9_]+)\n$")
    message(FATAL_ERROR "POPART_CPU_TARGETS=native: this machine cannot say which instruction set it has (${best_target_result}): got "
                        "'${best_target_found}'. Pass -DPOPART_CPU_TARGETS=all.")
  endif()
  message(STATUS "Instruction sets: ${CMAKE_MATCH_2} alone")
  list(APPEND cpu_targets HWY_COMPILE_ONLY_STATIC HWY_BASELINE_TARGETS=${CMAKE_MATCH_1}LL)
elseif(NOT POPART_CPU_TARGETS STREQUAL "all")
  message(FATAL_ERROR "POPART_CPU_TARGETS: got '${POPART_CPU_TARGETS}', expected all or native.")
endif()
target_compile_definitions(popart_build_flags INTERFACE ${cpu_targets})
