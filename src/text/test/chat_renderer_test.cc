// SPDX-License-Identifier: Apache-2.0
#include "text/chat_renderer.h"

#include <gtest/gtest.h>

#include "text/chat_template.h"

namespace firstlight::text {
namespace {

std::string continued(const std::string& source, const std::string& messages) {
  const auto renderer = ChatTemplate::compile(source, "test");
  EXPECT_TRUE(renderer.ok());
  const auto prompt = render_continuation(*renderer, {.messages = parse_json(messages).value()});
  return prompt.ok() ? prompt->text() : prompt.status().message();
}

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}{% if add_generation_prompt "
    "%}<assistant>{% endif %}";

TEST(RenderContinuation, EndsWithTheWordsOfTheLastMessage) {
  EXPECT_EQ(continued(kTemplate, R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "end b "}])"),
            "<user>a<end><assistant>end b ");
  EXPECT_EQ(continued(kTemplate, R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}])"),
            "<user>a<end><assistant>");
  EXPECT_EQ(continued(kTemplate, R"([{"role": "assistant", "content": "qZcontinueZq"}])"), "<assistant>qZcontinueZq");
}

TEST(RenderContinuation, RefusesWhatCannotBeContinued) {
  EXPECT_NE(continued(kTemplate, "[]").find("no message"), std::string::npos);
  EXPECT_NE(continued(kTemplate, R"([{"role": "user", "content": "a"}])").find("messages[0]: an assistant's"),
            std::string::npos);
  EXPECT_NE(continued(kTemplate, R"([{"role": "assistant", "content": null}])").find("only text"), std::string::npos);
  EXPECT_NE(
      continued(kTemplate, R"([{"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f"}}]}])")
          .find("only text"),
      std::string::npos);
  const char* const message = R"([{"role": "assistant", "content": "a"}])";
  EXPECT_NE(continued("{{ messages[0].role }}", message).find("cannot be continued"), std::string::npos);
  EXPECT_NE(continued("{{ messages[0].content }}{{ messages[0].content }}", message).find("cannot be continued"),
            std::string::npos);
}

}  // namespace
}  // namespace firstlight::text
