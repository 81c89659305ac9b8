# Wheels for several Pythons from one compilation: library, headers, programs and type stub come from the build tree POPART_CORE, and so
# does its extension if it is for the same Python. Nothing but bindings is compiled here.
add_library(popart SHARED IMPORTED GLOBAL)
set_target_properties(popart PROPERTIES IMPORTED_LOCATION ${POPART_CORE}/lib/libpopart.so)
target_include_directories(popart INTERFACE ${CMAKE_SOURCE_DIR}/include ${POPART_CORE}/generated/builder)

# Installs one component of the other tree as a part of this installation.
function(popart_install_of_tree component)
  install(CODE "
    execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${POPART_CORE}\" --component ${component} --strip
      --prefix \"\${CMAKE_INSTALL_PREFIX}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
endfunction()
popart_install_of_tree(core)
