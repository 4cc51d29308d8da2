# Configures, builds and runs the project CONSUMER, which gets kernels from moxie, with the given OPTIONS, separated by |; it must print WANTED. With
# INSTALL, the build tree BUILD is installed first. RUNNER runs programs of another machine.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
string(REPLACE "|" ";" OPTIONS "${OPTIONS}")
if(INSTALL)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
  file(RENAME ${WORK}/first ${WORK}/installed)
  list(APPEND OPTIONS -D CMAKE_PREFIX_PATH=${WORK}/installed)
endif()
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} ${OPTIONS})
run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer)
execute_process(COMMAND ${RUNNER} ${WORK}/build/consumer OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed STREQUAL "${WANTED}\n")
  message(FATAL_ERROR "the program printed '${printed}', but '${WANTED}' was wanted")
endif()
