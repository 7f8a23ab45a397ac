// SPDX-License-Identifier: Apache-2.0
// See tokenizer_config.h.
#include "text/tokenizers/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace firstlight::text {
namespace {

// Classes whose fast form writes its own template from add_bos_token and add_eos_token, whatever tokenizer.json says.
bool overrides_template(std::string_view tokenizer_class) {
  constexpr std::string_view kFast = "Fast";
  if (tokenizer_class.ends_with(kFast)) tokenizer_class.remove_suffix(kFast.size());
  return tokenizer_class == "LlamaTokenizer" || tokenizer_class == "CodeLlamaTokenizer" ||
         tokenizer_class == "GemmaTokenizer";
}

// A special token's name: a string, or an object with a content.
Result<std::string> token_name(const JsonElement& config, std::string_view key) {
  const auto value = field(config, key);
  if (!value) return std::string();
  if (value->is_object()) return string_field(*value, "content", "");
  return string_field(config, key, "");
}

int32_t find_token(const TokenizerDraft& draft, std::string_view content) {
  if (content.empty()) return kNoToken;
  for (const AddedToken& token : draft.added) {
    if (token.content == content) return token.id;
  }
  return draft.parts.vocabulary->find(content);
}

Status read_named_ids(const JsonElement& config, TokenizerDraft& draft) {
  const std::pair<std::string_view, int32_t*> names[] = {{"bos_token", &draft.parts.bos_id},
                                                         {"eos_token", &draft.parts.eos_id},
                                                         {"unk_token", &draft.parts.unk_id},
                                                         {"pad_token", &draft.parts.pad_id}};
  for (const auto& [key, id] : names) {
    const int32_t found = find_token(draft, FL_TRY(token_name(config, key)));
    if (found != kNoToken) *id = found;
  }
  return ok_status();
}

void set_presence(std::vector<int32_t>& ids, int32_t id, bool wanted, bool at_front) {
  if (id == kNoToken) return;
  const bool present = !ids.empty() && (at_front ? ids.front() : ids.back()) == id;
  if (present == wanted) return;
  const auto place = at_front ? ids.begin() : (wanted ? ids.end() : ids.end() - 1);
  if (wanted) {
    ids.insert(place, id);
  } else {
    ids.erase(place);
  }
}

Status read_added_decoder(const JsonElement& config, TokenizerDraft& draft) {
  const auto decoder = field(config, "added_tokens_decoder");
  if (!decoder) return ok_status();
  JsonObject entries;
  if (decoder->get_object().get(entries) != simdjson::SUCCESS)
    return invalid_data("'added_tokens_decoder' is not an object");
  for (const auto& entry : entries) {
    int64_t id = kNoToken;
    const auto [end, error] = std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), id);
    if (error != std::errc() || end != entry.key.data() + entry.key.size()) {
      return invalid_data("'added_tokens_decoder' has the key '" + std::string(entry.key) + "', wanted an id");
    }
    FL_TRY(append_added_token(entry.value, id, draft));
  }
  return ok_status();
}

// BOS of a SentencePiece file: added by default where the class belongs to the Llama family.
Status set_default_bos(const JsonElement& config, TokenizerDraft& draft) {
  if (field(config, "add_bos_token") || !overrides_template(FL_TRY(string_field(config, "tokenizer_class", "")))) {
    return ok_status();
  }
  set_presence(draft.parts.prefix_ids, draft.parts.bos_id, true, true);
  return ok_status();
}

}  // namespace

Result<Tokenizer> with_tokenizer_config(const Tokenizer& tokenizer, std::string_view config_json) {
  TokenizerDraft draft;
  draft.parts = tokenizer.parts();
  draft.added = draft.parts.added.tokens();
  FL_TRY(apply_tokenizer_config(config_json, ConfigRole::kOnlySource, draft).with_context("tokenizer_config.json"));
  simdjson::dom::parser parser;
  const JsonElement config = FL_TRY(parse_document(parser, config_json));
  FL_TRY(set_default_bos(config, draft).with_context("tokenizer_config.json"));
  for (const AddedToken& token : draft.added) draft.raw_text_ids.push_back(token.id);
  return finish_tokenizer(std::move(draft));
}

Status append_added_token(const JsonElement& item, int64_t id, TokenizerDraft& draft) {
  if (!item.is_object()) return invalid_data("an added token is not an object");
  AddedToken token;
  token.content = FL_TRY(string_field(item, "content", ""));
  token.single_word = FL_TRY(bool_field(item, "single_word", false));
  token.lstrip = FL_TRY(bool_field(item, "lstrip", false));
  token.rstrip = FL_TRY(bool_field(item, "rstrip", false));
  token.special = FL_TRY(bool_field(item, "special", false));
  token.normalized = FL_TRY(bool_field(item, "normalized", !token.special));
  if (token.content.empty()) return ok_status();
  const int32_t known = draft.parts.vocabulary->find(token.content);
  if (known != kNoToken) id = known;
  if (id < 0 || id > Vocabulary::kMaxId) {
    return invalid_data("token '" + token.content + "' has id " + std::to_string(id));
  }
  token.id = static_cast<int32_t>(id);
  draft.added.push_back(std::move(token));
  return ok_status();
}

Status apply_tokenizer_config(std::string_view config_json, ConfigRole role, TokenizerDraft& draft) {
  if (config_json.empty()) return ok_status();
  simdjson::dom::parser parser;
  const JsonElement config = FL_TRY(parse_document(parser, config_json));
  if (!config.is_object()) return invalid_data("not an object");
  const size_t num_known = draft.added.size();
  FL_TRY(read_added_decoder(config, draft));
  // Of a token that both files name, the tokenizer.json's entry stands.
  const auto is_known = [&draft, num_known](const AddedToken& token) {
    return std::any_of(draft.added.begin(), draft.added.begin() + static_cast<std::ptrdiff_t>(num_known),
                       [&token](const AddedToken& known) { return known.content == token.content; });
  };
  std::vector<AddedToken> extra;
  for (size_t i = num_known; i < draft.added.size(); ++i) {
    if (!is_known(draft.added[i])) extra.push_back(draft.added[i]);
  }
  draft.added.resize(num_known);
  draft.added.insert(draft.added.end(), extra.begin(), extra.end());
  FL_TRY(read_named_ids(config, draft));
  const bool decides =
      role == ConfigRole::kOnlySource || overrides_template(FL_TRY(string_field(config, "tokenizer_class", "")));
  if (!decides) return ok_status();
  const bool only = role == ConfigRole::kOnlySource;
  if (only || field(config, "add_bos_token")) {
    set_presence(draft.parts.prefix_ids, draft.parts.bos_id, FL_TRY(bool_field(config, "add_bos_token", false)), true);
  }
  if (only || field(config, "add_eos_token")) {
    set_presence(draft.parts.suffix_ids, draft.parts.eos_id, FL_TRY(bool_field(config, "add_eos_token", false)), false);
  }
  return ok_status();
}

}  // namespace firstlight::text
