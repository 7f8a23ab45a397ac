// SPDX-License-Identifier: Apache-2.0
// The encoding and decoding pipeline: added tokens out of the raw text, normalization, added tokens out of the
// normalized text, words, the model. See tokenizer.h for the contract.
#include "text/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "text/tokenizers/tokenizer_parts.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

// Longer words are rarely met twice.
constexpr size_t kMaxCachedWordBytes = 64;

bool flag(const std::vector<bool>& flags, int32_t id) {
  return id >= 0 && static_cast<size_t>(id) < flags.size() && flags[static_cast<size_t>(id)];
}

std::optional<int32_t> optional_id(int32_t id) { return id == kNoToken ? std::nullopt : std::optional<int32_t>(id); }

void set_flag(std::vector<bool>& flags, int32_t id) {
  if (static_cast<size_t>(id) >= flags.size()) flags.resize(static_cast<size_t>(id) + 1, false);
  flags[static_cast<size_t>(id)] = true;
}

Status run_model(const Model& model, std::string_view word, BlockedIds blocked, MergeScratch& scratch,
                 std::vector<int32_t>& ids) {
  if (const auto* bpe = std::get_if<BpeModel>(&model)) {
    bpe->encode(word, blocked, scratch, ids);
  } else if (const auto* rank = std::get_if<RankModel>(&model)) {
    rank->encode(word, blocked, scratch, ids);
  } else if (const auto* score = std::get_if<ScoreModel>(&model)) {
    score->encode(word, blocked, scratch, ids);
  } else if (const auto* longest = std::get_if<LongestMatchModel>(&model)) {
    longest->encode(word, blocked, ids);
  } else if (const auto* unigram = std::get_if<UnigramModel>(&model)) {
    return unigram->encode(word, blocked, ids);
  } else if (const auto* pieces = std::get_if<WordPieceModel>(&model)) {
    return pieces->encode(word, blocked, ids);
  } else if (const auto* words = std::get_if<WordLevelModel>(&model)) {
    return words->encode(word, blocked, ids);
  }
  return ok_status();
}

// As run_model. The models keep blocked ids out where pieces are built from parts; a vocabulary whose single characters
// or bytes are control tokens could still give one, which is then left out: better a character lost than a forged
// marker.
Status encode_word(const TokenizerParts& parts, std::string_view word, BlockedIds blocked, MergeScratch& scratch,
                   std::vector<int32_t>& ids) {
  const auto begin = static_cast<std::ptrdiff_t>(ids.size());
  FL_TRY(run_model(*parts.model, word, blocked, scratch, ids));
  if (blocked == nullptr) return ok_status();
  const auto forged = [&](int32_t id) { return is_blocked(blocked, id) && id != parts.unk_id; };
  ids.erase(std::remove_if(ids.begin() + begin, ids.end(), forged), ids.end());
  return ok_status();
}

// Where an id's string is: in the added tokens first.
std::string_view text_of(const TokenizerParts& parts, int32_t id) {
  if (parts.added_vocabulary.contains(id)) return parts.added_vocabulary.text(id);
  return parts.vocabulary->text(id);
}

}  // namespace

void push_token(const TokenizerParts& parts, int32_t id, DecodeOptions options, Decoder::State& state,
                std::string& out) {
  if (!parts.vocabulary->contains(id) && !parts.added_vocabulary.contains(id)) return;
  if (options.skip_special && flag(parts.special, id)) return;
  if (flag(parts.raw_text, id)) {
    parts.decoder.push_raw(state, text_of(parts, id), out);
  } else {
    parts.decoder.push(state, text_of(parts, id), out);
  }
}

// What one call of encode carries along.
struct Tokenizer::Work {
  AddedTokens::Rule rule;
  BlockedIds blocked = nullptr;
  MergeScratch scratch;
  struct CachedWord {
    size_t begin, end;  // in cached_ids
  };
  std::unordered_map<std::string, CachedWord> cache;
  std::vector<int32_t> cached_ids;
};

Status Tokenizer::encode_words(std::string_view text, bool at_start, Work& work, std::vector<int32_t>& ids) const {
  WordList list;
  list.words.push_back({text, at_start});
  FL_TRY(parts_->pre_tokenizer.apply(list));
  for (const WordList::Word& word : list.words) {
    if (word.text.empty()) continue;
    const bool cacheable = parts_->cache_words && word.text.size() <= kMaxCachedWordBytes;
    if (!cacheable) {
      FL_TRY(encode_word(*parts_, word.text, work.blocked, work.scratch, ids));
      continue;
    }
    auto [entry, is_new] = work.cache.try_emplace(std::string(word.text));
    if (is_new) {
      const size_t begin = work.cached_ids.size();
      FL_TRY(encode_word(*parts_, word.text, work.blocked, work.scratch, work.cached_ids));
      entry->second = {begin, work.cached_ids.size()};
    }
    ids.insert(ids.end(), work.cached_ids.begin() + static_cast<std::ptrdiff_t>(entry->second.begin),
               work.cached_ids.begin() + static_cast<std::ptrdiff_t>(entry->second.end));
  }
  return ok_status();
}

Status Tokenizer::encode_plain(std::string text, bool at_start, Work& work, std::vector<int32_t>& ids) const {
  bool front_removed = false;
  FL_TRY(parts_->normalizer.apply(text, &front_removed));
  std::vector<AddedTokens::Part> found;
  parts_->added.split(text, AddedTokens::Pass::kNormalized, work.rule, found);
  for (const AddedTokens::Part& part : found) {
    if (part.id != kNoToken) {
      ids.push_back(part.id);
      continue;
    }
    const std::string_view words = std::string_view(text).substr(part.span.begin, part.span.end - part.span.begin);
    FL_TRY(encode_words(words, at_start && !front_removed && part.span.begin == 0, work, ids));
  }
  return ok_status();
}

Status Tokenizer::encode_text(std::string_view text, Work& work, std::vector<int32_t>& ids) const {
  if (text.size() >= UINT32_MAX / 4) return invalid_argument("text of 1 GiB or more");
  std::vector<AddedTokens::Part> found;
  parts_->added.split(text, AddedTokens::Pass::kRaw, work.rule, found);
  for (const AddedTokens::Part& part : found) {
    if (part.id != kNoToken) {
      ids.push_back(part.id);
      continue;
    }
    FL_TRY(encode_plain(std::string(text.substr(part.span.begin, part.span.end - part.span.begin)),
                        part.span.begin == 0, work, ids));
  }
  return ok_status();
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  if (options.add_special) ids = parts_->prefix_ids;
  Work work;
  if (!options.parse_special) {
    work.rule.policy = AddedTokens::Policy::kNoControl;
    work.blocked = &parts_->control;
  }
  if (is_valid_utf8(text)) {
    FL_TRY(encode_text(text, work, ids));
  } else {
    FL_TRY(encode_text(replace_invalid_utf8(text), work, ids));
  }
  if (options.add_special) ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  return ids;
}

Result<std::vector<int32_t>> Tokenizer::encode_segments(std::span<const Segment> segments, bool add_special) const {
  std::string whole;
  std::vector<Span> trusted;
  bool all_trusted = true;
  for (const Segment& segment : segments) {
    const size_t begin = whole.size();
    // Each segment is repaired by itself: no broken bytes of one may swallow or complete a character of another.
    whole += is_valid_utf8(segment.text) ? segment.text : replace_invalid_utf8(segment.text);
    all_trusted = all_trusted && (segment.trusted || segment.text.empty());
    if (!segment.trusted || whole.size() == begin) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = whole.size();
    } else {
      trusted.push_back({begin, whole.size()});
    }
  }
  if (all_trusted) return encode(whole, {.add_special = add_special, .parse_special = true});
  std::vector<int32_t> ids;
  if (add_special) ids = parts_->prefix_ids;
  Work work;
  work.rule = {AddedTokens::Policy::kTrustedSpans, &trusted};
  work.blocked = &parts_->control;
  FL_TRY(encode_text(whole, work, ids));
  if (add_special) ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  Decoder::State state = parts_->decoder.begin();
  for (int32_t id : ids) push_token(*parts_, id, options, state, text);
  parts_->decoder.finish(state, text);
  return text;
}

std::string Tokenizer::token_bytes(int32_t id) const {
  if (!is_token(id)) return {};
  if (flag(parts_->raw_text, id)) return std::string(text_of(*parts_, id));
  return parts_->decoder.token_bytes(text_of(*parts_, id));
}

std::string Tokenizer::opening_bytes(std::span<const int32_t> before, int32_t id) const {
  std::vector<Decoder::Token> tokens;
  for (const int32_t one : before) tokens.push_back({text_of(*parts_, one), flag(parts_->raw_text, one)});
  if (!is_token(id)) return {};
  tokens.push_back({text_of(*parts_, id), flag(parts_->raw_text, id)});
  return parts_->decoder.opening_bytes(tokens);
}

bool Tokenizer::joins_bytes() const { return parts_->decoder.joins_bytes(); }

std::string_view Tokenizer::token_text(int32_t id) const { return text_of(*parts_, id); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const int32_t added = parts_->added_vocabulary.find(token);
  return optional_id(added != kNoToken ? added : parts_->vocabulary->find(token));
}

int32_t Tokenizer::vocab_size() const {
  return std::max(parts_->vocabulary->end_id(), parts_->added_vocabulary.end_id());
}

bool Tokenizer::is_token(int32_t id) const {
  return parts_->vocabulary->contains(id) || parts_->added_vocabulary.contains(id);
}

bool Tokenizer::is_special(int32_t id) const { return flag(parts_->special, id); }
bool Tokenizer::is_control(int32_t id) const { return flag(parts_->control, id); }
std::optional<int32_t> Tokenizer::bos_id() const { return optional_id(parts_->bos_id); }
std::optional<int32_t> Tokenizer::eos_id() const { return optional_id(parts_->eos_id); }
std::optional<int32_t> Tokenizer::unk_id() const { return optional_id(parts_->unk_id); }
std::optional<int32_t> Tokenizer::pad_id() const { return optional_id(parts_->pad_id); }

bool Tokenizer::adds_bos() const { return !parts_->prefix_ids.empty() && parts_->prefix_ids.front() == parts_->bos_id; }

bool Tokenizer::adds_eos() const { return !parts_->suffix_ids.empty() && parts_->suffix_ids.back() == parts_->eos_id; }

bool looks_like_chat_markup(std::string_view content) {
  if (content.size() < 3) return false;
  const bool angle = content.front() == '<' && content.back() == '>';
  const bool square = content.front() == '[' && content.back() == ']';
  if (!angle && !square) return false;
  std::string_view name = content.substr(1, content.size() - 2);
  constexpr std::string_view kWideBar = "\xEF\xBD\x9C";
  if (angle && name.size() >= 2 && name.front() == '|' && name.back() == '|') return true;
  if (angle && name.size() >= 2 * kWideBar.size() && name.starts_with(kWideBar) && name.ends_with(kWideBar))
    return true;
  if (name.front() == '/') name.remove_prefix(1);
  if (name.find_first_of(" \t\r\n<>") != std::string_view::npos) return false;
  constexpr std::string_view kNames[] = {"think", "INST", "s",   "bos", "eos", "pad",
                                         "unk",   "mask", "sep", "cls", "eot", "EOT"};
  return name.find('_') != std::string_view::npos ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Result<Tokenizer> finish_tokenizer(TokenizerDraft draft) {
  TokenizerParts& parts = draft.parts;
  FL_CHECK(parts.vocabulary != nullptr && parts.model.has_value());
  for (AddedToken& token : draft.added) {
    FL_TRY(parts.added_vocabulary.add(token.content, token.id).with_context("added tokens"));
    const bool named = token.id == parts.bos_id || token.id == parts.eos_id || token.id == parts.pad_id;
    token.control = token.control || token.special || named || looks_like_chat_markup(token.content);
    if (token.special) set_flag(parts.special, token.id);
    if (token.control) set_flag(parts.control, token.id);
  }
  for (int32_t id : draft.control_ids) set_flag(parts.control, id);
  for (int32_t id : draft.raw_text_ids) set_flag(parts.raw_text, id);
  parts.added = FL_TRY(AddedTokens::build(std::move(draft.added), parts.normalizer));
  return Tokenizer(std::make_shared<const TokenizerParts>(std::move(parts)));
}

}  // namespace firstlight::text
