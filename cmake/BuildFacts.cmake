# Target build_facts: build.json of this tree says of which commit, how and with what it was built, and commit.cpp has the commit for the
# compiled commands. Every build looks, and writes the files only when they change. A wheel has popart/build.json.
set(build_facts ${CMAKE_BINARY_DIR}/build.json)
set(popart_commit_source ${CMAKE_BINARY_DIR}/generated/tools/commit.cpp)
add_custom_target(build_facts
  COMMAND ${CMAKE_COMMAND} -D SOURCES=${CMAKE_SOURCE_DIR} -D FACTS=${build_facts} -D COMMIT_SOURCE=${popart_commit_source}
    -D BUILD_TYPE=${CMAKE_BUILD_TYPE} -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -P ${CMAKE_CURRENT_LIST_DIR}/WriteBuildFacts.cmake
  BYPRODUCTS ${build_facts} ${popart_commit_source}
  COMMENT "Looking up the commit" VERBATIM)
add_dependencies(popart_wheel build_facts)
install(FILES ${build_facts} DESTINATION popart COMPONENT core EXCLUDE_FROM_ALL)
