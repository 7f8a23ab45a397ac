// SPDX-License-Identifier: Apache-2.0
// Every small template of data/jinja_units.json gives what Jinja2 gave (tools/golden/templates.py units), or fails
// where it failed. The cases go through all operators, statements, filters, tests, methods and their corner cases.
#include <gtest/gtest.h>

#include <string>

#include "base/file_map.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace firstlight::text {
namespace {

constexpr int64_t kFrozen = 1752148800;  // 2025-07-10 12:00:00 UTC

TEST(JinjaUnits, GiveWhatJinja2Gives) {
  const auto text = read_text_file(std::string(FL_SOURCE_DIR) + "/src/text/test/data/jinja_units.json");
  ASSERT_TRUE(text.ok());
  const auto units = parse_json(*text);
  ASSERT_TRUE(units.ok());
  size_t compared = 0;
  for (const Json& unit : (*units)["cases"]) {
    const std::string source = unit["template"].get<std::string>();
    const Json context = unit.contains("context") ? unit["context"] : Json::object();
    const auto out = render_template(source, dump_json(context), kFrozen);
    ++compared;
    if (unit.contains("error")) {
      EXPECT_FALSE(out.ok()) << source << "\n gave " << (out.ok() ? out->text() : "");
      continue;
    }
    ASSERT_TRUE(out.ok()) << source << "\n" << out.status().to_string();
    EXPECT_EQ(out->text(), unit["expected"].get<std::string>()) << source;
  }
  EXPECT_GT(compared, 400U);
}

}  // namespace
}  // namespace firstlight::text
