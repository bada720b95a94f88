# Builds GoogleTest and the JSON library from sources, for machines without their packages. A tree
# that tools/gpu/pack.sh has packed for a GPU machine is built in this way. find_package then finds
# these two libraries. Tests and benchmarks that need other packages are left out.
set(LONGSTREAM_THIRD_PARTY_DIR "" CACHE PATH
    "Directory with googletest/ and nlohmann/; empty: installed packages")
if(NOT LONGSTREAM_THIRD_PARTY_DIR)
  return()
endif()

foreach(needed googletest/CMakeLists.txt nlohmann/json.hpp)
  if(NOT EXISTS "${LONGSTREAM_THIRD_PARTY_DIR}/${needed}")
    message(FATAL_ERROR "LONGSTREAM_THIRD_PARTY_DIR: there is no ${needed} in "
                        "'${LONGSTREAM_THIRD_PARTY_DIR}'")
  endif()
endforeach()

set(INSTALL_GTEST OFF)
add_subdirectory("${LONGSTREAM_THIRD_PARTY_DIR}/googletest" third_party/googletest
                 EXCLUDE_FROM_ALL SYSTEM)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE
                           "${LONGSTREAM_THIRD_PARTY_DIR}")

# Write package files to this directory, which find_package searches first.
foreach(package GTest nlohmann_json)
  file(WRITE "${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${package}Config.cmake"
       "set(${package}_FOUND TRUE)\n")
endforeach()
