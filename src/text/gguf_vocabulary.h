// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF file. Plain data in, so that this module needs no GGUF reader: the caller copies the metadata
// keys named below ("tokenizer.ggml." left out) into the struct. Ids follow llama.cpp's rules for each vocabulary kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace firstlight::text {

struct GgufVocabulary {
  std::string model;  // model: "llama" (SentencePiece BPE), "gpt2" (byte-level BPE), "bert", "t5", "rwkv", "gemma4"
  std::string pre;    // pre: name of the word pattern; empty when absent
  std::string model_name;           // general.name; phi-3 files need it (white space after control tokens)
  std::vector<std::string> tokens;  // tokens
  std::vector<float> scores;        // scores; may be empty
  std::vector<int32_t>
      token_types;  // token_type (1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte); may be empty
  std::vector<std::string> merges;               // merges: "left right"
  std::optional<int64_t> bos_id;                 // bos_token_id
  std::optional<int64_t> eos_id;                 // eos_token_id
  std::optional<int64_t> unk_id;                 // unknown_token_id
  std::optional<int64_t> sep_id;                 // seperator_token_id (spelled so)
  std::optional<int64_t> cls_id;                 // cls_token_id
  std::optional<int64_t> pad_id;                 // padding_token_id
  std::optional<bool> add_bos;                   // add_bos_token
  std::optional<bool> add_eos;                   // add_eos_token
  std::optional<bool> add_sep;                   // add_sep_token
  std::optional<bool> add_space_prefix;          // add_space_prefix
  std::optional<bool> remove_extra_whitespaces;  // remove_extra_whitespaces
  std::string precompiled_charsmap;              // precompiled_charsmap, as bytes
};

// Errors: kUnsupported naming an unknown model or pre-tokenizer; kInvalidData for tables that do not fit together.
Result<Tokenizer> load_gguf_vocabulary(const GgufVocabulary& vocabulary);

}  // namespace firstlight::text
