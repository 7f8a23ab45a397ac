# Run at build time (cmake -P): writes OUTPUT, the C++ source of FILE (under DIRECTORY, in the dialect) as a module of the simt
# device, with DEFINES (NAME=VALUE, separated by commas; \"-\" for none). Its symbol is fl_simt_module_<SYMBOL>. The order
# of the parts is that of device/assemble.cc.
include(${CMAKE_CURRENT_LIST_DIR}/dialect_text.cmake)
dialect_text(${DIRECTORY} ${FILE} text)
set(code "${text}")
string(REGEX REPLACE "//[^\n]*" "" code "${code}")
string(REGEX REPLACE "#[^\n]*(\\\\\n[^\n]*)*" "" code "${code}")
string(REGEX MATCHALL "FL_KERNEL\\( *[A-Za-z0-9_]+ *\\)" kernels "${code}")
set(defines "")
if(NOT DEFINES STREQUAL "-")
  string(REPLACE "," ";" list "${DEFINES}")
  foreach(define IN LISTS list)
    string(REGEX MATCH "^([^=]*)=(.*)$" whole "${define}")
    string(APPEND defines "#define ${CMAKE_MATCH_1} ${CMAKE_MATCH_2}\n")
  endforeach()
endif()
set(entries "")
set(count 0)
foreach(kernel IN LISTS kernels)
  string(REGEX REPLACE "FL_KERNEL\\( *([A-Za-z0-9_]+) *\\)" "\\1" name "${kernel}")
  string(APPEND entries "    {\"${name}\", fl_run<&${name}>},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "// Generated from ${FILE} by cmake/simt_module.cmake.
#include \"device/dialect/simt.fl.h\"
#include \"device/dialect/simt.fl.cl\"
#include \"device/dialect/core.fl.cl\"
${defines}#line 1 \"${FILE}\"
${text}
static const fl_simt_kernel fl_simt_kernels[] = {
${entries}};
extern \"C\" const fl_simt_module fl_simt_module_${SYMBOL};
const fl_simt_module fl_simt_module_${SYMBOL} = {FL_SIMT_VERSION, 0, ${count}, fl_simt_kernels};
")
