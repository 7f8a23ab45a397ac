// SPDX-License-Identifier: Apache-2.0
#include "adapt/gguf_text.h"

namespace firstlight::adapt {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key_of(std::string_view name) { return std::string(kPrefix) + std::string(name); }

// An absent key leaves the target as it is; one of another type is an error.
Status read_string(const formats::GgufFile& file, const std::string& key, std::string& target) {
  if (file.has(key)) target = FL_TRY(file.get_string(key));
  return ok_status();
}
Status read_id(const formats::GgufFile& file, std::string_view name, std::optional<int64_t>& target) {
  if (file.has(key_of(name))) target = FL_TRY(file.get_integer(key_of(name)));
  return ok_status();
}
Status read_flag(const formats::GgufFile& file, std::string_view name, std::optional<bool>& target) {
  if (file.has(key_of(name))) target = FL_TRY(file.get_bool(key_of(name)));
  return ok_status();
}

}  // namespace

Result<text::GgufVocabulary> read_gguf_vocabulary(const formats::GgufFile& file) {
  text::GgufVocabulary out;
  FL_TRY(read_string(file, key_of("model"), out.model));
  FL_TRY(read_string(file, key_of("pre"), out.pre));
  FL_TRY(read_string(file, "general.name", out.model_name));
  const auto tokens = FL_TRY(file.get_strings(key_of("tokens")));
  out.tokens.assign(tokens.begin(), tokens.end());
  if (file.has(key_of("scores"))) {
    for (const double score : FL_TRY(file.get_numbers(key_of("scores"))))
      out.scores.push_back(static_cast<float>(score));
  }
  if (file.has(key_of("token_type"))) {
    for (const int64_t type : FL_TRY(file.get_integers(key_of("token_type")))) {
      out.token_types.push_back(static_cast<int32_t>(type));
    }
  }
  if (file.has(key_of("merges"))) {
    const auto merges = FL_TRY(file.get_strings(key_of("merges")));
    out.merges.assign(merges.begin(), merges.end());
  }
  FL_TRY(read_id(file, "bos_token_id", out.bos_id));
  FL_TRY(read_id(file, "eos_token_id", out.eos_id));
  FL_TRY(read_id(file, "unknown_token_id", out.unk_id));
  FL_TRY(read_id(file, "seperator_token_id", out.sep_id));
  FL_TRY(read_id(file, "cls_token_id", out.cls_id));
  FL_TRY(read_id(file, "padding_token_id", out.pad_id));
  FL_TRY(read_flag(file, "add_bos_token", out.add_bos));
  FL_TRY(read_flag(file, "add_eos_token", out.add_eos));
  FL_TRY(read_flag(file, "add_sep_token", out.add_sep));
  FL_TRY(read_flag(file, "add_space_prefix", out.add_space_prefix));
  FL_TRY(read_flag(file, "remove_extra_whitespaces", out.remove_extra_whitespaces));
  if (const auto* map = file.find(key_of("precompiled_charsmap"))) {
    if (map->type != formats::GgufType::kArray ||
        (map->element_type != formats::GgufType::kU8 && map->element_type != formats::GgufType::kI8)) {
      return invalid_data(key_of("precompiled_charsmap") + ": an array of bytes wanted");
    }
    out.precompiled_charsmap.assign(reinterpret_cast<const char*>(map->raw.data()), map->raw.size());
  }
  return out;
}

}  // namespace firstlight::adapt
