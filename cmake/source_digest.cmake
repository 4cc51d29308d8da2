# Writes OUTPUT, a source file with a digest of the files that are listed in the file LIST, one a line.
file(STRINGS "${LIST}" files)
set(digests "")
foreach(file IN LISTS files)
  file(SHA256 "${file}" digest)
  string(APPEND digests "${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "namespace moxie {\nextern const char* const kPlannerDigest;\nconst char* const kPlannerDigest = \"${digest}\";\n}\n")
