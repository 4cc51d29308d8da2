# What `cmake --install` puts where. Everything is relocatable: no file names a folder of this machine.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/moxie)

install(TARGETS moxie_templates moxie_compiler moxie_ops moxie_runtime EXPORT moxieTargets)
install(EXPORT moxieTargets NAMESPACE moxie:: DESTINATION ${package_dir})
foreach(library compiler ops runtime)
  set_target_properties(moxie_${library} PROPERTIES EXPORT_NAME ${library})
  target_include_directories(moxie_${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/moxie>)
endforeach()

install(DIRECTORY compiler ops runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moxie FILES_MATCHING PATTERN "*.h")

foreach(plugin moxie_llvm moxie_mpi)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET moxie)
  install(TARGETS moxie)
  install(TARGETS moxie_aot EXPORT moxieTargets)
  set_target_properties(moxie_aot PROPERTIES EXPORT_NAME aot)
  install(FILES tools/aot/generator.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moxie/tools/aot)
endif()
if(TARGET moxie AND MOXIE_SHARE)
  install(DIRECTORY ${MOXIE_SHARE}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(FILES ${MOXIE_SHARE}/moxie.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME moxie)
  install(FILES ${MOXIE_SHARE}/moxie.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  # The zsh of Debian reads the second folder below /usr, and the first below /usr/local.
  install(FILES ${MOXIE_SHARE}/_moxie DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${MOXIE_SHARE}/_moxie DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()

configure_package_config_file(cmake/moxieConfig.cmake.in moxieConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(moxieConfigVersion.cmake COMPATIBILITY SameMajorVersion)
# A build tree serves as a package too, of the component `kernels`.
configure_file(cmake/moxieKernels.cmake moxieKernels.cmake COPYONLY)
install(FILES cmake/moxieKernels.cmake ${PROJECT_BINARY_DIR}/moxieConfig.cmake ${PROJECT_BINARY_DIR}/moxieConfigVersion.cmake DESTINATION ${package_dir})
# What the README links to.
install(FILES LICENSE README.md CONTRIBUTING.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(room benchmarks ops)
  install(FILES ${room}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${room})
endforeach()
