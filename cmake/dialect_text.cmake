# dialect_text(DIRECTORY FILE OUT): the text of a .fl.cl file with every #include "x.fl.h" replaced by that file's text.
function(dialect_text DIRECTORY FILE OUT)
  file(READ ${DIRECTORY}/${FILE} text)
  while("${text}" MATCHES "#include \"([a-z0-9_/]+\\.fl\\.h)\"\n")
    file(READ ${DIRECTORY}/${CMAKE_MATCH_1} included)
    string(REPLACE "#include \"${CMAKE_MATCH_1}\"\n" "${included}" text "${text}")
  endwhile()
  set(${OUT} "${text}" PARENT_SCOPE)
endfunction()
