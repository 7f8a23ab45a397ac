// SPDX-License-Identifier: Apache-2.0
// Chooses the loader for a model directory by the files that are there.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file_map.h"
#include "text/tokenizer.h"
#include "text/tokenizers/json_fields.h"
#include "text/tokenizers/tokenizer_config.h"

namespace firstlight::text {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// "" when the file is not there.
Result<std::string> read_if_there(const std::string& path) {
  if (!exists(path)) return std::string();
  return read_text_file(path);
}

// The first file of the directory, by name, that `wanted` accepts; "" when there is none.
template <typename Wanted>
std::string find_file(const std::string& directory, Wanted wanted) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (wanted(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? std::string() : directory + "/" + names.front();
}

Result<Tokenizer> load_model_file(const std::string& path, const std::string& config) {
  const std::string bytes = FL_TRY(read_text_file(path));
  Tokenizer plain = FL_TRY(load_sentencepiece_model(bytes).with_context(path));
  if (config.empty()) return plain;
  return with_tokenizer_config(plain, config);
}

// A tiktoken file says nothing about its pattern and control tokens; the config's class and added tokens do.
Result<Tokenizer> load_tiktoken_file(const std::string& path, const std::string& config_json) {
  simdjson::dom::parser parser;
  if (config_json.empty()) return unsupported(path + ": a tiktoken file without a tokenizer_config.json");
  const JsonElement config = FL_TRY(parse_document(parser, config_json).with_context("tokenizer_config.json"));
  const std::string name = FL_TRY(string_field(config, "tokenizer_class", ""));
  TiktokenSpec spec;
  if (name == "TikTokenTokenizer") {
    spec.pattern = FL_TRY(tiktoken_pattern("kimi"));
  } else if (name == "QWenTokenizer") {
    spec.pattern = FL_TRY(tiktoken_pattern("cl100k_base"));
  } else {
    return unsupported(path + ": tiktoken file with tokenizer class '" + name + "': its word pattern is not known");
  }
  const std::string content = FL_TRY(read_text_file(path));
  const Tokenizer plain = FL_TRY(load_tiktoken(content, spec).with_context(path));
  return with_tokenizer_config(plain, config_json);
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& directory) {
  const std::string base = directory + "/";
  const std::string config = FL_TRY(read_if_there(base + "tokenizer_config.json"));
  if (exists(base + "tokenizer.json")) {
    const std::string json = FL_TRY(read_text_file(base + "tokenizer.json"));
    return load_tokenizer_json(json, config).with_context(directory);
  }
  if (exists(base + "tokenizer.model"))
    return load_model_file(base + "tokenizer.model", config).with_context(directory);
  if (exists(base + "vocab.json") && exists(base + "merges.txt")) {
    const std::string vocab = FL_TRY(read_text_file(base + "vocab.json"));
    const std::string merges = FL_TRY(read_text_file(base + "merges.txt"));
    return load_vocab_and_merges(vocab, merges, config).with_context(directory);
  }
  const std::string tiktoken = find_file(
      directory, [](const std::string& name) { return name.ends_with(".tiktoken") || name == "tiktoken.model"; });
  if (!tiktoken.empty()) return load_tiktoken_file(tiktoken, config);
  const std::string rwkv = find_file(directory, [](const std::string& name) { return name.starts_with("rwkv_vocab"); });
  if (!rwkv.empty()) {
    const std::string content = FL_TRY(read_text_file(rwkv));
    return load_rwkv_vocabulary(content).with_context(rwkv);
  }
  return not_found(directory +
                   ": no tokenizer.json, tokenizer.model, vocab.json with merges.txt, *.tiktoken or rwkv_vocab*");
}

}  // namespace firstlight::text
