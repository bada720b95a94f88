# longstream_embed(source directory file...)
# Makes a C++ source with the names and texts of files, which are relative to the directory: the rows
# of a table (gateway/page/page_files.cc). Run as a script (-P), this file writes the source.
function(longstream_embed source directory)
  if(NOT ARGN)
    message(FATAL_ERROR "longstream_embed: ${directory} has no files")
  endif()
  list(TRANSFORM ARGN PREPEND "${directory}/" OUTPUT_VARIABLE paths)
  string(JOIN "|" names ${ARGN})
  add_custom_command(OUTPUT "${source}"
    COMMAND ${CMAKE_COMMAND} -D "SOURCE=${source}" -D "DIRECTORY=${directory}" -D "NAMES=${names}"
            -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    DEPENDS ${paths} "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    VERBATIM)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "|" ";" names "${NAMES}")
  set(rows "")
  foreach(name IN LISTS names)
    file(READ "${DIRECTORY}/${name}" text)
    string(APPEND rows "{\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  file(WRITE "${SOURCE}" "${rows}")
endif()
