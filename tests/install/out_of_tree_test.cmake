# Installs the build into a fresh prefix. Then builds two projects in directories of their own
# against that prefix, as users of Longstream would: a program that talks to the installed server,
# and the minimal backend, on which it runs the installed conformance kit.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nexit code ${result}\n${output}")
  endif()
endfunction()

# Builds the project in `directory`, which finds Longstream in the prefix.
function(build_project directory)
  run("${CMAKE_COMMAND}" -S "${directory}" -B "${directory}/build" -G "${GENERATOR}"
      "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_INSTALL_PREFIX=${prefix}" -DCMAKE_BUILD_TYPE=Release
      "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
      "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_C_FLAGS=${FLAGS}")
  run("${CMAKE_COMMAND}" --build "${directory}/build")
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(project "${WORK_DIR}/project")
set(client "${WORK_DIR}/client")
file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
foreach(file include/longstream/backends/api/backend.h include/longstream/backends/api/plugin.h
             include/longstream/kernels/ops/op_table.h ${LIBDIR}/cmake/Longstream/export.map
             ${LIBDIR}/longstream/plugins/minimal.cpu.so bin/longstream-conformance)
  if(NOT EXISTS "${prefix}/${file}")
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()

# Copies the sources, so that the builds cannot find headers of the repository by accident.
file(COPY "${SOURCE_DIR}/tests/install/out_of_tree_client/" DESTINATION "${client}")
if(WITH_SERVER)
  build_project("${client}")
  run(bash "${SOURCE_DIR}/tests/install/installed_server_test.sh" "${prefix}/bin"
      "${SOURCE_DIR}/tests/conformance/models/minimal" "${client}/build/talk")
else()
  execute_process(COMMAND "${CMAKE_COMMAND}" -S "${client}" -B "${client}/build"
                          "-DCMAKE_PREFIX_PATH=${prefix}"
                  OUTPUT_QUIET ERROR_VARIABLE errors)
  if(NOT errors MATCHES "built without its client")
    message(FATAL_ERROR "the package does not say that it has no client:\n${errors}")
  endif()
endif()

file(COPY "${SOURCE_DIR}/tests/install/out_of_tree/" DESTINATION "${project}")
file(COPY "${SOURCE_DIR}/backends/minimal" DESTINATION "${project}/backends"
     PATTERN CMakeLists.txt EXCLUDE)
file(COPY "${SOURCE_DIR}/tests/conformance/models" DESTINATION "${project}")
build_project("${project}")
run("${prefix}/bin/longstream-conformance" "${project}/build/plugins/minimal.cpu.so"
    "${project}/models/minimal" --other-model "${project}/models/minimal_other")

# Installs the plugin that was built, in place of the plugin that Longstream installed.
file(REMOVE "${prefix}/${LIBDIR}/longstream/plugins/minimal.cpu.so")
run("${CMAKE_COMMAND}" --install "${project}/build")
if(NOT EXISTS "${prefix}/${LIBDIR}/longstream/plugins/minimal.cpu.so")
  message(FATAL_ERROR "the plugin built out of tree was not installed beside the others")
endif()
