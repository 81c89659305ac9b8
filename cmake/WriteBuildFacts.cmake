# The command of the target build_facts. Sources that are no checkout, as those of an sdist, have no commit: not that of a repository
# around them.
cmake_path(GET SOURCES PARENT_PATH around)
set(ENV{GIT_CEILING_DIRECTORIES} ${around})
execute_process(COMMAND git describe --always --dirty --abbrev=10 --exclude=* WORKING_DIRECTORY ${SOURCES}
  RESULT_VARIABLE failed OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed)
  set(commit "")
endif()
set(facts "{}")
string(JSON facts SET "${facts}" commit "\"${commit}\"")
string(JSON facts SET "${facts}" buildType "\"${BUILD_TYPE}\"")
string(JSON facts SET "${facts}" compiler "\"${COMPILER}\"")
file(CONFIGURE OUTPUT ${FACTS} CONTENT "${facts}\n" @ONLY)  # writes only what is new
file(CONFIGURE OUTPUT ${COMMIT_SOURCE} @ONLY
  CONTENT "#include \"shared/command.hpp\"\nconst char *const popart::tools::kCommit = \"${commit}\";\n")
