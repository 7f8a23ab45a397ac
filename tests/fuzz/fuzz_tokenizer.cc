// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the tokenizer readers. The first byte chooses the reader; the rest is the file, in a reader with
// several files with zero bytes between them, and behind the last zero byte the text to encode. A tokenizer that loads
// has to encode the text, decode it, and decode it token by token to the same text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

using namespace firstlight;
using text::Tokenizer;

// What stands behind the last `separator`; `rest` loses it.
std::string_view take_last(std::string_view& rest, char separator) {
  const size_t at = rest.rfind(separator);
  if (at == std::string_view::npos) return {};
  const std::string_view last = rest.substr(at + 1);
  rest = rest.substr(0, at);
  return last;
}

// Lines: kind, word pattern, flags, then one "type score token" per line; lines with a tab are merges.
text::GgufVocabulary make_gguf(std::string_view content) {
  text::GgufVocabulary vocabulary;
  size_t number = 0;
  while (!content.empty()) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    if (number == 0) vocabulary.model = line;
    if (number == 1) vocabulary.pre = line;
    if (number == 2) vocabulary.precompiled_charsmap = line;
    if (number++ < 3) continue;
    if (const size_t tab = line.find('\t'); tab != std::string_view::npos) {
      vocabulary.merges.push_back(std::string(line.substr(0, tab)) + " " + std::string(line.substr(tab + 1)));
    } else if (line.size() > 2) {
      vocabulary.token_types.push_back(line[0] - '0');
      vocabulary.scores.push_back(static_cast<float>(line[1]));
      vocabulary.tokens.emplace_back(line.substr(2));
    }
  }
  vocabulary.bos_id = vocabulary.eos_id = static_cast<int64_t>(vocabulary.tokens.size()) - 1;
  return vocabulary;
}

Result<Tokenizer> load(int kind, std::string_view content) {
  switch (kind) {
    case 0: {
      const std::string_view config = take_last(content, '\0');
      return text::load_tokenizer_json(content, config);
    }
    case 1:
      return text::load_sentencepiece_model(content);
    case 2: {
      text::TiktokenSpec spec;
      spec.pattern = *text::tiktoken_pattern("o200k_base");
      spec.special_tokens = {{"<|end|>", 300}};
      return text::load_tiktoken(content, spec);
    }
    case 3:
      return text::load_rwkv_vocabulary(content);
    case 4: {
      const std::string_view merges = take_last(content, '\0');
      const std::string_view config = take_last(content, '\0');
      return text::load_vocab_and_merges(content, merges, config);
    }
    default:
      return text::load_gguf_vocabulary(make_gguf(content));
  }
}

void check_round(const Tokenizer& tokenizer, const Result<std::vector<int32_t>>& ids) {
  if (!ids.ok()) return;
  text::Detokenizer detokenizer(tokenizer, {.skip_special = false});
  std::string joined;
  for (int32_t id : *ids) {
    const std::string delta = detokenizer.push(id);
    FL_CHECK(text::is_valid_utf8(delta));
    joined += delta;
  }
  joined += detokenizer.flush();
  FL_CHECK(joined == tokenizer.decode(*ids, {.skip_special = false}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  // The text stands behind the last byte 0xFF, so that binary files need no escape.
  const std::string_view text = take_last(content, '\xFF');
  const auto tokenizer = load(data[0] % 6, content);
  if (!tokenizer.ok()) {
    FL_CHECK(!tokenizer.status().message().empty());
    return 0;
  }
  check_round(*tokenizer, tokenizer->encode(text));
  const auto plain = tokenizer->encode(text, {.add_special = false, .parse_special = false});
  check_round(*tokenizer, plain);
  const std::array<text::Segment, 2> segments = {text::Segment{std::string(text), false}, text::Segment{"", true}};
  const auto mixed = tokenizer->encode_segments(segments);
  if (mixed.ok()) {
    for (int32_t id : *mixed) FL_CHECK(!tokenizer->is_control(id) || id == tokenizer->unk_id());
  }
  const std::array<int32_t, 6> ids = {0, 1, 299, 300, -1, INT32_MAX};
  (void)tokenizer->decode(ids);
  for (int32_t id : ids) (void)tokenizer->token_bytes(id);
  return 0;
}
