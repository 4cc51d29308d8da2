# Writes OUTPUT, a source file with the commit of the sources in SOURCE. The file is left alone where it says so already.
execute_process(
  COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=40 --exclude=*
  OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
)
if(NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "namespace moxie {\nextern const char* const kCommit = \"${commit}\";\n}\n")
