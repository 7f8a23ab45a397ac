// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_formats.h"

#include <algorithm>

#include "base/file_map.h"
#include "text/chat_renderer.h"

namespace firstlight::cli {
namespace {

constexpr size_t kMaxFormatBytes = size_t{1} << 20;

Json sample_messages(bool with_call) {
  Json messages = Json::array({{{"role", "user"}, {"content", "a"}}});
  if (!with_call) return messages;
  const Json function = {{"name", "f"}, {"arguments", {{"x", 1}}}};
  messages.push_back(
      {{"role", "assistant"},
       {"content", "b"},
       {"reasoning_content", "c"},
       {"tool_calls", Json::array({{{"id", "call00000"}, {"type", "function"}, {"function", function}}})}});
  return messages;
}

// "" where the model has no prompts for it.
std::string render_sample(const adapt::TextAssets& assets, bool with_call, Json variables) {
  const auto& renderer = with_call && assets.tool_chat_template ? assets.tool_chat_template : assets.chat_template;
  if (renderer == nullptr) return "";
  text::ChatContext context;
  context.messages = sample_messages(with_call);
  context.add_generation_prompt = !with_call;
  context.variables = std::move(variables);
  context.special_tokens = assets.special_tokens;
  context.now_unix_s = 0;
  if (with_call) {
    const Json parameters = {{"type", "object"}, {"properties", {{"x", {{"type", "integer"}}}}}};
    const Json function = {{"name", "f"}, {"description", "d"}, {"parameters", parameters}};
    context.tools = Json::array({{{"type", "function"}, {"function", function}}});
  }
  const auto rendered = renderer->render(context);
  return rendered.ok() ? rendered->text() : "";
}

// Leaves the variables that change a prompt. Levels may do so only while thinking is on.
void keep_known_effort(const adapt::TextAssets& assets, text::ChatFormat& format) {
  Json on = Json::object(), off = Json::object();
  std::erase_if(format.effort_switches, [&](const std::string& name) {
    return render_sample(assets, false, {{name, true}}) == render_sample(assets, false, {{name, false}});
  });
  for (const std::string& name : format.effort_switches) on[name] = true;
  std::erase_if(format.effort_levels, [&](const std::string& name) {
    Json low = on, high = on;
    low[name] = "low";
    high[name] = "high";
    return render_sample(assets, false, low) == render_sample(assets, false, high);
  });
}

}  // namespace

Result<text::ChatFormat> choose_chat_format(const adapt::TextAssets& assets, const std::string& wanted) {
  if (wanted == "none") return text::ChatFormat();
  const auto files = FL_TRY(text::shipped_chat_formats());
  const std::string text = assets.chat_template_text + render_sample(assets, true, Json::object());
  const text::ChatFormatClues clues{text, assets.tokenizer ? &*assets.tokenizer : nullptr};
  text::ChatFormat format;
  if (wanted.empty() || wanted == "auto") {
    format = text::recognise_chat_format(files, clues);
  } else if (wanted.ends_with(".toml")) {
    const std::string toml = FL_TRY(read_text_file(wanted, kMaxFormatBytes));
    format = text::forced_chat_format(FL_TRY(text::read_chat_format(toml, wanted)), files, clues);
  } else {
    const auto named =
        std::ranges::find_if(files, [&](const text::ChatFormatFile& file) { return file.format.name == wanted; });
    if (named == files.end()) {
      std::string names;
      for (const text::ChatFormatFile& file : files) names += ", " + file.format.name;
      return invalid_argument("--chat-format " + wanted +
                              ": auto, none, a .toml file or one of these wanted: " + names.substr(2));
    }
    format = text::forced_chat_format(*named, files, clues);
  }
  keep_known_effort(assets, format);
  return format;
}

}  // namespace firstlight::cli
