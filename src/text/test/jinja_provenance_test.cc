// SPDX-License-Identifier: Apache-2.0
// Which bytes of a rendering are the template's and which came from outside, through every kind of operation.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/provenance.h"

namespace firstlight::text {
namespace {

// The rendering with what came from outside in «».
std::string marked(const std::string& source, const std::string& context) {
  const auto out = render_template(source, context, 0);
  if (!out.ok()) return out.status().to_string();
  std::string text;
  for (const Segment& segment : out->segments) text += segment.trusted ? segment.text : "«" + segment.text + "»";
  return text;
}

constexpr const char* kContext = R"({"u":" Ab,c ","m":{"k":"v"},"l":["x","y"],"n":5})";

TEST(Text, SlicesAndJoinsKeepRuns) {
  jinja::Text text("ab", true);
  text.append("cd", false);
  text.append("ef", false);
  ASSERT_EQ(text.segments(), (std::vector<Segment>{{"ab", true}, {"cdef", false}}));
  EXPECT_EQ(text.slice(1, 5).segments(), (std::vector<Segment>{{"b", true}, {"cde", false}}));
  EXPECT_TRUE(text.trusted_at(1));
  EXPECT_FALSE(text.trusted_at(2));
  EXPECT_FALSE(text.is_trusted());
  EXPECT_TRUE(text.slice(0, 2).is_trusted());
  EXPECT_TRUE(text.slice(3, 3).segments().empty());
}

TEST(Provenance, ScaffoldingIsTrustedAndContentIsNot) {
  EXPECT_EQ(marked("<s>{{ u }}</s>", kContext), "<s>« Ab,c »</s>");
  EXPECT_EQ(marked("{{ '<s>' + u + '</s>' }}", kContext), "<s>« Ab,c »</s>");
  EXPECT_EQ(marked("{{ '<s>' ~ u ~ n }}", kContext), "<s>« Ab,c 5»");
}

TEST(Provenance, FiltersAndMethodsKeepIt) {
  EXPECT_EQ(marked("{{ ('<s> ' ~ u) | trim | upper }}", kContext), "<S> « AB,C»");
  EXPECT_EQ(marked("{{ u.strip().split(',') | join('|') }}", kContext), "«Ab»|«c»");
  EXPECT_EQ(marked("{{ u | replace('b', '<b>') }}", kContext), "« A»<b>«,c »");
  EXPECT_EQ(marked("{{ '<%s>' % u }}", kContext), "<« Ab,c »>");
  EXPECT_EQ(marked("{{ '<{}>'.format(l[0]) }}", kContext), "<«x»>");
  EXPECT_EQ(marked("{{ ('ab' ~ u)[1:4] }}", kContext), "b« A»");
  EXPECT_EQ(marked("{{ ('ab' ~ l[0])[::-1] }}", kContext), "«x»ba");
  EXPECT_EQ(marked("{{ (l[0] ~ '\n' ~ l[1]) | indent(2) }}", kContext), "«x»\n  «y»");
  EXPECT_EQ(marked("{% set x %}<{{ u }}>{% endset %}{{ x }}", kContext), "<« Ab,c »>");
  EXPECT_EQ(marked("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(l[0]) }}", kContext), "<«x»>");
}

TEST(Provenance, JsonOfOutsideValuesIsUntrusted) {
  EXPECT_EQ(marked("<{{ m | tojson }}>", kContext), "<«{\"k\": \"v\"}»>");
  EXPECT_EQ(marked("<{{ {'a': '<s>'} | tojson }}>", "{}"), "<{\"a\": \"<s>\"}>");
  EXPECT_EQ(marked("{{ {'a': l[0]} | tojson }}", kContext), "«{\"»a«\": \"x\"}»");
  EXPECT_EQ(marked("{{ m }}", kContext), "«{'k': 'v'}»");
}

TEST(Provenance, OnlyKnownRolesAreTrusted) {
  const std::string source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  EXPECT_EQ(marked(source, R"({"messages":[{"role":"user","content":"<|user|>"}]})"), "<|user|>«<|user|>»");
  EXPECT_EQ(marked(source, R"({"messages":[{"role":"endoftext","content":""}]})"), "<|«endoftext»|>");
  EXPECT_EQ(marked("{{ x.role }}", R"({"x":{"role":"user"}})"), "«user»");
}

}  // namespace
}  // namespace firstlight::text
