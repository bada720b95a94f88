# Builds backend plugins. find_package(Longstream) includes this file, so that plugins outside this
# tree can use it.

# longstream_plugin(NAME name DEVICE device SOURCES ... [DEPS ...])
# Builds a backend: the target <name>.<device>, which makes the file
# <build>/plugins/<name>.<device>.so. Installs it where a server looks for plugins. Links DEPS
# privately, for example the op library of the device.
function(longstream_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;DEVICE" "SOURCES;DEPS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_DEVICE OR NOT arg_SOURCES)
    message(FATAL_ERROR "longstream_plugin(${arg_NAME}): needs NAME, DEVICE and SOURCES; "
                        "unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target "${arg_NAME}.${arg_DEVICE}")
  longstream_module(${target} "${arg_SOURCES}" "${arg_DEPS}" "${PROJECT_BINARY_DIR}/plugins")
  add_dependencies(installed ${target})
  install(TARGETS ${target} LIBRARY DESTINATION "${LONGSTREAM_INSTALL_PLUGIN_DIR}")
endfunction()

# longstream_module(name sources deps directory)
# Builds the loadable module <directory>/<name>.so. It exports only the symbol of the ABI and has no
# undefined symbols.
function(longstream_module name sources deps directory)
  # In an installation the version script is beside this file.
  set(export_map "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/export.map")
  if(NOT EXISTS "${export_map}")
    cmake_path(SET export_map NORMALIZE
               "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../backends/api/export.map")
  endif()
  add_library(${name} MODULE ${sources})
  target_compile_features(${name} PRIVATE c_std_11 cxx_std_20)
  target_link_libraries(${name} PRIVATE ${deps} $<TARGET_NAME_IF_EXISTS:longstream_warnings>)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL
                      "-Wl,--version-script=${export_map}")
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${export_map}")
  # With Clang, the sanitizer's runtime is part of the program, so a shared object refers to
  # undefined symbols of it.
  if(NOT (LONGSTREAM_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES
    PREFIX "" OUTPUT_NAME "${name}" SUFFIX ".so" LIBRARY_OUTPUT_DIRECTORY "${directory}"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
