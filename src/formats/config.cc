// SPDX-License-Identifier: Apache-2.0
#include "formats/config.h"

#include <limits>
#include <set>
#include <vector>

#include "formats/tensor_file.h"

namespace firstlight::formats {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr int kMaxDepth = 64;
// An ordered object looks its keys up one by one: this bounds the time a hostile file takes to a second or two.
constexpr size_t kMaxKeys = 20'000;

// A key may hold what the file likes, so a marker must be unlike any string of the file: it begins with a NUL, and
// texts with an escaped NUL are refused.
constexpr std::string_view kMarker = "\\u0000number ";

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Python writes NaN, Infinity and -Infinity where JSON has no word. Outside strings they become marked strings here and
// numbers in restore_numbers().
Result<std::string> mark_python_numbers(std::string_view text) {
  if (text.find("\\u0000") != std::string_view::npos) return invalid_data("a string holds the character NUL");
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    bool is_marked = false;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (!text.substr(i).starts_with(word) || (i > 0 && (is_word_byte(text[i - 1]) || text[i - 1] == '-'))) continue;
      if (i + word.size() < text.size() && is_word_byte(text[i + word.size()])) continue;
      out.append("\"").append(kMarker).append(word).append("\"");
      i += word.size() - 1;
      is_marked = true;
      break;
    }
    if (!is_marked) out += c;
  }
  return out;
}

// Watches the events of the parser: keys per object, keys that occur twice, marked words used as keys.
class KeyWatch final : public nlohmann::json_sax<Json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool key(string_t& name) override {
    auto& keys = open_.back();
    if (name.starts_with('\0')) return fail("a number where a key is wanted");
    if (!keys.insert(name).second) return fail("key " + quote_name(name) + " occurs twice in one object");
    return keys.size() <= kMaxKeys || fail("more than " + std::to_string(kMaxKeys) + " keys in one object");
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;  // left to parse_json, which says where
  }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool enter() {
    open_.emplace_back();
    return open_.size() <= kMaxDepth || fail("nested deeper than " + std::to_string(kMaxDepth));
  }
  bool leave() {
    open_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> open_;
  std::string problem_;
};

void restore_numbers(Json& value) {
  if (value.is_structured()) {
    for (Json& child : value) restore_numbers(child);
  } else if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (!text.starts_with('\0')) return;
    const double infinity = std::numeric_limits<double>::infinity();
    value = text.ends_with("NaN") ? std::numeric_limits<double>::quiet_NaN()
                                  : (text.ends_with("-Infinity") ? -infinity : infinity);
  }
}

}  // namespace

Result<Json> parse_config(std::string_view text) {
  if (text.size() > kMaxConfigBytes) {
    return invalid_data(std::to_string(text.size()) + " bytes of JSON, at most " + std::to_string(kMaxConfigBytes) +
                        " wanted");
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::string marked = FL_TRY(mark_python_numbers(text));
  KeyWatch watch;
  Json::sax_parse(marked, &watch);
  if (!watch.problem().empty()) return invalid_data("JSON: " + watch.problem());
  Json value = FL_TRY(parse_json(marked, kMaxDepth));
  if (!value.is_object()) return invalid_data("JSON: found " + std::string(value.type_name()) + ", an object wanted");
  restore_numbers(value);
  return value;
}

Result<Json> read_config(const std::string& path) {
  const std::string text = FL_TRY(read_text_file(path, kMaxConfigBytes));
  return parse_config(text).with_context(describe_file(path));
}

Result<ModelConfigs> read_model_configs(const HfDirectory& directory) {
  if (!directory.config) return not_found(directory.root + ": no config.json");
  ModelConfigs configs;
  configs.config = FL_TRY(read_config(*directory.config));
  if (directory.generation_config) configs.generation_config = FL_TRY(read_config(*directory.generation_config));
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto found = configs.config.find(key);
    if (found == configs.config.end() || found->is_null()) continue;
    configs.quantization_config = *found;
    configs.quantization_source = key;
    return configs;
  }
  if (directory.hf_quant_config) {
    configs.quantization_config = FL_TRY(read_config(*directory.hf_quant_config));
    configs.quantization_source = *directory.hf_quant_config;
  }
  return configs;
}

}  // namespace firstlight::formats
