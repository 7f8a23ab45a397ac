// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "text/grammar/json_number.h"
#include "text/grammar/json_text.h"
#include "text/grammar/schema_merge.h"

namespace firstlight::text::grammar {
namespace {

constexpr int kMostNested = 200;

struct Keyword {
  std::string_view name;
  std::string_view type;  // the type it speaks of; "": any
};
constexpr std::array kKeywords = {
    Keyword{"type", ""},
    Keyword{"enum", ""},
    Keyword{"const", ""},
    Keyword{"anyOf", ""},
    Keyword{"oneOf", ""},
    Keyword{"allOf", ""},
    Keyword{"$ref", ""},
    Keyword{"properties", "object"},
    Keyword{"required", "object"},
    Keyword{"additionalProperties", "object"},
    Keyword{"items", "array"},
    Keyword{"prefixItems", "array"},
    Keyword{"minItems", "array"},
    Keyword{"maxItems", "array"},
    Keyword{"minLength", "string"},
    Keyword{"maxLength", "string"},
    Keyword{"pattern", "string"},
    Keyword{"format", "string"},
    Keyword{"minimum", "number"},
    Keyword{"maximum", "number"},
    Keyword{"exclusiveMinimum", "number"},
    Keyword{"exclusiveMaximum", "number"},
};

const Keyword* find_keyword(const std::string& name) {
  const auto found = std::find_if(kKeywords.begin(), kKeywords.end(), [&](const Keyword& k) { return k.name == name; });
  return found == kKeywords.end() ? nullptr : &*found;
}

// A part of a place, for messages.
std::string shown(std::string_view name) { return pointer_part(name.substr(0, 100)); }

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& document, StringSpelling strings)
      : document_(document), merger_(document), text_(grammar_, std::move(strings)) {}

  Result<Grammar> compile(const std::string& root) {
    grammar_.set_root(rule_of(root));
    while (!pending_.empty()) {
      const auto [reference, rule] = pending_.front();
      pending_.pop_front();
      const std::string at = reference.substr(1);
      auto target = merger_.find(reference);
      if (!target.ok()) return fault(at, target.status());
      grammar_.define(rule, FL_TRY(schema(**target, at, 0)));
    }
    return std::move(grammar_);
  }

 private:
  static Status fault(const std::string& at, const Status& why) {
    return Status(why.code(), why.message()).with_context("JSON Schema at '" + at + "'");
  }
  static Status malformed(const std::string& at, const std::string& what) { return fault(at, invalid_argument(what)); }

  // The rule of what a reference names; it is written when its turn comes, so schemas may go on into themselves.
  RuleId rule_of(const std::string& reference) {
    const auto [found, is_new] = rules_.try_emplace(reference, -1);
    if (is_new) {
      found->second = grammar_.add_rule(reference);
      pending_.emplace_back(reference, found->second);
    }
    return found->second;
  }

  Result<ExprId> schema(const Json& schema, const std::string& at, int depth) {
    if (depth > kMostNested) return malformed(at, "too many schemas inside one another");
    if (!grammar_.status().ok()) return fault(at, grammar_.status());
    if (schema.is_boolean()) return schema.get<bool>() ? text_.any_value() : grammar_.nothing();
    if (!schema.is_object()) return malformed(at, "neither an object nor a boolean");
    FL_TRY(check_keywords(schema, at));
    if (schema.contains("$ref") && num_assertions(schema) == 1) {
      const Json& reference = schema["$ref"];
      if (!reference.is_string()) return malformed(at + "/$ref", "a string wanted");
      const auto target = merger_.find(reference.get<std::string>());
      if (!target.ok()) return fault(at + "/$ref", target.status());
      return grammar_.call(rule_of(reference.get<std::string>()));
    }
    if (schema.contains("$ref") || schema.contains("allOf")) {
      const auto flat = merger_.flatten(schema);
      if (!flat.ok()) return fault(at, flat.status());
      return this->schema(*flat, at, depth + 1);
    }
    if (schema.contains("anyOf")) return any_of(schema, "anyOf", at, depth);
    if (schema.contains("oneOf")) return any_of(schema, "oneOf", at, depth);
    if (schema.contains("enum") || schema.contains("const")) return constants(schema, at);
    return by_type(schema, at, depth);
  }

  static size_t num_assertions(const Json& schema) {
    size_t count = 0;
    for (const auto& [name, unused] : schema.items()) count += is_annotation(name) ? 0 : 1;
    return count;
  }

  static Status check_keywords(const Json& schema, const std::string& at) {
    for (const auto& [name, value] : schema.items()) {
      const bool moves_references = name == "$id" && !at.empty();
      if (moves_references || (!is_annotation(name) && find_keyword(name) == nullptr)) {
        return fault(at + shown(name), unsupported("this keyword is not supported"));
      }
    }
    return ok_status();
  }

  Result<ExprId> any_of(const Json& schema, const std::string& keyword, const std::string& at, int depth) {
    const Json& list = schema[keyword];
    const std::string list_at = at + "/" + keyword;
    if (!list.is_array() || list.empty()) return malformed(list_at, "a list of schemas wanted");
    Json rest = Json::object();
    for (const auto& [name, value] : schema.items()) {
      if (name != keyword && !is_annotation(name)) rest[name] = value;
    }
    std::vector<ExprId> ways;
    std::vector<Json> branches;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string branch_at = list_at + "/" + std::to_string(i);
      if (list[i].is_object()) FL_TRY(check_keywords(list[i], branch_at));
      auto branch = merger_.merge(list[i], rest);
      if (!branch.ok()) return fault(branch_at, branch.status());
      ways.push_back(FL_TRY(this->schema(*branch, branch_at, depth + 1)));
      if (keyword == "oneOf") branches.push_back(std::move(*branch));
    }
    for (size_t i = 0; i < branches.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto apart = merger_.are_apart(branches[i], branches[j]);
        if (!apart.ok()) return fault(list_at, apart.status());
        if (*apart) continue;
        return fault(list_at, unsupported("schemas " + std::to_string(j) + " and " + std::to_string(i) +
                                          " may both allow a value: neither types, constants nor required members "
                                          "with constants keep them apart (anyOf would do)"));
      }
    }
    return grammar_.choice(std::move(ways));
  }

  Result<ExprId> constants(const Json& schema, const std::string& at) {
    Json values = schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]});
    if (!values.is_array()) return malformed(at + "/enum", "a list wanted");
    for (const auto& [name, unused] : schema.items()) {
      if (name == "enum" || name == "const" || name == "type" || is_annotation(name)) continue;
      return fault(at + shown(name), unsupported("beside enum or const"));
    }
    const auto types = schema.contains("type") ? FL_TRY(type_list(schema, at)) : types_of(Json::object());
    std::erase_if(values.get_ref<Json::array_t&>(), [&](const Json& value) {
      const bool is_typed = std::find(types.begin(), types.end(), type_of(value)) != types.end();
      return !is_typed || (schema.contains("const") && value != schema["const"]);
    });
    return text_.one_of(values);
  }

  // The schema's types, "integer" beside "number" always.
  static Result<std::vector<std::string>> type_list(const Json& schema, const std::string& at) {
    const auto known = types_of(Json::object());
    const Json& type = schema["type"];
    for (const Json& one : type.is_array() ? type : Json::array({type})) {
      if (!one.is_string() || std::find(known.begin(), known.end(), one.get<std::string>()) == known.end()) {
        return malformed(at + "/type", "one or a list of null, boolean, object, array, string, number, integer wanted");
      }
    }
    return types_of(schema);
  }

  Result<ExprId> by_type(const Json& schema, const std::string& at, int depth) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      types = FL_TRY(type_list(schema, at));
    } else {
      // The types its keywords speak of; the draft would allow every other type as well.
      for (const auto& [name, unused] : schema.items()) {
        const Keyword* keyword = find_keyword(name);
        if (keyword == nullptr || keyword->type.empty()) continue;
        if (std::find(types.begin(), types.end(), keyword->type) == types.end()) types.emplace_back(keyword->type);
      }
      if (types.empty()) return text_.any_value();
    }
    std::vector<ExprId> ways;
    const bool has_number = std::find(types.begin(), types.end(), "number") != types.end();
    for (const std::string& type : types) {
      if (type == "integer" && has_number) continue;
      ways.push_back(FL_TRY(of_type(type, schema, at, depth)));
    }
    return grammar_.choice(std::move(ways));
  }

  Result<ExprId> of_type(const std::string& type, const Json& schema, const std::string& at, int depth) {
    if (type == "null") return grammar_.text("null");
    if (type == "boolean") return grammar_.one_of({"true", "false"});
    if (type == "object") return object(schema, at, depth);
    if (type == "array") return array(schema, at, depth);
    if (type == "string") return string(schema, at);
    return number(schema, at, type == "integer");
  }

  // A count that is not negative. Absent: `otherwise`.
  static Result<int32_t> count(const Json& schema, const char* name, int32_t otherwise, const std::string& at) {
    const auto found = schema.find(name);
    if (found == schema.end()) return otherwise;
    const bool is_whole = type_of(*found) == "integer";
    if (!is_whole || found->get<double>() < 0 || found->get<double>() > kMostRepeats) {
      return malformed(at + "/" + name, "an integer from 0 to " + std::to_string(kMostRepeats) + " wanted");
    }
    return static_cast<int32_t>(found->get<double>());
  }

  Result<ExprId> string(const Json& schema, const std::string& at) {
    const int32_t min = FL_TRY(count(schema, "minLength", 0, at));
    const int32_t max = FL_TRY(count(schema, "maxLength", kUnbounded, at));
    const bool has_length = min > 0 || max != kUnbounded;
    for (const char* keyword : {"pattern", "format"}) {
      const auto found = schema.find(keyword);
      if (found == schema.end()) continue;
      const std::string keyword_at = at + "/" + keyword;
      if (!found->is_string()) return malformed(keyword_at, "a string wanted");
      if (has_length) return fault(keyword_at, unsupported("together with minLength or maxLength"));
      if (schema.contains("pattern") && schema.contains("format")) {
        return fault(keyword_at, unsupported("pattern and format together"));
      }
      if (std::string_view(keyword) == "format") {
        const auto body = text_.format(found->get<std::string>());
        if (body) return *body;
        return fault(keyword_at, unsupported("format '" + found->get<std::string>().substr(0, 40) +
                                             "'; date, time, date-time, duration, uuid, email, hostname, ipv4 and uri "
                                             "are known"));
      }
      auto body = text_.pattern(found->get<std::string>(), true);
      if (!body.ok()) return fault(keyword_at, body.status());
      return *body;
    }
    return text_.string(min, max);
  }

  static Result<std::optional<Decimal>> bound(const Json& schema, const char* name, const std::string& at) {
    const auto found = schema.find(name);
    if (found == schema.end()) return std::optional<Decimal>();
    if (!found->is_number()) return malformed(at + "/" + name, "a number wanted");
    std::array<char, 512> room{};
    std::string text = dump_json(*found);
    if (found->is_number_float()) {
      const auto written =
          std::to_chars(room.data(), room.data() + room.size(), found->get<double>(), std::chars_format::fixed);
      text.assign(room.data(), written.ptr);
    }
    auto decimal = parse_decimal(text);
    if (!decimal.ok()) return fault(at + "/" + name, decimal.status());
    return std::optional<Decimal>(std::move(*decimal));
  }

  Result<ExprId> number(const Json& schema, const std::string& at, bool is_integer) {
    NumberRange range;
    range.low = FL_TRY(bound(schema, "minimum", at));
    range.high = FL_TRY(bound(schema, "maximum", at));
    const auto above = FL_TRY(bound(schema, "exclusiveMinimum", at));
    const auto below = FL_TRY(bound(schema, "exclusiveMaximum", at));
    if (above && (!range.low || firstlight::text::grammar::compare(*above, *range.low) >= 0)) {
      range.low = above;
      range.low_is_out = true;
    }
    if (below && (!range.high || firstlight::text::grammar::compare(*below, *range.high) <= 0)) {
      range.high = below;
      range.high_is_out = true;
    }
    if (!range.low && !range.high) return is_integer ? text_.any_integer() : text_.any_number();
    return is_integer ? integers_between(grammar_, range) : numbers_between(grammar_, range);
  }

  Result<ExprId> array(const Json& schema, const std::string& at, int depth) {
    const int32_t min = FL_TRY(count(schema, "minItems", 0, at));
    const int32_t max = FL_TRY(count(schema, "maxItems", kUnbounded, at));
    std::vector<ExprId> first;
    if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
      if (!prefix->is_array()) return malformed(at + "/prefixItems", "a list of schemas wanted");
      for (size_t i = 0; i < prefix->size(); ++i) {
        first.push_back(FL_TRY(this->schema((*prefix)[i], at + "/prefixItems/" + std::to_string(i), depth + 1)));
      }
    }
    const auto items = schema.find("items");
    const bool is_closed = items != schema.end() && *items == Json(false);
    ExprId item = is_closed ? grammar_.nothing() : text_.any_value();
    if (items != schema.end() && !is_closed) item = FL_TRY(this->schema(*items, at + "/items", depth + 1));
    const auto num_first = static_cast<int32_t>(std::min<size_t>(first.size(), kMostRepeats));
    // From the end: what may follow i items, each with its comma.
    const int32_t most_more =
        max == kUnbounded ? (is_closed ? 0 : kUnbounded) : std::max(0, max - std::max(1, num_first));
    const int32_t least_more = std::max(0, min - std::max(1, num_first));
    ExprId rest = grammar_.repeat(grammar_.sequence({text_.comma(), item}), least_more, is_closed ? 0 : most_more);
    if (is_closed && least_more > 0) rest = grammar_.nothing();
    for (int32_t i = num_first; i-- > 1;) {
      const bool may_be = max == kUnbounded || i < max;
      const ExprId with = may_be ? grammar_.sequence({text_.comma(), first[static_cast<size_t>(i)], rest}) : rest;
      rest = !may_be ? grammar_.text("") : i >= min ? grammar_.optional(with) : with;
    }
    const ExprId all = grammar_.sequence({num_first > 0 ? first[0] : item, rest});
    const ExprId inner = max == 0 ? grammar_.text("") : min == 0 ? grammar_.optional(all) : all;
    return grammar_.sequence({grammar_.text("["), inner, grammar_.text("]")});
  }

  struct Member {
    ExprId expr;
    bool is_required;
  };

  Result<ExprId> object(const Json& schema, const std::string& at, int depth) {
    std::set<std::string> required;
    if (const auto list = schema.find("required"); list != schema.end()) {
      for (const Json& name : list->is_array() ? *list : Json::array({nullptr})) {
        if (!name.is_string()) return malformed(at + "/required", "a list of strings wanted");
        required.insert(name.get<std::string>());
      }
    }
    const auto others = schema.find("additionalProperties");
    if (others != schema.end() && !others->is_object() && !others->is_boolean()) {
      return malformed(at + "/additionalProperties", "a schema wanted");
    }
    std::vector<Member> members;
    std::vector<std::string> names;
    const auto add = [&](const std::string& name, ExprId value) {
      const auto wanted = required.find(name);
      const ExprId member = grammar_.sequence({text_.key(name), text_.colon(), value});
      members.push_back({grammar_.shared("member " + name.substr(0, 100), member), wanted != required.end()});
      names.push_back(name);
      if (wanted != required.end()) required.erase(wanted);
    };
    const auto properties = schema.find("properties");
    if (properties != schema.end()) {
      if (!properties->is_object()) return malformed(at + "/properties", "an object wanted");
      for (const auto& [name, value] : properties->items()) {
        add(name, FL_TRY(this->schema(value, at + "/properties" + shown(name), depth + 1)));
      }
    }
    // Members that are asked for and not described are what additional ones are.
    const bool is_closed = others != schema.end() && *others == Json(false);
    const auto other_value = [&]() -> Result<ExprId> {
      if (others == schema.end()) return text_.any_value();
      return this->schema(*others, at + "/additionalProperties", depth + 1);
    };
    for (const std::string& name : std::set<std::string>(required)) add(name, FL_TRY(other_value()));
    const bool may_have_others = others == schema.end() ? properties == schema.end() : !is_closed;
    ExprId extra = -1;
    if (may_have_others) {
      extra = grammar_.sequence({text_.other_key(names), text_.colon(), FL_TRY(other_value())});
    }
    return grammar_.sequence({grammar_.text("{"), members_in_order(members, extra), grammar_.text("}")});
  }

  // Members in order, the optional ones there or not, then any number of extra ones (-1: none), with commas between.
  ExprId members_in_order(const std::vector<Member>& members, ExprId extra) {
    const auto after_comma = [&](ExprId expr) { return grammar_.sequence({text_.comma(), expr}); };
    const auto until_required =
        std::find_if(members.begin(), members.end(), [](const Member& m) { return m.is_required; });
    const auto num_leading = static_cast<size_t>(until_required - members.begin());  // optional ones in front
    const bool all_optional = num_leading == members.size();
    // What may follow the first required member.
    std::vector<ExprId> parts;
    for (size_t i = all_optional ? members.size() : num_leading + 1; i < members.size(); ++i) {
      const ExprId one = after_comma(members[i].expr);
      parts.push_back(members[i].is_required ? one : grammar_.optional(one));
    }
    if (extra >= 0) parts.push_back(grammar_.repeat(after_comma(extra), 0, kUnbounded));
    ExprId rest = grammar_.sequence(std::move(parts));
    // Whichever of the leading ones, or the required one, comes first has no comma before it.
    std::vector<ExprId> firsts;
    if (!all_optional) {
      firsts.push_back(grammar_.sequence({members[num_leading].expr, rest}));
      rest = grammar_.sequence({after_comma(members[num_leading].expr), rest});
    }
    for (size_t i = num_leading; i-- > 0;) {
      rest = grammar_.shared("members", rest);
      firsts.push_back(grammar_.sequence({members[i].expr, rest}));
      rest = grammar_.sequence({grammar_.optional(after_comma(members[i].expr)), rest});
    }
    if (all_optional) {
      const ExprId extras =
          extra < 0 ? grammar_.text("")
                    : grammar_.optional(grammar_.sequence({extra, grammar_.repeat(after_comma(extra), 0, kUnbounded)}));
      firsts.push_back(extras);
    }
    return grammar_.choice(std::move(firsts));
  }

  const Json& document_;
  Grammar grammar_;
  SchemaMerger merger_;
  JsonText text_;
  std::map<std::string, RuleId> rules_;
  std::deque<std::pair<std::string, RuleId>> pending_;
};

}  // namespace

Result<Grammar> compile_json_schema(std::string_view schema_json, StringSpelling strings, const std::string& root) {
  const Json document = FL_TRY(parse_json(schema_json).with_context("JSON Schema"));
  return SchemaCompiler(document, std::move(strings)).compile(root);
}

std::string pointer_part(std::string_view name) {
  std::string part = "/";
  for (const char c : name) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return part;
}

Grammar json_object_grammar() {
  Grammar grammar;
  JsonText text(grammar);
  const RuleId root = grammar.add_rule("root");
  grammar.set_root(root);
  grammar.define(root, text.any_object());
  return grammar;
}

}  // namespace firstlight::text::grammar
