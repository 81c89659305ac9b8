# popart/build.json of a wheel: what popart-info says of the build. It is written when files are installed, so that the commit is the one
# whose sources are packed. Sources that are no checkout, as those of an sdist, have no commit: not that of a repository around them.
cmake_path(GET CMAKE_SOURCE_DIR PARENT_PATH around)
install(CODE "
  execute_process(COMMAND \"${CMAKE_COMMAND}\" -E env \"GIT_CEILING_DIRECTORIES=${around}\"
    git describe --always --dirty --abbrev=10 --exclude=* WORKING_DIRECTORY \"${CMAKE_SOURCE_DIR}\"
    RESULT_VARIABLE failed OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    set(commit \"\")
  endif()
  set(facts \"{}\")
  string(JSON facts SET \"\${facts}\" commit \"\\\"\${commit}\\\"\")
  string(JSON facts SET \"\${facts}\" buildType \"\\\"${CMAKE_BUILD_TYPE}\\\"\")
  string(JSON facts SET \"\${facts}\" compiler \"\\\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\\\"\")
  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/popart/build.json\" \"\${facts}\\n\")" COMPONENT core EXCLUDE_FROM_ALL)
