# cmake -DFILES=a.mox;b.mox -DOUTPUT=table.cpp -P embed.cmake: writes a C++ table of names (file stems, sorted) and texts.
list(SORT FILES COMPARE STRING)
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE "\\.mox$" "" name "${name}")
  file(READ "${file}" text)
  string(APPEND rows "    {\"${name}\", R\"mox(${text})mox\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"ops/op_texts.h\"

namespace moxie {
namespace {

constexpr OpText kTexts[] = {
${rows}};

}  // namespace

std::span<const OpText> op_texts() { return kTexts; }

}  // namespace moxie
")
