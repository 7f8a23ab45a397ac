// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. One Tokenizer serves every kind of vocabulary: tokenizer.json, SentencePiece .model,
// GGUF, tiktoken, vocab.json + merges.txt, RWKV world. Which kind it is shows only in the factories below.
//
// Text that is not valid UTF-8 is read as if each maximal invalid subpart were U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/segment.h"

namespace firstlight::text {

struct EncodeOptions {
  bool add_special = true;    // what the tokenizer itself adds around a text: BOS, EOS, [CLS] ... [SEP]
  bool parse_special = true;  // control-token strings in the text become control tokens; else they are ordinary text
};

struct DecodeOptions {
  bool skip_special = true;  // leave special tokens out
};

struct TokenizerParts;  // text/tokenizers/tokenizer_parts.h

// Cheap to copy (copies share the tables), immutable after loading; all members may be called from any number of
// threads.
class Tokenizer final {
 public:
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  // The ids of the text. Errors: kInvalidData where the vocabulary can not express a character and has no unknown
  // token; kUnsupported where a regular expression of the tokenizer meets its step limit on this text.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  // The ids of the segments' concatenation: words and merges run across segment borders as if there were none. Only
  // where all bytes of a control-token string are trusted does it become that token; in untrusted text no way leads to
  // a control id (not even a model's own merges), and the string is encoded as ordinary text. Added tokens that are not
  // control tokens are found everywhere. If all segments are trusted this is encode() of the concatenation.
  Result<std::vector<int32_t>> encode_segments(std::span<const Segment> segments, bool add_special = false) const;

  // The text of the ids, always valid UTF-8 (U+FFFD for each maximal invalid subpart). Ids that are no tokens are left
  // out.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // The bytes the token contributes in the middle of a text, maybe part of a character only. Empty for an unknown id.
  std::string token_bytes(int32_t id) const;
  // The bytes the token adds to a text that begins with the tokens `before`: none of them, and it is the first.
  std::string opening_bytes(std::span<const int32_t> before, int32_t id) const;
  // Whether every text is the bytes of its tokens joined: opening_bytes at the start, token_bytes in the middle.
  bool joins_bytes() const;
  // The token's string as the vocabulary writes it ("Ġthe", "▁the", "<0x0A>"). Empty for an unknown id.
  std::string_view token_text(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;

  // One past the largest id; embedding tables may have more rows.
  int32_t vocab_size() const;
  bool is_token(int32_t id) const;
  // Skipped by decode with skip_special.
  bool is_special(int32_t id) const;
  // Never made from untrusted text: special tokens, GGUF control tokens, BOS, EOS and padding, and added tokens that
  // look like chat markup (looks_like_chat_markup), since several releases ship such markers without the special flag.
  // Other added tokens (white space runs, HTML tags) are not.
  bool is_control(int32_t id) const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> unk_id() const;
  std::optional<int32_t> pad_id() const;
  // Whether encode with add_special puts BOS in front / EOS at the end.
  bool adds_bos() const;
  bool adds_eos() const;

  const TokenizerParts& parts() const { return *parts_; }

 private:
  struct Work;
  Status encode_text(std::string_view text, Work& work, std::vector<int32_t>& ids) const;
  Status encode_plain(std::string text, bool at_start, Work& work, std::vector<int32_t>& ids) const;
  Status encode_words(std::string_view text, bool at_start, Work& work, std::vector<int32_t>& ids) const;

  std::shared_ptr<const TokenizerParts> parts_;
};

// Whether an added token that lacks the special flag counts as a control token all the same: <|...|>, <｜...｜>, and
// <NAME>,
// </NAME>, [NAME] or [/NAME] where NAME has an underscore or is one of think, INST, s, bos, eos, pad, unk, mask, sep,
// cls, eot.
bool looks_like_chat_markup(std::string_view content);

// Options for files that do not name their special tokens.
struct TiktokenSpec {
  std::string pattern;                                          // word pattern, e.g. tiktoken_pattern("cl100k_base")
  std::vector<std::pair<std::string, int32_t>> special_tokens;  // all control tokens
  std::string bos_token;                                        // added in front by add_special; empty: none
  std::string eos_token;
};

// The word pattern of a well-known tiktoken encoding: gpt2 (r50k_base, p50k_base), cl100k_base, o200k_base, llama3.
// Errors: kUnsupported for other names.
Result<std::string> tiktoken_pattern(std::string_view encoding);

// Each loader: kInvalidData for malformed content, kUnsupported (naming it) for a construct that is not implemented.

// tokenizer.json; `config_json` is the tokenizer_config.json beside it ("" for none): bos, eos, unk and pad tokens,
// add_bos_token and add_eos_token (where the tokenizer class lets them override the file's own post-processor).
Result<Tokenizer> load_tokenizer_json(std::string_view json, std::string_view config_json = {});
// SentencePiece protobuf.
Result<Tokenizer> load_sentencepiece_model(std::string_view bytes);
// Lines of "base64 rank".
Result<Tokenizer> load_tiktoken(std::string_view content, const TiktokenSpec& spec);
// vocab.json + merges.txt (byte-level BPE). The word pattern follows the config's tokenizer_class.
Result<Tokenizer> load_vocab_and_merges(std::string_view vocab_json, std::string_view merges,
                                        std::string_view config_json);
// Lines of "id python-literal length".
Result<Tokenizer> load_rwkv_vocabulary(std::string_view content);

// The tokenizer of a model directory: tokenizer.json, else tokenizer.model, else vocab.json + merges.txt, else a
// *.tiktoken file (kimi and llama3 families by their config), else rwkv_vocab*.txt. Errors: kNotFound when none is
// there.
Result<Tokenizer> load_tokenizer(const std::string& directory);

}  // namespace firstlight::text
