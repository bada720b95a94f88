# Installs the package: find_package(Longstream) then gives Longstream::backend_api,
# Longstream::kernels_cpu and longstream_plugin(), and with COMPONENTS client Longstream::client. The
# modules install their own binaries, plugins, libraries and headers.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Longstream")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/LongstreamConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/LongstreamConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  PATH_VARS LONGSTREAM_INSTALL_PLUGIN_DIR)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/LongstreamConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/LongstreamConfig.cmake"
              "${PROJECT_BINARY_DIR}/LongstreamConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/LongstreamPlugin.cmake"
              "${PROJECT_SOURCE_DIR}/backends/api/export.map"
        DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

get_property(exports GLOBAL PROPERTY LONGSTREAM_EXPORTS)
list(REMOVE_DUPLICATES exports)
foreach(export IN LISTS exports)
  install(EXPORT ${export} NAMESPACE Longstream:: DESTINATION "${package_dir}")
endforeach()
