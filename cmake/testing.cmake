# What every test has, wherever it is declared: a time limit, and an exit code by which it says that it cannot run here.
set(MOXIE_TEST_TIMEOUT 900 CACHE STRING "Seconds after which ctest ends a test; with sanitizers give more")

# moxie_add_test(NAME name COMMAND command...): as add_test.
function(moxie_add_test)
  cmake_parse_arguments(arg "" "NAME" "" ${ARGN})
  add_test(${ARGN})
  set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${MOXIE_TEST_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# moxie_skipped_test(NAME reason): a test that cannot run on this machine, so that the log says so.
function(moxie_skipped_test name reason)
  # Without a semicolon, which would end an argument here.
  moxie_add_test(NAME ${name} COMMAND sh -c "echo 'skipped: ${reason}' && exit 77")
endfunction()
