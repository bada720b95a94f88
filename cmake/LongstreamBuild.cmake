# Settings for all targets: language version, visibility, warnings, sanitizers, ccache.
include(GNUInstallDirs)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Static libraries need position-independent code, because plugins link them. Symbols are hidden,
# because a plugin exports only one symbol.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

set(LONGSTREAM_INSTALL_PLUGIN_DIR "${CMAKE_INSTALL_LIBDIR}/longstream/plugins")
set(LONGSTREAM_INSTALL_INCLUDE_DIR "${CMAKE_INSTALL_INCLUDEDIR}/longstream")

find_program(LONGSTREAM_CCACHE ccache)
mark_as_advanced(LONGSTREAM_CCACHE)
if(LONGSTREAM_CCACHE)
  # ccache hashes paths below the root as relative paths, so that all checkouts share compiled
  # objects. As a consequence, debug information may name the directory of another checkout.
  set(LONGSTREAM_LAUNCHER
    "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=true
    CCACHE_ABSSTDERR=true)
  # In depend mode ccache hashes the files that the compiler reads. Otherwise it would hash the
  # output of `nvcc -E`. That output has the code of one architecture only, so ccache would miss
  # changes for the others.
  set(LONGSTREAM_LAUNCHER_OPTIONS_CUDA CCACHE_DEPEND=true)
  foreach(language C CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER AND
       NOT DEFINED ENV{CMAKE_${language}_COMPILER_LAUNCHER})
      set(CMAKE_${language}_COMPILER_LAUNCHER
        ${LONGSTREAM_LAUNCHER} ${LONGSTREAM_LAUNCHER_OPTIONS_${language}} "${LONGSTREAM_CCACHE}")
    endif()
  endforeach()
endif()

# Most of the time of a build is spent on headers. A batch of sources reads each header once.
option(LONGSTREAM_UNITY "Compile several sources as one; OFF to work on a few sources" ON)
set(longstream_unity_sources 8)  # at most so many in a batch

option(LONGSTREAM_WARNINGS_AS_ERRORS "OFF for compilers that the project does not test" ON)
add_library(longstream_warnings INTERFACE)
target_compile_options(longstream_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${LONGSTREAM_WARNINGS_AS_ERRORS}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast>
  # GCC 12 warns about an overlap inside std::string::operator+ that cannot happen (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)

if(LONGSTREAM_SANITIZE)
  add_compile_options(-fsanitize=${LONGSTREAM_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${LONGSTREAM_SANITIZE})
endif()

include(LongstreamCuda)
