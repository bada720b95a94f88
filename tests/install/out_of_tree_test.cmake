# Installs the build into a fresh prefix and tests the installed server. Then builds the minimal
# backend in a directory of its own against that prefix, as a user of Longstream would, and runs the
# installed conformance kit on the plugin.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nexit code ${result}\n${output}")
  endif()
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(project "${WORK_DIR}/project")
file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
foreach(file include/longstream/backends/api/backend.h include/longstream/backends/api/plugin.h
             include/longstream/kernels/ops/op_table.h ${LIBDIR}/cmake/Longstream/export.map
             ${LIBDIR}/longstream/plugins/minimal.cpu.so bin/longstream-conformance)
  if(NOT EXISTS "${prefix}/${file}")
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()

if(WITH_SERVER)
  run(bash "${SOURCE_DIR}/tests/install/installed_server_test.sh" "${prefix}/bin"
      "${SOURCE_DIR}/tests/conformance/models/minimal")
endif()

# Copies the sources, so that the build cannot find headers of the repository by accident.
file(COPY "${SOURCE_DIR}/tests/install/out_of_tree/" DESTINATION "${project}")
file(COPY "${SOURCE_DIR}/backends/minimal" DESTINATION "${project}/backends"
     PATTERN CMakeLists.txt EXCLUDE)
file(COPY "${SOURCE_DIR}/tests/conformance/models" DESTINATION "${project}")
run("${CMAKE_COMMAND}" -S "${project}" -B "${project}/build" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_INSTALL_PREFIX=${prefix}" -DCMAKE_BUILD_TYPE=Release
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_C_FLAGS=${FLAGS}")
run("${CMAKE_COMMAND}" --build "${project}/build")
run("${prefix}/bin/longstream-conformance" "${project}/build/plugins/minimal.cpu.so"
    "${project}/models/minimal" --other-model "${project}/models/minimal_other")

# Installs the plugin that was built, in place of the plugin that Longstream installed.
file(REMOVE "${prefix}/${LIBDIR}/longstream/plugins/minimal.cpu.so")
run("${CMAKE_COMMAND}" --install "${project}/build")
if(NOT EXISTS "${prefix}/${LIBDIR}/longstream/plugins/minimal.cpu.so")
  message(FATAL_ERROR "the plugin built out of tree was not installed beside the others")
endif()
