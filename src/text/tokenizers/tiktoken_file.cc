// SPDX-License-Identifier: Apache-2.0
// tiktoken files: one "base64 rank" per line, the rank being the id and the merge priority at once.
#include <charconv>

#include "text/tokenizers/base64.h"
#include "text/tokenizers/tokenizer_parts.h"
#include "text/tokenizers/word_patterns.h"

namespace firstlight::text {
namespace {

Status read_line(std::string_view line, Vocabulary& vocabulary) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return invalid_data("no space between token and rank");
  const std::string token = FL_TRY(decode_base64(line.substr(0, space)));
  const std::string_view number = line.substr(space + 1);
  int64_t rank = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (error != std::errc() || end != number.data() + number.size()) {
    return invalid_data("rank '" + std::string(number) + "' is not a number");
  }
  if (token.empty()) return invalid_data("empty token");
  return vocabulary.add(token, rank);
}

Status check_bytes(const Vocabulary& vocabulary) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(static_cast<unsigned char>(byte));
    if (vocabulary.find(std::string_view(&c, 1)) == kNoToken) {
      return invalid_data("no token for the byte " + std::to_string(byte));
    }
  }
  return ok_status();
}

}  // namespace

Result<Tokenizer> load_tiktoken(std::string_view content, const TiktokenSpec& spec) {
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->reserve(content.size() / 16, content.size() / 2);
  size_t line_number = 0;
  for (size_t pos = 0; pos < content.size();) {
    const size_t end = std::min(content.find('\n', pos), content.size());
    std::string_view line = content.substr(pos, end - pos);
    if (line.ends_with('\r')) line.remove_suffix(1);
    pos = end + 1;
    ++line_number;
    if (line.empty()) continue;
    FL_TRY(read_line(line, *vocabulary).with_context("tiktoken file, line " + std::to_string(line_number)));
  }
  FL_TRY(check_bytes(*vocabulary).with_context("tiktoken file"));
  TokenizerDraft draft;
  draft.parts.vocabulary = vocabulary;
  draft.parts.model = RankModel(vocabulary);
  std::vector<PreTokenizerStep> steps = FL_TRY(split_steps({spec.pattern}, /*line_anchors=*/false));
  draft.parts.pre_tokenizer = PreTokenizer(std::move(steps));
  for (const auto& [token, id] : spec.special_tokens) {
    draft.added.push_back({.content = token, .id = id, .special = true});
    draft.raw_text_ids.push_back(id);
    if (token == spec.bos_token) draft.parts.bos_id = id;
    if (token == spec.eos_token) draft.parts.eos_id = id;
  }
  if (draft.parts.bos_id != kNoToken) draft.parts.prefix_ids = {draft.parts.bos_id};
  return finish_tokenizer(std::move(draft));
}

}  // namespace firstlight::text
