// SPDX-License-Identifier: Apache-2.0
// See regex.h. PCRE2 10.42: \s there also takes U+180E, \w lacks marks, and there is no && in classes.
#include "text/tokenizers/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace firstlight::text {
namespace {

constexpr size_t kMaxPatternBytes = 64 * 1024;
// Enough for one linear scan with backtracking over some MB; an exponential pattern meets it within about a second.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr std::string_view kSpaceMembers = "\\t-\\r\\x{85}\\p{Z}";
constexpr std::string_view kWordMembers = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}";

// End of the class that starts at `pos` ('['), one past its ']'; nested classes and escapes are skipped over.
size_t class_end(std::string_view p, size_t pos) {
  size_t i = pos + 1;
  if (i < p.size() && p[i] == '^') ++i;
  if (i < p.size() && p[i] == ']') ++i;
  while (i < p.size() && p[i] != ']') {
    if (p[i] == '\\') {
      i += 2;
    } else if (p[i] == '[' && i + 1 < p.size() && p[i + 1] == ':') {
      const size_t close = p.find(":]", i + 2);
      i = close == std::string_view::npos ? p.size() : close + 2;
    } else {
      ++i;
    }
  }
  return std::min(i + 1, p.size());
}

// As class_end, for a class with && in it, where '[' opens a nested class.
size_t nested_class_end(std::string_view p, size_t pos) {
  int depth = 0;
  for (size_t i = pos; i < p.size(); ++i) {
    if (p[i] == '\\') {
      ++i;
    } else if (p[i] == '[') {
      ++depth;
    } else if (p[i] == ']' && --depth == 0) {
      return i + 1;
    }
  }
  return p.size();
}

// The members of a class (without brackets) with \s and \w written out.
std::string class_members(std::string_view members) {
  std::string out;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == '\\' && i + 1 < members.size()) {
      const char escaped = members[++i];
      if (escaped == 's') {
        out += kSpaceMembers;
      } else if (escaped == 'w') {
        out += kWordMembers;
      } else {
        out += '\\';
        out += escaped;
      }
    } else if (members[i] == '[' && !(i + 1 < members.size() && members[i + 1] == ':')) {
      out += "\\[";
    } else {
      out += members[i];
    }
  }
  return out;
}

// [A&&[^B]] becomes (?:(?![B])[A]), [A&&[B]] becomes (?:(?=[B])[A]).
std::string class_with_intersection(std::string_view body) {
  const size_t split = body.find("&&");
  const std::string_view left = body.substr(0, split);
  std::string_view right = body.substr(split + 2);
  if (right.size() >= 2 && right.front() == '[' && right.back() == ']') right = right.substr(1, right.size() - 2);
  const bool negated = !right.empty() && right.front() == '^';
  if (negated) right.remove_prefix(1);
  return std::string(negated ? "(?:(?![" : "(?:(?=[") + class_members(right) + "])[" + class_members(left) + "])";
}

}  // namespace

std::string to_pcre2_dialect(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[i + 1];
      if (escaped == 's' || escaped == 'S') {
        out.append(escaped == 's' ? "[" : "[^").append(kSpaceMembers).append("]");
      } else if (escaped == 'w' || escaped == 'W') {
        out.append(escaped == 'w' ? "[" : "[^").append(kWordMembers).append("]");
      } else {
        out.append(pattern, i, 2);
      }
      i += 2;
    } else if (pattern[i] == '[') {
      const std::string_view rest = pattern.substr(i);
      const size_t nested_end = nested_class_end(rest, 0);
      const std::string_view nested = rest.substr(0, nested_end);
      if (nested.size() > 2 && nested.find("&&[") != std::string_view::npos && nested.back() == ']') {
        out += class_with_intersection(nested.substr(1, nested.size() - 2));
        i += nested_end;
        continue;
      }
      const size_t end = class_end(pattern, i);
      out += '[';
      out += class_members(pattern.substr(i + 1, end - i - 1));
      i = end;
    } else {
      out += pattern[i++];
    }
  }
  return out;
}

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }
};

Result<Regex> Regex::compile(std::string_view pattern, Options options) {
  if (pattern.size() > kMaxPatternBytes) {
    return invalid_data("regular expression of " + std::to_string(pattern.size()) + " bytes, at most 65536 are read");
  }
  const std::string translated = to_pcre2_dialect(pattern);
  auto compiled = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
  if (options.line_anchors) flags |= PCRE2_MULTILINE;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), flags, &error,
                                 &offset, nullptr);
  if (compiled->code == nullptr) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof message);
    return invalid_data("regular expression '" + std::string(pattern) + "': " + reinterpret_cast<char*>(message));
  }
  // Without JIT (a machine that forbids it) the interpreter is used; the result is the same.
  (void)pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->context = pcre2_match_context_create(nullptr);
  if (compiled->context == nullptr) return out_of_memory("regular expression: no memory for a match context");
  pcre2_set_match_limit(compiled->context, kMatchLimit);
  pcre2_set_heap_limit(compiled->context, kHeapLimitKib);
  Regex regex;
  regex.code_ = std::move(compiled);
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
    if (!plain && byte >= 0x20 && byte != 0x7F) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Status Regex::find_all(std::string_view text, std::vector<Span>& matches) const {
  if (text.empty()) return ok_status();
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), &pcre2_match_data_free);
  if (!data) return out_of_memory("regular expression: no memory for match data");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t pos = 0;
  bool after_empty = false;
  while (pos <= text.size()) {
    const uint32_t flags = PCRE2_NO_UTF_CHECK | (after_empty ? PCRE2_NOTEMPTY_ATSTART : 0u);
    int found = pcre2_match(code_->code, subject, text.size(), pos, flags, data.get(), code_->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code_->code, subject, text.size(), pos, flags | PCRE2_NO_JIT, data.get(), code_->context);
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return unsupported("regular expression: matching stopped at byte " + std::to_string(pos) +
                         " because its step or memory limit was reached (code " + std::to_string(found) + ")");
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[1] < ends[0]) break;  // \K inside a lookahead
    matches.push_back({ends[0], ends[1]});
    after_empty = ends[0] == ends[1];
    pos = std::max<size_t>(ends[1], pos);
  }
  return ok_status();
}

}  // namespace firstlight::text
