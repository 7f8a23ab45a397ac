// SPDX-License-Identifier: Apache-2.0
// Files that are built into the program: the page at / (page/) and the description of the API (openapi.json). They are
// answered whether or not a model is ready.
#pragma once

#include <span>
#include <string_view>

#include "server/http.h"

namespace firstlight::server {

struct StaticFile {
  std::string_view name;  // below src/server
  std::string_view text;
};

std::span<const StaticFile> built_in_files();

// "/" is page/index.html, "/page/NAME" another file of page/, "/openapi.json" itself. nullptr: there is none.
const StaticFile* find_static_file(std::string_view path);

// 200 with the text, or 304 where the client has it already (`if_none_match` names its tag). A browser that shows it
// loads nothing from elsewhere.
HttpResponse static_response(const StaticFile& file, std::string_view if_none_match);

}  // namespace firstlight::server
