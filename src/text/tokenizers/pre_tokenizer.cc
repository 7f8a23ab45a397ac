// SPDX-License-Identifier: Apache-2.0
// See pre_tokenizer.h. Every step turns a word into spans with a flag "matched" and joins those by the split behaviour.
#include "text/tokenizers/pre_tokenizer.h"

#include <utility>

#include "text/tokenizers/byte_alphabet.h"
#include "text/unicode.h"

namespace firstlight::text {
namespace {

// Scripts besides Common and the three that Japanese mixes.
constexpr std::string_view kScripts[] = {
    "Adlam",
    "Ahom",
    "Anatolian_Hieroglyphs",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Bassa_Vah",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Canadian_Aboriginal",
    "Carian",
    "Caucasian_Albanian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Duployan",
    "Egyptian_Hieroglyphs",
    "Elbasan",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Imperial_Aramaic",
    "Inherited",
    "Inscriptional_Pahlavi",
    "Inscriptional_Parthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Kayah_Li",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Linear_A",
    "Linear_B",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Meetei_Mayek",
    "Mende_Kikakui",
    "Meroitic_Cursive",
    "Meroitic_Hieroglyphs",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "New_Tai_Lue",
    "Newa",
    "Nko",
    "Ogham",
    "Ol_Chiki",
    "Old_Hungarian",
    "Old_Italic",
    "Old_North_Arabian",
    "Old_Permic",
    "Old_Persian",
    "Old_South_Arabian",
    "Old_Turkic",
    "Oriya",
    "Osage",
    "Osmanya",
    "Pahawh_Hmong",
    "Palmyrene",
    "Pau_Cin_Hau",
    "Phags_Pa",
    "Phoenician",
    "Psalter_Pahlavi",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "SignWriting",
    "Sinhala",
    "Sora_Sompeng",
    "Sundanese",
    "Syloti_Nagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Tai_Le",
    "Tai_Tham",
    "Tai_Viet",
    "Takri",
    "Tamil",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Ugaritic",
    "Vai",
    "Warang_Citi",
    "Yi",
};

struct Piece {
  Span span;
  bool matched = false;
};

// The spans of the text with the gaps between matches filled in. Empty matches cut the gap they fall into.
void fill_gaps(std::string_view text, const std::vector<Span>& matches, bool invert, std::vector<Piece>& pieces) {
  size_t at = 0;
  for (const Span& match : matches) {
    if (match.begin > at) pieces.push_back({{at, match.begin}, invert});
    if (match.end > match.begin) pieces.push_back({match, !invert});
    at = match.end;
  }
  if (at < text.size()) pieces.push_back({{at, text.size()}, invert});
}

// Joins matched pieces to their neighbours; with kMergedWithNext the list is walked from the end.
std::vector<Piece> join_pieces(const std::vector<Piece>& pieces, SplitBehavior behavior) {
  std::vector<Piece> joined;
  bool previous = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool backward = behavior == SplitBehavior::kMergedWithNext;
    const Piece& piece = pieces[backward ? pieces.size() - 1 - i : i];
    const bool joins = behavior == SplitBehavior::kContiguous ? piece.matched == previous : piece.matched && !previous;
    previous = piece.matched;
    if (!joins || joined.empty()) {
      joined.push_back(piece);
    } else if (backward) {
      joined.back().span.begin = piece.span.begin;
    } else {
      joined.back().span.end = piece.span.end;
    }
  }
  if (behavior == SplitBehavior::kMergedWithNext) joined = std::vector<Piece>(joined.rbegin(), joined.rend());
  return joined;
}

void emit_pieces(const WordList::Word& word, const std::vector<Piece>& pieces, SplitBehavior behavior,
                 std::vector<WordList::Word>& out) {
  const auto emit = [&](const Span& span) {
    if (span.end > span.begin) {
      out.push_back({word.text.substr(span.begin, span.end - span.begin), word.at_start && span.begin == 0});
    }
  };
  if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
    for (const Piece& piece : pieces) {
      if (behavior == SplitBehavior::kIsolated || !piece.matched) emit(piece.span);
    }
    return;
  }
  for (const Piece& piece : join_pieces(pieces, behavior)) emit(piece.span);
}

Status split_by_regex(const WordList::Word& word, const Regex& pattern, SplitBehavior behavior, bool invert,
                      std::vector<WordList::Word>& out) {
  std::vector<Span> matches;
  FL_TRY(pattern.find_all(word.text, matches));
  std::vector<Piece> pieces;
  pieces.reserve(matches.size() + 1);
  fill_gaps(word.text, matches, invert, pieces);
  emit_pieces(word, pieces, behavior, out);
  return ok_status();
}

// One piece per matching character, one per run of others.
template <typename Predicate>
void split_by_char(const WordList::Word& word, SplitBehavior behavior, Predicate matches,
                   std::vector<WordList::Word>& out) {
  std::vector<Piece> pieces;
  for (size_t pos = 0; pos < word.text.size();) {
    const CodePoint point = decode_utf8(word.text, pos);
    const size_t end = pos + point.length;
    const bool matched = matches(point.value);
    if (matched || pieces.empty() || pieces.back().matched) {
      pieces.push_back({{pos, end}, matched});
    } else {
      pieces.back().span.end = end;
    }
    pos = end;
  }
  emit_pieces(word, pieces, behavior, out);
}

// Runs of equal `kind(c)`; runs of kind 0 are dropped.
template <typename Kind>
void split_runs(const WordList::Word& word, Kind kind, std::vector<WordList::Word>& out) {
  int current = 0;
  size_t begin = 0;
  const auto finish = [&](size_t end) {
    if (current != 0 && end > begin) {
      out.push_back({word.text.substr(begin, end - begin), word.at_start && begin == 0});
    }
    begin = end;
  };
  for (size_t pos = 0; pos < word.text.size();) {
    const CodePoint point = decode_utf8(word.text, pos);
    const int next = kind(point.value);
    if (next != current) finish(pos);
    current = next;
    pos += point.length;
  }
  finish(word.text.size());
}

using Words = std::vector<WordList::Word>;

Status step(const pretok::ByteLevel& spec, WordList& list) {
  Words split;
  for (const WordList::Word& word : list.words) {
    WordList::Word prefixed = word;
    if (spec.add_prefix_space && !word.text.starts_with(' ')) {
      prefixed.text = list.storage.emplace_back(" " + std::string(word.text));
    }
    if (!spec.use_regex) {
      split.push_back(prefixed);
    } else {
      FL_TRY(split_by_regex(prefixed, spec.pattern, SplitBehavior::kIsolated, false, split));
    }
  }
  size_t total = 0;
  for (const WordList::Word& word : split) total += word.text.size();
  std::string& mapped = list.storage.emplace_back();
  mapped.reserve(total * 2);  // no reallocation: the words view it
  for (WordList::Word& word : split) {
    const size_t begin = mapped.size();
    append_byte_alphabet(mapped, word.text);
    word.text = std::string_view(mapped).substr(begin);
  }
  list.words = std::move(split);
  return ok_status();
}

Status step(const pretok::Metaspace& spec, WordList& list) {
  Words out;
  for (const WordList::Word& word : list.words) {
    std::string text;
    for (char c : word.text) {
      if (c == ' ') {
        text += spec.replacement;
      } else {
        text += c;
      }
    }
    const bool wants_prefix =
        spec.prefix == pretok::Prefix::kAlways || (spec.prefix == pretok::Prefix::kFirst && word.at_start);
    if (wants_prefix && !text.starts_with(spec.replacement)) text.insert(0, spec.replacement);
    const std::string_view kept = list.storage.emplace_back(std::move(text));
    if (!spec.split) {
      out.push_back({kept, word.at_start});
      continue;
    }
    const char32_t mark = decode_utf8(spec.replacement, 0).value;
    split_by_char(
        {kept, word.at_start}, SplitBehavior::kMergedWithNext, [mark](char32_t c) { return c == mark; }, out);
  }
  list.words = std::move(out);
  return ok_status();
}

Status step(const pretok::Split& spec, WordList& list) {
  Words out;
  for (const WordList::Word& word : list.words) {
    FL_TRY(split_by_regex(word, spec.pattern, spec.behavior, spec.invert, out));
  }
  list.words = std::move(out);
  return ok_status();
}

Status step(const pretok::CharSplit& spec, WordList& list) {
  Words out;
  for (const WordList::Word& word : list.words) {
    switch (spec.kind) {
      case pretok::CharClass::kWhiteSpace:
        split_by_char(word, spec.behavior, is_white_space, out);
        break;
      case pretok::CharClass::kNumeric:
        split_by_char(word, spec.behavior, is_numeric, out);
        break;
      case pretok::CharClass::kPunctuation:
        split_by_char(
            word, spec.behavior, [](char32_t c) { return is_ascii_punctuation(c) || is_punctuation(c); }, out);
        break;
    }
  }
  list.words = std::move(out);
  return ok_status();
}

Status step(const pretok::Whitespace&, WordList& list) {
  Words out;
  for (const WordList::Word& word : list.words) {
    split_runs(
        word, [](char32_t c) { return is_white_space(c) ? 0
                                      : is_word(c)      ? 1
                                                        : 2; }, out);
  }
  list.words = std::move(out);
  return ok_status();
}

Status step(const pretok::FixedLength& spec, WordList& list) {
  Words out;
  for (const WordList::Word& word : list.words) {
    size_t begin = 0;
    size_t num_chars = 0;
    for (size_t pos = 0; pos < word.text.size();) {
      pos += decode_utf8(word.text, pos).length;
      if (++num_chars < spec.num_chars && pos < word.text.size()) continue;
      out.push_back({word.text.substr(begin, pos - begin), word.at_start && begin == 0});
      begin = pos;
      num_chars = 0;
    }
  }
  list.words = std::move(out);
  return ok_status();
}

}  // namespace

Status PreTokenizer::apply(WordList& list) const {
  for (const PreTokenizerStep& item : steps_) {
    FL_TRY(std::visit([&list](const auto& one) { return step(one, list); }, item));
  }
  return ok_status();
}

std::string_view byte_level_pattern() {
  return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
}

std::string unicode_scripts_pattern() {
  // A space and a code point of no script stay with what stands before them; what stands before the first script is
  // dropped.
  constexpr std::string_view kTail = "[ \\p{sc:Unknown}]*)+";
  std::string pattern = "(?:[\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30FC}]";
  pattern.append(kTail).append("|(?:(?![ \\x{30FC}])\\p{sc:Common}").append(kTail);
  for (std::string_view name : kScripts) pattern.append("|(?:\\p{sc:").append(name).append("}").append(kTail);
  return pattern;
}

}  // namespace firstlight::text
