// SPDX-License-Identifier: Apache-2.0
#include "adapt/text_assets.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "adapt/gguf_text.h"
#include "base/file_map.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/hf_directory.h"
#include "intake/spec_renderer.h"
#include "text/chat_template.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;

void set_tokenizer(TextAssets& assets, Result<text::Tokenizer> tokenizer, std::string source) {
  assets.tokenizer_source = std::move(source);
  if (tokenizer.ok()) {
    assets.tokenizer = std::move(*tokenizer);
  } else {
    assets.tokenizer_error = tokenizer.status().to_string();
  }
}

void set_template(TextAssets& assets, std::unique_ptr<text::ChatRenderer>& slot, const text::ChatTemplateSource& source,
                  const std::string& where) {
  auto compiled = text::ChatTemplate::compile(source.text, where);
  if (compiled.ok()) {
    slot = std::make_unique<text::ChatTemplate>(std::move(*compiled));
    if (&slot == &assets.chat_template) assets.chat_template_source = where;
    assets.chat_template_text += source.text;
  } else {
    assets.chat_template_error = compiled.status().to_string();
  }
}

void set_templates(TextAssets& assets, const Result<std::vector<text::ChatTemplateSource>>& sources,
                   const std::string& where) {
  if (!sources.ok()) {
    assets.chat_template_error = sources.status().to_string();
    return;
  }
  const auto plain = text::select_chat_template(*sources, false);
  const auto with_tools = text::select_chat_template(*sources, true);
  if (!plain.ok()) {
    assets.chat_template_error = plain.status().to_string();
    return;
  }
  set_template(assets, assets.chat_template, *plain, where);
  if (with_tools.ok() && with_tools->name != plain->name) {
    set_template(assets, assets.tool_chat_template, *with_tools, where + " " + with_tools->name);
  }
}

void load_from_gguf(TextAssets& assets, const formats::GgufFile& file) {
  auto vocabulary = read_gguf_vocabulary(file);
  set_tokenizer(assets, vocabulary.ok() ? text::load_gguf_vocabulary(*vocabulary) : std::move(vocabulary).status(),
                "tokenizer.ggml");
  std::vector<text::ChatTemplateSource> sources;
  for (const formats::GgufEntry& entry : file.entries()) {
    constexpr std::string_view kKey = "tokenizer.chat_template";
    if (!entry.key.starts_with(kKey) || entry.key == "tokenizer.chat_templates") continue;
    const auto text = file.get_string(entry.key);
    if (!text.ok()) continue;
    const std::string name = entry.key == kKey ? "default" : std::string(entry.key.substr(kKey.size() + 1));
    sources.push_back({name, std::string(*text)});
  }
  if (sources.empty()) {
    assets.chat_template_error = "not found: the file has no tokenizer.chat_template";
  } else {
    set_templates(assets, std::move(sources), "tokenizer.chat_template");
  }
}

// "bos_token": a string, or an object with "content".
void read_special_tokens(TextAssets& assets, const Json& config) {
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    const Json* content = value.is_object() && value.contains("content") ? &value["content"] : &value;
    if (content->is_string()) assets.special_tokens.emplace_back(key, content->get<std::string>());
  }
}

// "" where there is no such file; one that is empty says nothing by mistake.
Result<std::string> text_of(const std::optional<std::string>& path) {
  if (!path) return std::string();
  std::string text = FL_TRY(read_text_file(*path));
  if (text.empty()) return invalid_data(*path + ": the file is empty (0 bytes)");
  return text;
}

void load_from_directory(TextAssets& assets, const std::string& path) {
  const auto files = formats::HfDirectory::scan(path);
  if (!files.ok()) {
    assets.tokenizer_error = files.status().to_string();
    return;
  }
  set_tokenizer(assets, text::load_tokenizer(files->root), files->root);
  const auto config_text = text_of(files->tokenizer_config);
  const auto jinja = text_of(files->chat_template_jinja);
  if (!config_text.ok() || !jinja.ok()) {
    assets.chat_template_error = (config_text.ok() ? jinja : config_text).status().to_string();
    return;
  }
  const auto config = parse_json(config_text->empty() ? "{}" : *config_text);
  if (!config.ok() || !config->is_object()) {
    assets.chat_template_error =
        "tokenizer_config.json: " + (config.ok() ? "not an object" : config.status().message());
    return;
  }
  read_special_tokens(assets, *config);
  set_templates(assets, text::read_chat_templates(*config, *jinja),
                jinja->empty() ? "tokenizer_config.json" : "chat_template.jinja");
}

void load_single_file(TextAssets& assets, const std::string& path) {
  const auto content = read_text_file(path);
  if (!content.ok()) {
    assets.tokenizer_error = content.status().to_string();
    return;
  }
  const std::string name = fs::path(path).filename();
  if (name.ends_with(".json")) {
    set_tokenizer(assets, text::load_tokenizer_json(*content), path);
  } else if (name.ends_with(".model")) {
    set_tokenizer(assets, text::load_sentencepiece_model(*content), path);
  } else {
    assets.tokenizer_error =
        path + ": no tokenizer file we know by its name (a directory, *.json, *.model or *.gguf wanted)";
  }
}

// The model type by which specs are found; "" where nothing says it.
Result<std::string> model_type_of(const std::string& path, const formats::Checkpoint* checkpoint,
                                  const TextOptions& options) {
  if (checkpoint != nullptr && checkpoint->gguf() != nullptr)
    return intake::gguf_model_type(*checkpoint, options.intake);
  const auto files = formats::HfDirectory::scan(path);
  if (!files.ok()) return std::string();
  const std::string text = FL_TRY(text_of(files->config));
  if (text.empty()) return std::string();
  const Json config = FL_TRY(parse_json(text).with_context(*files->config));
  return config.is_object() && config.contains("model_type") && config["model_type"].is_string()
             ? config["model_type"].get<std::string>()
             : std::string();
}

// The spec's render function, where it is wanted.
void load_renderer(TextAssets& assets, const std::string& path, const formats::Checkpoint* checkpoint,
                   const TextOptions& options) {
  if (options.chat == ChatSource::kTemplate) return;
  if (options.chat == ChatSource::kAuto && assets.chat_template != nullptr) return;
  const auto drop = [&](const std::string& why, bool fault) {
    if (options.chat != ChatSource::kSpec) {
      if (fault) assets.chat_template_error += "; and no render function: " + why;
      return;
    }
    assets.chat_template = nullptr;
    assets.tool_chat_template = nullptr;
    assets.chat_template_source.clear();
    assets.chat_template_error = why;
  };
  const auto model_type = model_type_of(path, checkpoint, options);
  if (!model_type.ok()) return drop(model_type.status().to_string(), true);
  auto renderer = intake::open_spec_renderer(options.intake, *model_type);
  if (!renderer.ok()) return drop(renderer.status().to_string(), true);
  if (*renderer == nullptr) {
    return drop("not found: no spec with a render function for model_type \"" + *model_type + "\"", false);
  }
  assets.chat_template = *std::move(renderer);
  assets.tool_chat_template = nullptr;
  assets.chat_template_source = assets.chat_template->name() + " (render)";
  if (options.chat == ChatSource::kSpec) assets.chat_template_error.clear();
}

// Special tokens that no file names by their text: by their ids.
void fill_special_tokens(TextAssets& assets) {
  if (!assets.tokenizer) return;
  const auto add = [&](const char* name, std::optional<int32_t> id) {
    const bool known = std::any_of(assets.special_tokens.begin(), assets.special_tokens.end(),
                                   [&](const auto& token) { return token.first == name; });
    if (id && !known) assets.special_tokens.emplace_back(name, std::string(assets.tokenizer->token_text(*id)));
  };
  add("bos_token", assets.tokenizer->bos_id());
  add("eos_token", assets.tokenizer->eos_id());
  add("unk_token", assets.tokenizer->unk_id());
  add("pad_token", assets.tokenizer->pad_id());
}

}  // namespace

TextAssets::TextAssets() = default;
TextAssets::TextAssets(TextAssets&&) noexcept = default;
TextAssets& TextAssets::operator=(TextAssets&&) noexcept = default;
TextAssets::~TextAssets() = default;

Result<text::Tokenizer> TextAssets::require_tokenizer() const {
  if (tokenizer) return *tokenizer;
  return invalid_data("no usable tokenizer: " + tokenizer_error);
}

TextAssets load_text_assets(const std::string& path, const formats::Checkpoint* checkpoint,
                            const TextOptions& options) {
  TextAssets assets;
  std::error_code ignored;
  if (checkpoint != nullptr && checkpoint->gguf() != nullptr) {
    load_from_gguf(assets, *checkpoint->gguf());
  } else if (!fs::is_directory(path, ignored) && !path.ends_with(".safetensors") && checkpoint == nullptr) {
    load_single_file(assets, path);
  } else {
    load_from_directory(assets, path);
  }
  load_renderer(assets, path, checkpoint, options);
  fill_special_tokens(assets);
  return assets;
}

std::vector<int32_t> stop_token_ids(const intake::TokenFacts& facts, const TextAssets& assets) {
  std::set<int32_t> ids;
  for (const auto& [id, source] : facts.eos) ids.insert(static_cast<int32_t>(id));
  if (assets.tokenizer && assets.tokenizer->eos_id()) ids.insert(*assets.tokenizer->eos_id());
  return {ids.begin(), ids.end()};
}

}  // namespace firstlight::adapt
