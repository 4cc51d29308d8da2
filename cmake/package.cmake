# Packages: `cpack -G DEB` in a build folder makes a Debian package of what `cmake --install` installs, and
# `cpack --config CPackSourceConfig.cmake` a tarball of the sources.
set(CPACK_PACKAGE_NAME ${PROJECT_NAME})
set(CPACK_PACKAGE_CONTACT "the moxie authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for formulas in index notation and their derivatives")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)

# Libraries that the program is linked with become dependencies. The LLVM library is found by the plugin's.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopenblas0, libdnnl2")

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME ${PROJECT_NAME}-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/\\\\.git" "/\\\\.cache/" "/build[^/]*/" "/__pycache__/" "\\\\.o$")
include(CPack)
