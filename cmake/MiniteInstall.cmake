# Installs the library, the command and the package files behind find_package(minite).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS minite EXPORT miniteTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS minite_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/minite DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT miniteTargets NAMESPACE minite:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/minite)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/minite-config.cmake.in
  ${PROJECT_BINARY_DIR}/minite-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/minite)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/minite-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/minite-config.cmake ${PROJECT_BINARY_DIR}/minite-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake ${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/minite)
