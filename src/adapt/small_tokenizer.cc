// SPDX-License-Identifier: Apache-2.0
#include "adapt/small_tokenizer.h"

#include "base/json.h"

namespace firstlight::adapt {
namespace {

constexpr const char* kNames[] = {"<|begin|>", "<|end|>", "<|pad|>"};

// The character that byte-level vocabularies write for a byte: itself where it is visible, else one from U+0100 on.
std::string letter_of(int byte, int& next) {
  const bool visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const int code = visible ? byte : 0x100 + next++;
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace

std::string small_tokenizer_json() {
  Json vocabulary = Json::object(), added = Json::array();
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter_of(byte, next)] = byte;
  for (int i = 0; i < 3; ++i) {
    added.push_back({{"id", kSmallBos + i},
                     {"content", kNames[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false}};
  model["vocab"] = std::move(vocabulary);
  model["merges"] = Json::array();
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = std::move(added);
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = bytes;
  file["post_processor"] = nullptr;
  file["decoder"] = bytes;
  file["model"] = std::move(model);
  return dump_json(file, 1) + "\n";
}

std::string small_tokenizer_config() {
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"bos_token", kNames[0]},
                       {"eos_token", kNames[1]},
                       {"pad_token", kNames[2]},
                       {"clean_up_tokenization_spaces", false}};
  return dump_json(config, 2) + "\n";
}

}  // namespace firstlight::adapt
