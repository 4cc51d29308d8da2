# A script: writes OUT, which is IN with the FILES of FOLDER (a list of paths within it, separated by |) as a table of paths and texts.
string(REPLACE "|" ";" FILES "${FILES}")
set(MOXIE_TEMPLATES "")
foreach(file IN LISTS FILES)
  file(READ ${FOLDER}/${file} text)
  string(APPEND MOXIE_TEMPLATES "    {\"${file}\", R\"template(${text})template\"},\n")
endforeach()
configure_file(${IN} ${OUT} @ONLY)
