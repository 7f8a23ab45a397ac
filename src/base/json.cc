// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>

namespace firstlight {

Result<Json> parse_json(std::string_view text, int max_depth) {
  int deepest = 0;
  const auto watch_depth = [&](int depth, Json::parse_event_t event, const Json&) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      deepest = std::max(deepest, depth + 1);
    }
    return deepest <= max_depth;  // deeper values are dropped unread
  };
  try {
    Json value = Json::parse(text.begin(), text.end(), watch_depth);
    if (deepest > max_depth) {
      return invalid_data("JSON nested " + std::to_string(deepest) + " deep, at most " + std::to_string(max_depth) +
                          " wanted");
    }
    return value;
  } catch (const Json::exception& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    return invalid_data("JSON: " + what);
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace firstlight
