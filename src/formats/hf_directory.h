// SPDX-License-Identifier: Apache-2.0
// Which of the well-known files a Hugging Face style directory has, as plain paths. Looks at names only; opens nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace firstlight::formats {

struct HfDirectory {
  std::string root;

  std::optional<std::string> config;             // config.json
  std::optional<std::string> generation_config;  // generation_config.json
  std::optional<std::string> hf_quant_config;    // hf_quant_config.json

  std::optional<std::string> tokenizer_json;      // tokenizer.json
  std::optional<std::string> tokenizer_config;    // tokenizer_config.json
  std::optional<std::string> special_tokens_map;  // special_tokens_map.json
  std::optional<std::string> added_tokens;        // added_tokens.json
  std::optional<std::string> vocab_json;          // vocab.json (BPE, with merges.txt)
  std::optional<std::string> merges_txt;          // merges.txt
  std::optional<std::string> vocab_txt;           // vocab.txt (WordPiece)
  std::vector<std::string> sentencepiece_models;  // tokenizer.model first, then other *.model, sorted
  std::vector<std::string> tiktoken_files;        // *.tiktoken, tiktoken.model, sorted

  std::optional<std::string> chat_template_jinja;  // chat_template.jinja
  std::optional<std::string> chat_template_json;   // chat_template.json
  std::vector<std::string> additional_templates;   // additional_chat_templates/*.jinja, sorted

  std::optional<std::string> preprocessor_config;  // preprocessor_config.json
  std::optional<std::string> processor_config;     // processor_config.json

  std::vector<std::string> safetensors;          // *.safetensors, sorted
  std::vector<std::string> safetensors_indexes;  // *.safetensors.index.json, sorted
  std::vector<std::string> gguf;                 // *.gguf, sorted
  std::vector<std::string> foreign_weights;      // *.bin, *.pt, *.pth, *.h5, *.msgpack, *.onnx: never opened

  bool has_tokenizer() const;

  // Lists `path`. A file stands for the directory it lies in. Links are listed whatever they point to, dangling ones
  // too: opening them says so. Errors: kNotFound (no such path; a dangling link's target is named).
  static Result<HfDirectory> scan(const std::string& path);
};

}  // namespace firstlight::formats
