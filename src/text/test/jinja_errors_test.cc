// SPDX-License-Identifier: Apache-2.0
// What the engine refuses: constructs at load with their name and line, the template's own exceptions as such, and
// hostile templates within bounds of time, memory and stack.
#include <gtest/gtest.h>

#include <string>

#include "text/chat_template.h"

namespace firstlight::text {
namespace {

Status load(const std::string& source) {
  const auto out = ChatTemplate::compile(source, "t");
  return out.ok() ? ok_status() : out.status();
}

Status run(const std::string& source, const std::string& context = "{}") {
  const auto out = render_template(source, context, 0);
  return out.ok() ? ok_status() : out.status();
}

std::string times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

void expect_words(const Status& status, StatusCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& word : words) EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

TEST(JinjaErrors, RefusedConstructsFailAtLoadWithNameAndLine) {
  const StatusCode refused = StatusCode::kUnsupported;
  expect_words(load("a\n\n{% include 'x' %}"), refused, {"'t'", "line 3", "include"});
  expect_words(load("{% import 'x' as y %}"), refused, {"line 1", "import"});
  expect_words(load("{% from 'x' import y %}"), refused, {"from"});
  expect_words(load("{% extends 'x' %}"), refused, {"extends"});
  expect_words(load("{% autoescape true %}{% endautoescape %}"), refused, {"autoescape"});
  expect_words(load("x\n{{ 'a'|urlize }}"), refused, {"line 2", "urlize"});
  expect_words(load("{% if false %}{{ 'a'|xmlattr }}{% endif %}"), refused, {"xmlattr"});
  expect_words(load("{{ x.encode('utf8') }}"), refused, {"encode"});
  expect_words(load("{{ lipsum() }}"), refused, {"lipsum"});
}

TEST(JinjaErrors, SyntaxErrorsNameTheLine) {
  const StatusCode bad = StatusCode::kInvalidData;
  expect_words(load("\n{% do x %}"), bad, {"line 2", "unknown tag 'do'"});
  expect_words(load("{% if x %}\n{% endfor %}"), bad, {"line 2", "endfor"});
  expect_words(load("{{ x"), bad, {"line 1"});
  expect_words(load("{{ 1 | nope }}"), bad, {"nope"});
  expect_words(load("{{ 1 is nope }}"), bad, {"nope"});
  expect_words(load("{{ x | tojson(wrong=1) }}"), bad, {"tojson", "wrong"});
  expect_words(load("{% break %}"), bad, {"break"});
  expect_words(load("{{ '\xff' }}"), bad, {"UTF-8"});
}

TEST(JinjaErrors, TheTemplatesOwnExceptionIsItsMessageAlone) {
  const Status status = run("a\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "roles must alternate");
}

TEST(JinjaErrors, FailuresWhileRenderingNameTheLine) {
  expect_words(run("a\n{{ x.y }}"), StatusCode::kInvalidData, {"line 2", "'x' is undefined"});
  expect_words(run("\n\n{{ 1 + 'a' }}"), StatusCode::kInvalidData, {"line 3", "'int' and 'str'"});
  expect_words(run("{{ m.a.b }}", R"({"m":{}})"), StatusCode::kInvalidData, {"no attribute 'a'"});
}

TEST(JinjaErrors, DeepNestingIsRefused) {
  EXPECT_FALSE(load("{{ " + times("(", 5000) + "1" + times(")", 5000) + " }}").ok());
  EXPECT_FALSE(load("{{ " + times("[", 5000)).ok());
  EXPECT_FALSE(load("{{ " + times("not ", 5000) + "1 }}").ok());
  EXPECT_FALSE(load("{{ " + times("-", 5000) + "1 }}").ok());
  EXPECT_FALSE(load("{{ 1" + times(" + 1", 5000) + " }}").ok());
  EXPECT_FALSE(load("{{ x" + times(".a", 5000) + " }}").ok());
  EXPECT_FALSE(load("{{ x" + times("|list", 5000) + " }}").ok());
  EXPECT_FALSE(load("{{ 1" + times(" if 1 else 1", 5000) + " }}").ok());
  EXPECT_FALSE(load(times("{% if x %}", 5000) + times("{% endif %}", 5000)).ok());
}

TEST(JinjaErrors, LongChainsOfBranchesAreFine) {
  EXPECT_TRUE(run("{% if 0 %}" + times("{% elif 0 %}", 5000) + "{% endif %}").ok());
  EXPECT_TRUE(run("{{ 'a'" + times(" ~ 'a'", 5000) + " }}").ok());
}

TEST(JinjaErrors, EndlessWorkIsCutOff) {
  EXPECT_FALSE(run("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").ok());
  EXPECT_FALSE(run("{% for a in [[]] recursive %}{{ loop([[]]) }}{% endfor %}").ok());
  const std::string loop = "{% for a in range(100000) %}";
  expect_words(run(loop + loop + loop + "{% endfor %}{% endfor %}{% endfor %}"), StatusCode::kUnsupported, {"steps"});
  EXPECT_FALSE(run("{{ range(10 ** 30) }}").ok());
}

TEST(JinjaErrors, MemoryBombsAreCutOff) {
  EXPECT_FALSE(run("{{ 'a' * 10 ** 12 }}").ok());
  EXPECT_FALSE(run("{{ [1] * 10 ** 12 }}").ok());
  EXPECT_FALSE(
      run("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}")
          .ok());
  EXPECT_FALSE(
      run("{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}")
          .ok());
  EXPECT_FALSE(
      run("{% set ns = namespace(s=[]) %}{% for i in range(10000) %}{% set ns.s = [ns.s] %}{% endfor %}").ok());
  EXPECT_FALSE(run("{% set s = 'a' * 10000000 %}{{ s.replace('a', s) }}").ok());
  EXPECT_FALSE(run("{{ '%1000000000d' % 1 }}{{ '{:>1000000000}'.format(1) }}").ok());
  EXPECT_FALSE(run("{{ 'a'.center(10 ** 12) }}").ok());
  EXPECT_FALSE(run("{{ strftime_now('%999999999d') }}").ok());
}

TEST(JinjaErrors, CirclesThroughNamespacesDoNoHarm) {
  EXPECT_TRUE(run("{% set a = namespace() %}{% set a.me = a %}{% set a.l = [a, a] %}{{ a is defined }}").ok());
  EXPECT_FALSE(run("{% set a = namespace() %}{% set a.me = a %}{{ a | tojson }}").ok());
  EXPECT_TRUE(
      run("{% set n = namespace(p=none) %}{% for i in range(50000) %}{% set n.p = namespace(p=n.p) %}{% endfor %}ok")
          .ok());
}

}  // namespace
}  // namespace firstlight::text
