# Target popart_headers_alone: every header compiles as the first and only include of a file.
# Public headers see include/ only, which is what a user's compiler sees; rooms' headers also see src/.
# Highway's *-inl.hpp files are compiled once per instruction set by design and are left out.
function(popart_add_headers_alone target root)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp)
  list(FILTER headers EXCLUDE REGEX "-inl\\.hpp$")
  set(sources "")
  foreach(header ${headers})
    string(REPLACE "/" "__" name ${header})
    set(source ${CMAKE_BINARY_DIR}/headers_alone/${target}/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -O0 -g0)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include ${ARGN})
    add_dependencies(popart_headers_alone ${target})
  endif()
endfunction()

add_custom_target(popart_headers_alone)
popart_add_headers_alone(popart_public_headers_alone ${CMAKE_SOURCE_DIR}/include)
popart_add_headers_alone(popart_room_headers_alone ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src)
