# What `cmake --install` puts where, and the package that find_package(phidias) finds there.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS phidias EXPORT phidias
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/phidias" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(phidias_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/phidias)
install(EXPORT phidias NAMESPACE phidias:: FILE PhidiasTargets.cmake DESTINATION ${phidias_package_folder})
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/PhidiasConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/phidias-config.cmake" INSTALL_DESTINATION ${phidias_package_folder})
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/phidias-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/phidias-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/phidias-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/Dependencies.cmake"
  DESTINATION ${phidias_package_folder})
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY.md"
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
