# Installs the build tree BUILD, moves what was installed (it must be relocatable), and configures, builds and runs the project CONSUMER with it.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR}
  -D EXAMPLES=${WORK}/installed/share/doc/moxie/examples
  -D CMAKE_PREFIX_PATH=${WORK}/installed -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -E env MOXIE_CACHE_DIR=${WORK}/cache ${WORK}/build/consumer ${DEVICE})
foreach(example train_on_csv predict_in_batches)
  run(${CMAKE_COMMAND} -E chdir ${WORK} ${CMAKE_COMMAND} -E env MOXIE_CACHE_DIR=${WORK}/cache ${WORK}/build/${example} ${DEVICE})
endforeach()
