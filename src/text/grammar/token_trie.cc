// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_trie.h"

#include <algorithm>
#include <array>
#include <utility>

namespace firstlight::text::grammar {
namespace {

// Longer tokens (banners, runs of spaces) are left out: the walk keeps a state per byte.
constexpr size_t kLongestToken = 1024;
constexpr char kMarkByte = '\xFF';

// Bytes that cannot be part of a text are those of no token.
std::string text_bytes(std::string bytes) {
  if (bytes.find(kMarkByte) != std::string::npos) bytes.clear();
  return bytes;
}

}  // namespace

bool is_mark_token(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.is_token(id) && tokenizer.unk_id() != id && (tokenizer.is_special(id) || tokenizer.is_control(id));
}

std::string mark_bytes(int32_t id) {
  const auto seven = [id](int shift) { return static_cast<char>(0x80 | ((id >> shift) & 0x7F)); };
  return {kMarkByte, seven(14), seven(7), seven(0)};
}

TokenTrie::TokenTrie(std::vector<Token> tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.bytes.empty() || token.bytes.size() > kLongestToken; });
  std::sort(tokens.begin(), tokens.end(),
            [](const Token& a, const Token& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id; });
  std::vector<size_t> path;  // nodes of the token before
  std::string_view before;
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) next_[path.back()] = static_cast<uint32_t>(byte_.size());
  };
  for (const Token& token : tokens) {
    const auto split = std::mismatch(token.bytes.begin(), token.bytes.end(), before.begin(), before.end()).first;
    close_to(static_cast<size_t>(split - token.bytes.begin()));
    for (auto at = split; at != token.bytes.end(); ++at) {
      path.push_back(byte_.size());
      byte_.push_back(static_cast<uint8_t>(*at));
      depth_.push_back(static_cast<uint16_t>(path.size()));
      next_.push_back(0);
      token_begin_.push_back(static_cast<uint32_t>(tokens_.size()));
    }
    tokens_.push_back(token.id);
    max_depth_ = std::max(max_depth_, static_cast<uint32_t>(token.bytes.size()));
    before = token.bytes;
  }
  close_to(0);
  token_begin_.push_back(static_cast<uint32_t>(tokens_.size()));
}

size_t TokenTrie::size_bytes() const {
  return byte_.size() * (sizeof(uint8_t) + sizeof(uint16_t) + 2 * sizeof(uint32_t)) + tokens_.size() * sizeof(int32_t);
}

std::string_view TokenTexts::Table::of(int32_t id) const {
  const auto i = static_cast<size_t>(id);
  if (id < 0 || i + 1 >= begin.size()) return {};
  return std::string_view(all).substr(begin[i], begin[i + 1] - begin[i]);
}

void TokenTexts::Table::fill(std::vector<std::string> texts) {
  std::vector<TokenTrie::Token> tokens;
  for (size_t id = 0; id < texts.size(); ++id) {
    begin.push_back(static_cast<uint32_t>(all.size()));
    all += texts[id];
    if (!texts[id].empty()) tokens.push_back({std::move(texts[id]), static_cast<int32_t>(id)});
  }
  begin.push_back(static_cast<uint32_t>(all.size()));
  trie = TokenTrie(std::move(tokens));
}

Result<std::shared_ptr<const TokenTexts>> TokenTexts::build(const Tokenizer& tokenizer) {
  if (!tokenizer.joins_bytes()) {
    return unsupported("constrained output with a tokenizer whose text is not its tokens' bytes joined");
  }
  auto texts = std::make_shared<TokenTexts>();
  texts->vocab_size_ = tokenizer.vocab_size();
  std::vector<std::string> start, middle;
  for (int32_t id = 0; id < texts->vocab_size_; ++id) {
    if (is_mark_token(tokenizer, id) || !tokenizer.is_token(id) || tokenizer.unk_id() == id) {
      middle.push_back(is_mark_token(tokenizer, id) ? mark_bytes(id) : "");
      start.push_back(middle.back());
      continue;
    }
    middle.push_back(text_bytes(tokenizer.token_bytes(id)));
    start.push_back(text_bytes(tokenizer.opening_bytes({}, id)));
  }
  texts->differs_ = start != middle;
  if (texts->differs_) {
    texts->find_empty(tokenizer, start, middle);
    texts->start_.fill(std::move(start));
  }
  texts->middle_.fill(std::move(middle));
  return std::shared_ptr<const TokenTexts>(std::move(texts));
}

// What follows such a token is read as the first or as a later one, depending on how the decoder drops spaces; where it
// is neither, none may come.
void TokenTexts::find_empty(const Tokenizer& tokenizer, const std::vector<std::string>& start,
                            const std::vector<std::string>& middle) {
  for (size_t id = 0; id < start.size(); ++id) {
    if (start[id].empty() && !middle[id].empty()) empty_at_start_.push_back(static_cast<int32_t>(id));
  }
  if (empty_at_start_.empty()) return;
  bool as_start = true, as_middle = true;
  for (size_t id = 0; id < start.size() && (as_start || as_middle); ++id) {
    if (start[id] == middle[id]) continue;
    const std::array before = {empty_at_start_[0]};
    const std::string after = tokenizer.opening_bytes(before, static_cast<int32_t>(id));
    as_start = as_start && after == start[id];
    as_middle = as_middle && after == middle[id];
  }
  starts_after_empty_ = as_start && !as_middle;
  if (!as_start && !as_middle) empty_at_start_.clear();
}

size_t TokenTexts::size_bytes() const {
  size_t size = 0;
  for (const Table* table : {&start_, &middle_}) {
    size += table->all.size() + table->begin.size() * sizeof(uint32_t) + table->trie.size_bytes();
  }
  return size;
}

}  // namespace firstlight::text::grammar
