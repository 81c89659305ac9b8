# ONNX messages: C++ code generated from the schema that the Python package onnx installs.
# The copy in the build tree lives in package popart.onnx_proto and uses the lite runtime, so that our
# symbols never meet those of another ONNX or protobuf library in the same process.
# Result: the static library popart_onnx_proto, header "onnx_proto/onnx.pb.h", used by src/onnx only.
set(onnx_proto_schema ${ONNX_PROTO})
if(NOT onnx_proto_schema)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util as u; s = u.find_spec('onnx'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE onnx_package_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  foreach(candidate ${onnx_package_dir}/onnx-ml.proto /usr/include/onnx/onnx-ml.proto)
    if(NOT onnx_proto_schema AND EXISTS ${candidate})
      set(onnx_proto_schema ${candidate})
    endif()
  endforeach()
endif()
if(NOT EXISTS "${onnx_proto_schema}")
  message(FATAL_ERROR "ONNX schema: onnx-ml.proto not found by ${Python_EXECUTABLE} nor in /usr/include/onnx. "
                      "Install the Python package onnx, or pass -DONNX_PROTO=PATH.")
endif()
message(STATUS "ONNX schema: ${onnx_proto_schema}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${onnx_proto_schema})

set(onnx_proto_root ${CMAKE_BINARY_DIR}/generated)
set(onnx_proto_file ${onnx_proto_root}/onnx_proto/onnx.proto)
file(READ ${onnx_proto_schema} onnx_schema_text)
if(NOT onnx_schema_text MATCHES "\npackage onnx;")
  message(FATAL_ERROR "ONNX schema '${onnx_proto_schema}': no line 'package onnx;'. Pass the onnx-ml.proto of an onnx release.")
endif()
string(REPLACE "\npackage onnx;" "\npackage popart.onnx_proto;" onnx_schema_text "${onnx_schema_text}")
if(NOT onnx_schema_text MATCHES "optimize_for = LITE_RUNTIME")
  string(APPEND onnx_schema_text "\noption optimize_for = LITE_RUNTIME;\n")
endif()
file(CONFIGURE OUTPUT ${onnx_proto_file} CONTENT "${onnx_schema_text}" @ONLY)

add_custom_command(
  OUTPUT ${onnx_proto_root}/onnx_proto/onnx.pb.cc ${onnx_proto_root}/onnx_proto/onnx.pb.h
  COMMAND protobuf::protoc --proto_path=${onnx_proto_root} --cpp_out=${onnx_proto_root} onnx_proto/onnx.proto
  DEPENDS ${onnx_proto_file} COMMENT "Generating ONNX messages" VERBATIM)
add_library(popart_onnx_proto STATIC ${onnx_proto_root}/onnx_proto/onnx.pb.cc ${onnx_proto_root}/onnx_proto/onnx.pb.h)
target_include_directories(popart_onnx_proto SYSTEM PUBLIC ${onnx_proto_root})
target_compile_options(popart_onnx_proto PRIVATE -w ${POPART_PREPARATION_OPTIONS})
target_link_libraries(popart_onnx_proto PUBLIC protobuf::libprotobuf-lite)
