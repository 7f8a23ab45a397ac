// SPDX-License-Identifier: Apache-2.0
#include "server/static_files.h"

#include <gtest/gtest.h>

#include <map>

#include "base/json.h"

namespace firstlight::server {
namespace {

std::map<std::string, std::string> headers_of(const HttpResponse& response) {
  return {response.headers.begin(), response.headers.end()};
}

TEST(StaticFiles, AreFoundByTheirWholePath) {
  ASSERT_NE(find_static_file("/openapi.json"), nullptr);
  EXPECT_TRUE(parse_json(find_static_file("/openapi.json")->text).ok());
  for (const char* path :
       {"", "/openapi", "/xopenapi.json", "//openapi.json", "/page/openapi.json", "openapi.json", "/page/"}) {
    EXPECT_EQ(find_static_file(path), nullptr) << path;
  }
}

TEST(StaticFiles, HaveThePage) {
  const StaticFile* index = find_static_file("/");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index, find_static_file("/page/index.html"));
  // All that it names is there.
  for (const StaticFile& file : built_in_files()) {
    for (size_t at = file.text.find("\"page/"); at != std::string_view::npos; at = file.text.find("\"page/", at + 1)) {
      const std::string_view name = file.text.substr(at + 1, file.text.find('"', at + 1) - at - 1);
      EXPECT_NE(find_static_file("/" + std::string(name)), nullptr) << name;
    }
  }
  EXPECT_EQ(static_response(*find_static_file("/page/app.js"), "").content_type, "text/javascript; charset=utf-8");
}

TEST(StaticFiles, AreAnsweredOnceAndThenConfirmed) {
  const StaticFile file{"page/a.html", "<p>"};
  const HttpResponse whole = static_response(file, "");
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "<p>");
  EXPECT_EQ(whole.content_type, "text/html; charset=utf-8");
  const std::string tag = headers_of(whole).at("ETag");
  EXPECT_EQ(headers_of(whole).at("Cache-Control"), "no-cache");
  EXPECT_TRUE(headers_of(whole).at("Content-Security-Policy").starts_with("default-src 'none'; script-src 'self';"));
  for (const std::string& known : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const HttpResponse again = static_response(file, known);
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(headers_of(again).at("ETag"), tag);
  }
  const HttpResponse other = static_response({"page/a.html", "<b>"}, tag);
  EXPECT_EQ(other.status, 200);
  EXPECT_NE(headers_of(other).at("ETag"), tag);
}

}  // namespace
}  // namespace firstlight::server
