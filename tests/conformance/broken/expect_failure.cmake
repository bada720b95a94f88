# Runs the conformance kit on a broken plugin. Passes only if the kit reports a failure of every
# check in CHECKS:
# cmake -D KIT=... -D PLUGIN=... -D MODEL=... -D OTHER_MODEL=... -D CHECKS=a,b -P <this file>
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND "${KIT}" "${PLUGIN}" "${MODEL}" --other-model "${OTHER_MODEL}"
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failures)
message("${output}")

string(REGEX MATCHALL "FAILED +[a-z_.]+" failed "${output}")
list(TRANSFORM failed REPLACE "FAILED +" "")
list(LENGTH failed count)
if(count EQUAL 0 OR NOT failures STREQUAL count)
  message(FATAL_ERROR "exit code ${failures}, failed checks: ${failed}")
endif()
string(REPLACE "," ";" expected "${CHECKS}")
foreach(check IN LISTS expected)
  if(NOT check IN_LIST failed)
    message(FATAL_ERROR "${check} did not fail")
  endif()
endforeach()
