// SPDX-License-Identifier: Apache-2.0
#include "adapt/quant_policy.h"

#include <charconv>
#include <filesystem>

#include "base/file_map.h"
#include "base/json.h"
#include "base/toml.h"

namespace firstlight::adapt {
namespace {

constexpr std::pair<std::string_view, QuantFormat> kNames[] = {{"int8", QuantFormat::kInt8},
                                                               {"int4", QuantFormat::kInt4},
                                                               {"fp8", QuantFormat::kFp8},
                                                               {"mxfp4", QuantFormat::kMxfp4}};
constexpr int64_t kVersion = 1;

// One [[rule]].
class RuleReader {
 public:
  RuleReader(const Json& table, std::string place) : table_(table), place_(std::move(place)) {}

  Result<std::vector<QuantRule>> run() {
    if (!table_.is_object()) return wrong("a table wanted");
    for (const auto& [key, value] : table_.items()) {
      if (key != "store" && key != "group" && key != "modules") {
        return wrong("key '" + key + "': store, group and modules are known");
      }
    }
    const std::optional<QuantChoice> choice = FL_TRY(read_choice());
    if (!table_.contains("modules") || !table_["modules"].is_array() || table_["modules"].empty()) {
      return wrong("modules: a list of names wanted");
    }
    std::vector<QuantRule> rules;
    for (const Json& module : table_["modules"]) {
      if (!module.is_string() || module.get_ref<const std::string&>().empty()) {
        return wrong("modules: found " + dump_json(module) + ", a name wanted");
      }
      rules.push_back({.modules = module.get<std::string>(), .choice = choice, .said = place_});
    }
    return rules;
  }

 private:
  Status wrong(const std::string& what) const { return invalid_data(place_ + ": " + what); }

  Result<std::optional<QuantChoice>> read_choice() {
    if (!table_.contains("store") || !table_["store"].is_string()) {
      return wrong("store: int8, int4, fp8, mxfp4 or keep wanted");
    }
    const auto word = table_["store"].get<std::string>();
    std::optional<int64_t> group;
    if (table_.contains("group")) {
      if (!table_["group"].is_number_integer()) return wrong("group: a number of columns wanted");
      group = table_["group"].get<int64_t>();
    }
    if (word == "keep") {
      if (group) return wrong("group: what stays has no scales");
      return std::optional<QuantChoice>();
    }
    const auto format = quant_format_from_name(word);
    if (!format) return wrong("store = \"" + word + "\": int8, int4, fp8, mxfp4 or keep wanted");
    auto choice = QuantChoice::make(*format, group);
    if (!choice.ok()) return wrong(choice.status().message());
    return std::optional<QuantChoice>(*choice);
  }

  const Json& table_;
  std::string place_;
};

}  // namespace

std::string_view quant_format_name(QuantFormat format) {
  for (const auto& [name, known] : kNames) {
    if (known == format) return name;
  }
  return "";
}

std::optional<QuantFormat> quant_format_from_name(std::string_view name) {
  for (const auto& [known, format] : kNames) {
    if (known == name) return format;
  }
  return std::nullopt;
}

Result<QuantChoice> QuantChoice::make(QuantFormat format, std::optional<int64_t> group) {
  QuantChoice choice{.format = format};
  if (!choice.packs_integers()) {
    choice.group = format == QuantFormat::kFp8 ? 128 : 32;
    if (!group) return choice;
    return invalid_argument("a group is for int8 and int4, " + std::string(quant_format_name(format)) + " has its own");
  }
  choice.group = group.value_or(kDefaultGroup);
  if (choice.group < 32 || choice.group % 32 != 0 || choice.group > (1 << 16)) {
    return invalid_argument("groups of " + std::to_string(choice.group) + " columns: a multiple of 32 wanted");
  }
  return choice;
}

Result<QuantChoice> QuantChoice::parse(std::string_view word) {
  const size_t colon = word.find(':');
  const auto format = quant_format_from_name(word.substr(0, colon));
  std::optional<int64_t> group;
  bool sound = format.has_value();
  if (colon != std::string_view::npos) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data() + colon + 1, word.data() + word.size(), number);
    sound = sound && error == std::errc() && end == word.data() + word.size();
    group = number;
  }
  if (sound) return make(*format, group);
  return invalid_argument("'" + std::string(word) + "': int8, int4, fp8 or mxfp4 wanted, int8 and int4 with a group " +
                          "of columns if need be (int4:32)");
}

std::string QuantChoice::name() const {
  return std::string(quant_format_name(format)) + (packs_integers() ? ":" + std::to_string(group) : "");
}

QuantPolicy uniform_policy(const QuantChoice& choice, const std::vector<std::string>& keep) {
  QuantPolicy policy;
  for (const std::string& modules : keep) policy.rules.push_back({.modules = modules, .choice = {}, .said = "--keep"});
  policy.rules.push_back(
      {.modules = "*", .choice = choice, .said = "--to " + std::string(quant_format_name(choice.format))});
  return policy;
}

Result<QuantPolicy> parse_policy(std::string_view text, const std::string& name) {
  const Json document = FL_TRY(parse_toml(text).with_context(name));
  for (const auto& [key, value] : document.items()) {
    if (key != "version" && key != "rule")
      return invalid_data(name + ": key '" + key + "': version and rule are known");
  }
  if (!document.contains("version") || document["version"] != kVersion) {
    return invalid_data(name + ": version = " + std::to_string(kVersion) + " wanted");
  }
  if (!document.contains("rule") || !document["rule"].is_array() || document["rule"].empty()) {
    return invalid_data(name + ": no [[rule]]");
  }
  QuantPolicy policy;
  int number = 0;
  for (const Json& table : document["rule"]) {
    RuleReader reader(table, "rule " + std::to_string(++number) + " of " + name);
    for (QuantRule& rule : FL_TRY(reader.run())) policy.rules.push_back(std::move(rule));
  }
  return policy;
}

Result<QuantPolicy> read_policy(const std::string& path) {
  const std::string text = FL_TRY(read_text_file(path));
  return parse_policy(text, std::filesystem::path(path).filename().string());
}

std::string policy_text(const QuantPolicy& policy, const std::vector<std::string>& head) {
  std::string text;
  for (const std::string& line : head) text += "# " + line + "\n";
  text += "version = " + std::to_string(kVersion) + "\n";
  const std::optional<QuantChoice>* last = nullptr;
  for (const QuantRule& rule : policy.rules) {
    if (last == nullptr || *last != rule.choice) {
      if (last != nullptr) text += "]\n";
      text += "\n[[rule]]\nstore = \"" +
              (rule.choice ? std::string(quant_format_name(rule.choice->format)) : std::string("keep")) + "\"\n";
      if (rule.choice && rule.choice->packs_integers()) text += "group = " + std::to_string(rule.choice->group) + "\n";
      text += "modules = [\n";
    }
    last = &rule.choice;
    text += "  " + dump_json(Json(rule.modules)) + ",\n";  // a JSON string is a basic string of TOML
  }
  return last == nullptr ? text : text + "]\n";
}

}  // namespace firstlight::adapt
