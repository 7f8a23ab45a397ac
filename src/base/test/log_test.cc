// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in(read_text_file(path).value());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string fresh_path(const std::string& name) {
  const std::string path = ::testing::TempDir() + "fl_log_" + name;
  std::remove(path.c_str());
  return path;
}

TEST(Log, KeepsTheLevelAndOneLinePerMessage) {
  const std::string path = fresh_path("text");
  {
    const Log log = Log::open({.level = LogLevel::kInfo, .file_path = path}).value();
    log_debug(&log, "not this");
    log_info(&log, "percent %d and {} stay as they are");
    log_error(&log, "forged\n00:00:00.000 info line\x01");
    EXPECT_FALSE(log.is_on(LogLevel::kDebug));
    EXPECT_FALSE(log.is_on(LogLevel::kOff));
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("info percent %d and {} stay as they are"), std::string::npos);
  EXPECT_NE(lines[1].find("error forged\\n00:00:00.000 info line\\u0001"), std::string::npos);
}

TEST(Log, JsonLinesParse) {
  const std::string path = fresh_path("json");
  const std::string nasty = "a \"quoted\" \\ path\tand\nlines \xc3\xa9";
  {
    const Log log = Log::open({.level = LogLevel::kDebug, .json = true, .file_path = path}).value();
    log_warn(&log, nasty);
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 1u);
  const Json line = parse_json(lines[0]).value();
  EXPECT_EQ(line["message"].get<std::string>(), nasty);
  EXPECT_EQ(line["level"].get<std::string>(), "warning");
  EXPECT_TRUE(line.contains("time"));
}

TEST(Log, NoLogIsFine) { log_info(nullptr, "nobody listens"); }

TEST(Log, BadLevelAndBadFileAreNamed) {
  EXPECT_EQ(parse_log_level("warn").value(), LogLevel::kWarn);
  EXPECT_NE(parse_log_level("loud").status().message().find("'loud'"), std::string::npos);
  const auto log = Log::open({.file_path = "/dev/null/no/such/file"});
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(log.status().message().find("/dev/null/no/such/file"), std::string::npos);
}

}  // namespace
}  // namespace firstlight
