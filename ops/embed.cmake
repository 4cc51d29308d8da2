# cmake -DFILES=a.mox;functions/b.mox -DOUTPUT=table.cpp -P embed.cmake: writes C++ tables of names and texts, one of the
# formulas (by their stems, sorted) and one of what they share (by folder and name).
list(SORT FILES COMPARE STRING)
set(formulas "")
set(shared "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  if(file MATCHES "/functions/")
    string(APPEND shared "    {\"functions/${name}\", R\"mox(${text})mox\"},\n")
  else()
    string(REGEX REPLACE "\\.mox$" "" name "${name}")
    string(APPEND formulas "    {\"${name}\", R\"mox(${text})mox\"},\n")
  endif()
endforeach()
file(WRITE "${OUTPUT}" "#include \"ops/op_texts.h\"

namespace moxie {
namespace {

constexpr OpText kTexts[] = {
${formulas}};

constexpr OpText kSharedTexts[] = {
${shared}};

}  // namespace

std::span<const OpText> op_texts() { return kTexts; }
std::span<const OpText> shared_texts() { return kSharedTexts; }

}  // namespace moxie
")
