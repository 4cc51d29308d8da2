# Makes the Debian package of the build tree BUILD and the tarball of its sources in WORK; the packaged program must run, and the tarball holds a project
# of this VERSION.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BUILD} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CPACK} -G DEB -B ${WORK})
file(GLOB package ${WORK}/*.deb)
run(${DPKG_DEB} -x ${package} ${WORK}/root)
file(WRITE ${WORK}/y.mox "dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n")
run(${CMAKE_COMMAND} -E env MOXIE_CACHE_DIR=${WORK}/cache ${WORK}/root/usr/bin/moxie check ${WORK}/y.mox)

# Shells and man find these there.
foreach(file man/man1/moxie.1 man/man1/moxie-train.1 bash-completion/completions/moxie fish/vendor_completions.d/moxie.fish zsh/vendor-completions/_moxie)
  file(SIZE ${WORK}/root/usr/share/${file} size)
  if(size EQUAL 0)
    message(FATAL_ERROR "the package's ${file} is empty")
  endif()
endforeach()

# Links of the installed README lead somewhere.
set(documents ${WORK}/root/usr/share/doc/moxie)
file(READ ${documents}/README.md readme)
string(REGEX REPLACE "[][]" "" plain "${readme}")  # brackets would join the elements of lists
string(REGEX MATCHALL "\\([a-zA-Z][a-zA-Z-]*(/[a-z-]+)?(\\.md)?\\)" links "${plain}")
foreach(link ${links})
  string(REGEX REPLACE "[()]" "" path ${link})
  if(path MATCHES "[/.]|^examples$|^ops$|^benchmarks$" AND NOT EXISTS ${documents}/${path})
    message(FATAL_ERROR "the installed README.md links to ${path}, which is not installed")
  endif()
endforeach()

run(${CPACK} --config CPackSourceConfig.cmake -B ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -E tar tzf ${WORK}/moxie-${VERSION}.tar.gz OUTPUT_VARIABLE files COMMAND_ERROR_IS_FATAL ANY)
if(NOT files MATCHES "moxie-${VERSION}/CMakeLists.txt\n" OR files MATCHES "\\.git/|/build/")
  message(FATAL_ERROR "the tarball holds other files than the sources")
endif()
