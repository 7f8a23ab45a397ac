// SPDX-License-Identifier: Apache-2.0
// Reads the vocabulary of a GGUF file into the plain struct the tokenizer module takes.
#pragma once

#include "base/status.h"
#include "formats/gguf.h"
#include "text/gguf_vocabulary.h"

namespace firstlight {

inline Result<text::GgufVocabulary> read_gguf_vocabulary(const formats::GgufFile& file) {
  text::GgufVocabulary vocabulary;
  const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  const auto string_at = [&](const std::string& name) {
    auto value = file.get_string(name);
    return value.ok() ? std::string(*value) : std::string();
  };
  const auto id_at = [&](std::string_view name) -> std::optional<int64_t> {
    auto value = file.get_integer(key(name));
    return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
  };
  const auto flag_at = [&](std::string_view name) -> std::optional<bool> {
    auto value = file.get_bool(key(name));
    return value.ok() ? std::optional<bool>(*value) : std::nullopt;
  };
  vocabulary.model = string_at(key("model"));
  vocabulary.pre = string_at(key("pre"));
  vocabulary.model_name = string_at("general.name");
  const auto tokens = FL_TRY(file.get_strings(key("tokens")));
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  if (auto scores = file.get_numbers(key("scores")); scores.ok()) {
    for (double score : *scores) vocabulary.scores.push_back(static_cast<float>(score));
  }
  if (auto types = file.get_integers(key("token_type")); types.ok()) {
    for (int64_t type : *types) vocabulary.token_types.push_back(static_cast<int32_t>(type));
  }
  if (auto merges = file.get_strings(key("merges")); merges.ok())
    vocabulary.merges.assign(merges->begin(), merges->end());
  if (auto map = file.get_integers(key("precompiled_charsmap")); map.ok()) {
    for (int64_t byte : *map) vocabulary.precompiled_charsmap += static_cast<char>(static_cast<unsigned char>(byte));
  }
  vocabulary.bos_id = id_at("bos_token_id");
  vocabulary.eos_id = id_at("eos_token_id");
  vocabulary.unk_id = id_at("unknown_token_id");
  vocabulary.sep_id = id_at("seperator_token_id");
  vocabulary.cls_id = id_at("cls_token_id");
  vocabulary.pad_id = id_at("padding_token_id");
  vocabulary.add_bos = flag_at("add_bos_token");
  vocabulary.add_eos = flag_at("add_eos_token");
  vocabulary.add_sep = flag_at("add_sep_token");
  vocabulary.add_space_prefix = flag_at("add_space_prefix");
  vocabulary.remove_extra_whitespaces = flag_at("remove_extra_whitespaces");
  return vocabulary;
}

}  // namespace firstlight
