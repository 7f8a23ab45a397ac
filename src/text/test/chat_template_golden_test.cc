// SPDX-License-Identifier: Apache-2.0
// Real chat templates against Jinja2 in transformers' environment: every template under ../shared/data over the
// contexts of data/chat_contexts.json, by length and hash of the text (tools/golden/templates.py contexts), and the
// published test vectors of other engines as far as Jinja2 agrees with them.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/file_map.h"
#include "base/json.h"
#include "text/chat_template.h"

namespace firstlight::text {
namespace {

constexpr int64_t kFrozen = 1752148800;  // 2025-07-10 12:00:00 UTC

std::string shared(const std::string& path) { return std::string(FL_SOURCE_DIR) + "/../shared/data/" + path; }

Json read(const std::string& path) {
  const auto text = read_text_file(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? parse_json(*text).value() : Json();
}

std::string fingerprint(const std::string& text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  char out[40];
  std::snprintf(out, sizeof out, "%zu:%016llx", text.size(), static_cast<unsigned long long>(hash));
  return out;
}

std::string template_text(const std::string& name) {
  if (!name.ends_with(".json")) return read_text_file(shared(name)).value();
  return read(shared(name))["chat_template"].get<std::string>();
}

TEST(ChatTemplateGolden, EveryTemplateGivesTheTextOfJinja2) {
  if (!std::filesystem::exists(shared("templates"))) GTEST_SKIP() << "needs shared data: templates";
  const std::string data = std::string(FL_SOURCE_DIR) + "/src/text/test/data/";
  const Json contexts = read(data + "chat_contexts.json")["cases"];
  const Json hashes = read(data + "chat_template_hashes.json");
  size_t texts = 0;
  for (const auto& [name, cells] : hashes["templates"].items()) {
    const std::string source = template_text(name);
    ASSERT_EQ(cells.size(), contexts.size());
    for (size_t i = 0; i < contexts.size(); ++i) {
      const auto out = render_template(source, dump_json(contexts[i]["context"]), kFrozen);
      const std::string got = out.ok() ? fingerprint(out->text()) : "error";
      EXPECT_EQ(got, cells[i].get<std::string>())
          << name << " over " << contexts[i]["name"] << (out.ok() ? "" : ": " + out.status().to_string());
      texts += out.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(texts, 2000U);
}

void check_vectors(const std::string& file, const char* expected, size_t at_least) {
  const std::string path = shared("goldens/" + file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs shared data: goldens/" << file;
  const Json vectors = read(path);
  size_t compared = 0;
  for (const Json& entry : vectors["cases"]) {
    if (entry["python_jinja2_agrees"] != true) continue;
    const auto out = render_template(entry["template"].get<std::string>(), dump_json(entry["context"]), kFrozen);
    ASSERT_TRUE(out.ok()) << entry["name"] << ": " << out.status().to_string();
    EXPECT_EQ(out->text(), entry[expected].get<std::string>()) << entry["name"];
    ++compared;
  }
  EXPECT_GE(compared, at_least);
}

TEST(ChatTemplateGolden, HuggingfaceJsChats) { check_vectors("hfjs_chat_goldens.json", "expected", 31); }
TEST(ChatTemplateGolden, HuggingfaceJsUnits) { check_vectors("hfjs_jinja_units.json", "expected", 71); }
TEST(ChatTemplateGolden, LlamaCppChats) { check_vectors("llamacpp_chat_goldens.json", "expected_jinja", 21); }
TEST(ChatTemplateGolden, LlamaCppUnits) { check_vectors("llamacpp_jinja_units.json", "expected", 87); }

}  // namespace
}  // namespace firstlight::text
