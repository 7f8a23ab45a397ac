# Run at build time (cmake -P): writes OUTPUT, a source that holds every .EXTENSION file under DIRECTORY as a raw string,
# so that the program needs no files beside it: `const std::vector<EmbeddedFile>& embedded_files()` of firstlight::MODULE,
# declared in HEADER. Raw strings are cut at 8,000 characters, which every compiler takes.
file(GLOB_RECURSE files RELATIVE ${DIRECTORY} ${DIRECTORY}/*.${EXTENSION})
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  file(READ ${DIRECTORY}/${file} text)
  string(APPEND entries "      {\"${file}\",\n")
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 8000 part)
    string(APPEND entries "       R\"lua~(${part})lua~\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND entries "      },\n")
endforeach()
get_filename_component(room ${DIRECTORY} NAME)
file(WRITE ${OUTPUT} "// Generated from ${room}/ by cmake/embed_specs.cmake.
#include \"${HEADER}\"

namespace firstlight::${MODULE} {

const std::vector<EmbeddedFile>& embedded_files() {
  static const std::vector<EmbeddedFile> files = {
${entries}  };
  return files;
}

}  // namespace firstlight::${MODULE}
")
