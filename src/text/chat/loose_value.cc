// SPDX-License-Identifier: Apache-2.0
#include "text/chat/loose_value.h"

#include <string>

#include "base/json.h"
#include "text/chat/pattern.h"

namespace firstlight::text {
namespace {

constexpr int kMaxDepth = 100;

class Reader {
 public:
  Reader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  bool at_end() {
    at_ = skip_blanks(text_, at_);
    return at_ == text_.size();
  }
  bool take(char c) {
    at_ = skip_blanks(text_, at_);
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<Json> value(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (take('[')) return list(']', depth);
    if (take('(')) return list(')', depth);
    if (take('{')) return object(depth);
    if (auto text = string()) return Json(std::move(*text));
    return scalar(word());
  }

  // Up to a character that no bare word has.
  std::string word() {
    at_ = skip_blanks(text_, at_);
    const size_t begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_]) &&
           std::string_view("{}[](),:='\"").find(text_[at_]) == std::string_view::npos && !starts_quote()) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<std::string> string() {
    at_ = skip_blanks(text_, at_);
    if (starts_quote()) {
      const size_t begin = at_ + quote_.size();
      const size_t end = text_.find(quote_, begin);
      if (end == std::string_view::npos) return std::nullopt;
      at_ = end + quote_.size();
      return std::string(text_.substr(begin, end - begin));
    }
    if (at_ == text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return std::nullopt;
    const char mark = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != mark) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        escape(out);
      } else {
        out += text_[at_++];
      }
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return out;
  }

 private:
  bool starts_quote() const { return !quote_.empty() && text_.substr(at_).starts_with(quote_); }

  // JSON's and Python's common escapes; an unknown one stays as it is, as in Python.
  void escape(std::string& out) {
    const char c = text_[at_ + 1];
    static constexpr std::string_view kNames = "nrtbf0", kMeans{"\n\r\t\b\f\0", 6};
    const size_t known = kNames.find(c);
    if (c == 'u' || c == 'x') {
      if (code_point(c == 'u' ? 4 : 2, out)) return;
    } else if (known != std::string_view::npos) {
      out += kMeans[known];
      at_ += 2;
      return;
    } else if (c == '\\' || c == '"' || c == '\'' || c == '/') {
      out += c;
      at_ += 2;
      return;
    }
    out += text_[at_++];
  }

  // By way of a JSON string, which joins surrogates.
  bool code_point(size_t digits, std::string& out) {
    size_t length = 2 + digits;
    if (digits == 4 && text_.substr(at_ + length).starts_with("\\u")) length *= 2;
    for (const size_t tried : {length, 2 + digits}) {
      std::string escape(text_.substr(at_, tried));
      if (digits == 2 && escape.size() > 2) escape.replace(0, 2, "\\u00");
      const auto parsed = parse_json("\"" + escape + "\"");
      if (!parsed.ok() || tried > text_.size() - at_) continue;
      out += parsed->get<std::string>();
      at_ += tried;
      return true;
    }
    return false;
  }

  static std::optional<Json> scalar(const std::string& word) {
    if (word == "True") return Json(true);
    if (word == "False") return Json(false);
    if (word == "None") return Json(nullptr);
    auto parsed = parse_json(word);
    if (!parsed.ok()) return std::nullopt;
    return *std::move(parsed);
  }

  std::optional<Json> list(char close, int depth) {
    Json out = Json::array();
    while (!take(close)) {
      if (!out.empty() && !take(',')) return std::nullopt;
      if (!out.empty() && take(close)) break;
      auto one = value(depth + 1);
      if (!one) return std::nullopt;
      out.push_back(std::move(*one));
    }
    return out;
  }

  std::optional<Json> object(int depth) {
    Json out = Json::object();
    while (!take('}')) {
      if (!out.empty() && !take(',')) return std::nullopt;
      if (!out.empty() && take('}')) break;
      auto key = string();
      if (!key) key = word();
      if (key->empty() || !take(':')) return std::nullopt;
      auto one = value(depth + 1);
      if (!one) return std::nullopt;
      out[*key] = std::move(*one);
    }
    return out;
  }

  std::string_view text_, quote_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Json> read_loose_value(std::string_view text, std::string_view quote) {
  Reader reader(text, quote);
  auto value = reader.value(0);
  return value && reader.at_end() ? std::move(value) : std::nullopt;
}

std::optional<Json> read_keyword_arguments(std::string_view text) {
  Reader reader(text, "");
  Json out = Json::object();
  while (!reader.at_end()) {
    if (!out.empty() && !reader.take(',')) return std::nullopt;
    if (!out.empty() && reader.at_end()) break;
    const std::string key = reader.word();
    if (key.empty() || !reader.take('=')) return std::nullopt;
    auto one = reader.value(0);
    if (!one) return std::nullopt;
    out[key] = std::move(*one);
  }
  return out;
}

std::string read_cut_members(std::string_view text, std::string_view quote, bool python) {
  Reader reader(text, python ? "" : quote);
  if (!python && !reader.take('{')) return "";
  Json out = Json::object();
  while (!reader.at_end()) {
    if (!out.empty() && !reader.take(',')) break;
    auto key = python ? std::nullopt : reader.string();
    if (!key) key = reader.word();
    if (key->empty() || !reader.take(python ? '=' : ':')) break;
    auto one = reader.value(0);
    // A number, or a word, may go on.
    if (!one || (reader.at_end() && !one->is_structured() && !one->is_string())) break;
    out[*key] = std::move(*one);
  }
  if (out.empty()) return "";
  std::string json = dump_json(out);
  json.pop_back();
  return json;
}

}  // namespace firstlight::text
