# Each kind of target has a function. Every target has the repository root as an include directory,
# compiles with longstream_warnings, and links DEPS as PUBLIC.

# longstream_library(NAME longstream_<part> [SOURCES ...] [DEPS ...] [PRIVATE_DEPS ...])
# Makes a static library, or an interface library if there are no SOURCES. Its headers need DEPS;
# only its sources need PRIVATE_DEPS.
function(longstream_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS;PRIVATE_DEPS")
  longstream_check_arguments(longstream_library)
  set(include_directories "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                          "$<INSTALL_INTERFACE:${LONGSTREAM_INSTALL_INCLUDE_DIR}>")
  if(arg_SOURCES)
    add_library(${arg_NAME} STATIC ${arg_SOURCES})
    target_include_directories(${arg_NAME} PUBLIC ${include_directories})
    target_link_libraries(${arg_NAME} PUBLIC ${arg_DEPS}
                          PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:longstream_warnings>)
    longstream_unite(${arg_NAME})
  else()
    add_library(${arg_NAME} INTERFACE)
    target_include_directories(${arg_NAME} INTERFACE ${include_directories})
    target_link_libraries(${arg_NAME} INTERFACE ${arg_DEPS})
  endif()
endfunction()

# longstream_test_plugin(NAME name SOURCES ... [DEPS ...])
# Makes a plugin that only tests load: <build>/test_plugins/<name>.so. It is never installed. For
# other plugins see longstream_plugin (LongstreamPlugin.cmake).
function(longstream_test_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS")
  longstream_check_arguments(longstream_test_plugin)
  longstream_module("${arg_NAME}" "${arg_SOURCES}" "${arg_DEPS}"
                    "${PROJECT_BINARY_DIR}/test_plugins")
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
endfunction()

# longstream_binary(NAME name SOURCES ... [DEPS ...])
# Makes and installs a program for users: <build>/bin/<name>.
function(longstream_binary)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS")
  longstream_check_arguments(longstream_binary)
  longstream_program("${arg_NAME}" "${arg_SOURCES}" "${arg_DEPS}" "${PROJECT_BINARY_DIR}/bin")
  longstream_unite(${arg_NAME})
  add_dependencies(installed ${arg_NAME})
  install(TARGETS ${arg_NAME} RUNTIME)
endfunction()

# longstream_time_limit(test seconds)
# Stops a test that runs longer than this; with sanitizers, three times as long. Choose a limit that
# is long enough on a busy machine.
function(longstream_time_limit test seconds)
  if(LONGSTREAM_SANITIZE)
    math(EXPR seconds "3 * ${seconds}")
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# longstream_test(NAME name SOURCES ... [DEPS ...] [LABELS ...] [ARGS ...] [TIMEOUT seconds]
#                 [COST seconds] [SERIAL] [SANITIZED_FILTER filter])
# Makes a GoogleTest program in <build>/tests. All its tests are one ctest entry, because starting a
# process takes longer than a short test.
#   SERIAL   for tests that measure time
#   COST     roughly, for long tests: ctest starts the longest first, so that cores end together
#   TIMEOUT  the longstream_time_limit, 300 by default
#   SANITIZED_FILTER  GoogleTest's filter of the tests that run with sanitizers; all run without
#   LABELS   some have a meaning:
#            tsan      the target `tsan_tests` builds the test, which runs under ThreadSanitizer
#            fuzz      the target `fuzz_tests` builds it, and `make fuzz` runs it for longer
#                      (tests/fuzz_trials.h); its name ends in _fuzz_test
#            services  it starts another project's server (Envoy, Chromium): only the
#                      target `services_tests` builds it and only `make test-services` runs it. It
#                      fails, and does not skip, where that server is not installed
# Sources find their data with the macros LONGSTREAM_SOURCE_DIR and LONGSTREAM_BINARY_DIR.
function(longstream_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;TIMEOUT;COST;SANITIZED_FILTER"
                        "SOURCES;DEPS;LABELS;ARGS")
  longstream_check_arguments(longstream_test)
  longstream_program("${arg_NAME}" "${arg_SOURCES}" "${arg_DEPS}" "${PROJECT_BINARY_DIR}/tests")
  longstream_unite(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE GTest::gmock GTest::gtest_main)
  target_compile_options(${arg_NAME} PRIVATE ${longstream_test_options})
  target_compile_definitions(${arg_NAME} PRIVATE
    LONGSTREAM_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LONGSTREAM_BINARY_DIR="${PROJECT_BINARY_DIR}")

  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  longstream_time_limit(${arg_NAME} ${arg_TIMEOUT})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" RUN_SERIAL ${arg_SERIAL})
  if(arg_COST)
    set_tests_properties(${arg_NAME} PROPERTIES COST ${arg_COST})
  endif()
  if(LONGSTREAM_SANITIZE AND arg_SANITIZED_FILTER)
    set_property(TEST ${arg_NAME} APPEND PROPERTY
                 ENVIRONMENT "GTEST_FILTER=${arg_SANITIZED_FILTER}")
  endif()
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${arg_NAME})
    if(TARGET longstream_tsan_abseil)
      target_link_libraries(${arg_NAME} PRIVATE longstream_tsan_abseil)
    endif()
  endif()
  if("fuzz" IN_LIST arg_LABELS)
    add_dependencies(fuzz_tests ${arg_NAME})
  endif()
  if("services" IN_LIST arg_LABELS)
    set_target_properties(${arg_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(services_tests ${arg_NAME})
  endif()
endfunction()

# longstream_benchmark(NAME name SOURCES ... [DEPS ...])
# Makes a Google Benchmark program in <build>/bench. `make bench` runs all programs in this folder.
# A build with sanitizers has no benchmarks, because its figures would mean nothing.
function(longstream_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;DEPS")
  longstream_check_arguments(longstream_benchmark)
  longstream_program("${arg_NAME}" "${arg_SOURCES}" "${arg_DEPS}" "${PROJECT_BINARY_DIR}/bench")
  target_link_libraries(${arg_NAME} PRIVATE benchmark::benchmark benchmark::benchmark_main)
  if(LONGSTREAM_SANITIZE)
    set_target_properties(${arg_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# longstream_install_library(longstream_<part>... [EXPORT set])
# Installs libraries and their targets with the names Longstream::<part>. Call
# longstream_install_headers to install their headers.
#   EXPORT   LongstreamTargets by default; LongstreamClientTargets is the component "client" of the
#            package, whose users also need gRPC
function(longstream_install_library)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "EXPORT" "")
  if(NOT arg_EXPORT)
    set(arg_EXPORT LongstreamTargets)
  endif()
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    string(REGEX REPLACE "^longstream_" "" part ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${part})
  endforeach()
  add_dependencies(installed ${arg_UNPARSED_ARGUMENTS})
  install(TARGETS ${arg_UNPARSED_ARGUMENTS} EXPORT ${arg_EXPORT} ARCHIVE)
  set_property(GLOBAL APPEND PROPERTY LONGSTREAM_EXPORTS ${arg_EXPORT})
endfunction()

# longstream_install_headers(header...)
# Installs headers under their paths from the repository root. The arguments are relative to the
# current directory.
function(longstream_install_headers)
  file(RELATIVE_PATH directory "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  foreach(header IN LISTS ARGV)
    cmake_path(GET header PARENT_PATH subdirectory)
    install(FILES ${header}
            DESTINATION "${LONGSTREAM_INSTALL_INCLUDE_DIR}/${directory}/${subdirectory}")
  endforeach()
endfunction()

# The rest is shared by the functions above.

# Checks the arguments of a function. Without this check, a misspelt keyword would count as a source
# file or be ignored.
macro(longstream_check_arguments function)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}(${arg_NAME}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NAME)
    message(FATAL_ERROR "${function}: NAME is missing")
  endif()
endmacro()

function(longstream_program name sources deps directory)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${deps} longstream_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${directory}")
endfunction()

# longstream_unite(target)
# Compiles several C++ sources of the target as one, if LONGSTREAM_UNITY is on in its directory. Its
# sources are divided evenly, so that two cores end together.
function(longstream_unite target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources count)
  if(NOT LONGSTREAM_UNITY OR count LESS 2)
    return()
  endif()
  math(EXPR batches "(${count} + ${longstream_unity_sources} - 1) / ${longstream_unity_sources}")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  # A batch includes its sources with their whole paths, which __FILE__ repeats. Paths from the root
  # are the same in all checkouts, so that ccache can share the objects. And GCC takes the sources
  # for headers, whose types must not have members of types of an unnamed namespace.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>"
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# Options for the tests' own code. A build with AddressSanitizer and UBSan compiles it twice as fast
# with them. AddressSanitizer finds the errors of the checks that are off, or x86 allows them.
set(longstream_test_options "")
if(LONGSTREAM_SANITIZE MATCHES "address.*undefined")
  set(longstream_test_options
      $<$<COMPILE_LANGUAGE:C,CXX>:-O0 -fno-sanitize=null,object-size,pointer-overflow,alignment,vptr>)
endif()

if(LONGSTREAM_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
  if(NOT LONGSTREAM_THIRD_PARTY_DIR)
    find_package(benchmark CONFIG REQUIRED)
  endif()
  add_custom_target(tsan_tests COMMENT "Tests that run under ThreadSanitizer")
  add_custom_target(fuzz_tests COMMENT "Tests with damaged inputs")
  add_custom_target(services_tests COMMENT "Tests against servers of other projects")
endif()
