// SPDX-License-Identifier: Apache-2.0
// render: the prompt of a chat, by the model's template, its spec, or a template file.
#include <cstdio>
#include "adapt/text_assets.h"
#include "base/file_map.h"
#include "base/json.h"
#include "cli/chat_formats.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "text/chat_template.h"

namespace firstlight::cli {
namespace {

Result<Json> read_json(const std::string& path) { return parse_json(FL_TRY(read_text_file(path))).with_context(path); }

Result<text::RenderedPrompt> render_by(const text::ChatRenderer& renderer, const text::ChatContext& context,
                                       const RenderFlags& flags) {
  return flags.continue_final_message ? text::render_continuation(renderer, context) : renderer.render(context);
}

// A template file's answers, by what stands in it.
Result<text::ChatFormat> format_of(const std::string& source) {
  return text::recognise_chat_format(FL_TRY(text::shipped_chat_formats()), {source, nullptr});
}

// The prompt, and how its answer is read.
Result<text::RenderedPrompt> render(const CommonFlags& common, const RenderFlags& flags, text::ChatFormat& format) {
  if (!flags.template_file.empty() && !flags.context.empty()) {
    if (flags.continue_final_message || !common.chat_variables.empty()) {
      return invalid_argument(
          "--context shows the template all it gets: no --chat-variables, --continue-final-message");
    }
    const std::string source = FL_TRY(read_text_file(flags.template_file));
    format = FL_TRY(format_of(source));
    return text::render_template(source, FL_TRY(read_text_file(flags.context)));
  }
  if (flags.messages.empty()) return invalid_argument("--messages, or --template with --context, wanted");
  text::ChatContext context;
  context.messages = FL_TRY(read_json(flags.messages));
  if (!flags.tools.empty()) context.tools = FL_TRY(read_json(flags.tools));
  context.add_generation_prompt = !flags.no_generation_prompt;
  if (!common.chat_variables.empty()) {
    context.variables = FL_TRY(parse_json(common.chat_variables).with_context("--chat-variables"));
  }
  if (!flags.template_file.empty()) {
    const std::string source = FL_TRY(read_text_file(flags.template_file));
    format = FL_TRY(format_of(source));
    return render_by(FL_TRY(text::ChatTemplate::compile(source, flags.template_file)), context, flags);
  }
  if (common.model.empty()) return invalid_argument("MODEL, or --template, wanted");
  const bool gguf = common.model.ends_with(".gguf");
  std::optional<formats::Checkpoint> checkpoint;
  if (gguf) checkpoint = FL_TRY(formats::Checkpoint::open(common.model));
  const adapt::TextAssets assets =
      adapt::load_text_assets(common.model, gguf ? &*checkpoint : nullptr, FL_TRY(text_options(common)));
  const auto& chosen =
      !context.tools.is_null() && assets.tool_chat_template ? assets.tool_chat_template : assets.chat_template;
  if (!chosen) return invalid_data(common.model + ": no usable chat template: " + assets.chat_template_error);
  context.special_tokens = assets.special_tokens;
  if (common.json) format = FL_TRY(choose_chat_format(assets, "auto"));
  return render_by(*chosen, context, flags);
}

}  // namespace

Result<int> verb_render(const CommonFlags& common, const RenderFlags& flags) {
  text::ChatFormat format;
  const text::RenderedPrompt prompt = FL_TRY(render(common, flags, format));
  if (common.json) {
    Json segments = Json::array();
    for (const text::Segment& segment : prompt.segments) {
      segments.push_back({{"text", segment.text}, {"trusted", segment.trusted}});
    }
    const std::string end = prompt.trusted_end();
    const std::string_view close = format.open_thought(end);
    print_json({{"text", prompt.text()},
                {"thinking_open", !close.empty()},
                {"thinking_close_tag", close.empty() ? Json() : Json(close)},
                {"segments", std::move(segments)}});
  } else {
    std::printf("%s", prompt.text().c_str());
  }
  return 0;
}

}  // namespace firstlight::cli
