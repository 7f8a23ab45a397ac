// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/structure.h"

#include <algorithm>

#include "base/json.h"
#include "text/grammar/constraint.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/token_mask.h"
#include "text/grammar/token_trie.h"

namespace firstlight::text::grammar {
namespace {

constexpr int kMostNested = 32;

using Kind = ConstraintSpec::Kind;
constexpr std::pair<const char*, Kind> kKinds[] = {{"json_object", Kind::kJsonObject},
                                                   {"json_schema", Kind::kJsonSchema},
                                                   {"regex", Kind::kRegex},
                                                   {"choice", Kind::kChoice},
                                                   {"grammar", Kind::kGrammar}};

class StructureCompiler {
 public:
  explicit StructureCompiler(const ControlTokens& tokens) : tokens_(tokens) {}

  Result<Grammar> compile(const Json& structure) {
    const RuleId root = grammar_.add_rule("root");
    grammar_.set_root(root);
    grammar_.define(root, FL_TRY(part(structure, 0)));
    return std::move(grammar_);
  }

 private:
  Result<ExprId> part(const Json& node, int depth) {
    if (depth > kMostNested) return invalid_argument("a structure of too many levels");
    if (node.is_string()) return grammar_.text(tokens_.coded(node.get_ref<const std::string&>()));
    if (node.is_array()) return grammar_.sequence(FL_TRY(parts(node, depth)));
    if (!node.is_object() || node.empty()) return invalid_argument("a structure of text, lists and objects wanted");
    const std::string& key = node.begin().key();
    const Json& value = node.begin().value();
    if (key == "any" && value.is_array()) return grammar_.choice(FL_TRY(parts(value, depth)));
    if (key == "optional") return grammar_.optional(FL_TRY(part(value, depth + 1)));
    if (key == "repeat") return grammar_.repeat(FL_TRY(part(value, depth + 1)), 0, kUnbounded);
    if (key == "separated" && value.is_array()) return separated(value, node.value("by", ","), depth);
    if (!value.is_string()) return invalid_argument("a structure's '" + key + "': a string wanted");
    const std::string& text = value.get_ref<const std::string&>();
    if (key == "without" && !text.empty()) return text_without(grammar_, text);
    for (const auto& [name, kind] : kKinds) {
      if (key != name) continue;
      const std::string whose = node.value("of", "");
      if (whose.empty()) return grammar_.import(FL_TRY(described(kind, text, node)));
      return grammar_.import(FL_TRY(described(kind, text, node).with_context(whose)));
    }
    return invalid_argument("a structure's '" + key + "' is not known");
  }

  Result<std::vector<ExprId>> parts(const Json& list, int depth) {
    std::vector<ExprId> out;
    for (const Json& one : list) out.push_back(FL_TRY(part(one, depth + 1)));
    return out;
  }

  // Members in order, the optional ones there or not, with the separator between those that are. From the end: what may
  // follow something, and what may come first.
  Result<ExprId> separated(const Json& members, const std::string& separator, int depth) {
    ExprId rest = grammar_.text(""), first = rest;
    for (size_t i = members.size(); i-- > 0;) {
      const bool is_optional = members[i].is_object() && members[i].contains("optional");
      const Json& one = is_optional ? members[i]["optional"] : members[i];
      const ExprId member = grammar_.shared("a member", FL_TRY(part(one, depth + 1)));
      const ExprId leading = grammar_.sequence({member, rest});
      first = is_optional ? grammar_.choice({leading, first}) : leading;
      const ExprId following = grammar_.sequence({grammar_.text(separator), member});
      rest =
          grammar_.shared("members", grammar_.sequence({is_optional ? grammar_.optional(following) : following, rest}));
    }
    return first;
  }

  Result<Grammar> described(Kind kind, const std::string& text, const Json& node) const {
    if (kind != Kind::kJsonSchema) return parse_constraint({kind, text});
    const Json spelling = node.value("spelling", Json::object());
    return compile_json_schema(text,
                               {.plain = spelling.value("plain", false),
                                .quote = tokens_.coded(spelling.value("quote", "")),
                                .mark = spelling.value("mark", "")},
                               node.value("at", "#"));
  }

  const ControlTokens& tokens_;
  Grammar grammar_;
};

}  // namespace

ControlTokens::ControlTokens(const Tokenizer& tokenizer) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!is_mark_token(tokenizer, id)) continue;
    if (std::string text(tokenizer.token_text(id)); !text.empty()) tokens_.emplace_back(std::move(text), id);
  }
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::string ControlTokens::coded(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const auto found =
        std::find_if(tokens_.begin(), tokens_.end(), [&](const auto& token) { return text.starts_with(token.first); });
    const size_t length = found == tokens_.end() ? 1 : found->first.size();
    out += found == tokens_.end() ? std::string(1, text.front()) : mark_bytes(found->second);
    text.remove_prefix(length);
  }
  return out;
}

Result<Grammar> compile_structure(std::string_view json, const ControlTokens& tokens) {
  const Json structure = FL_TRY(parse_json(json));
  return StructureCompiler(tokens).compile(structure);
}

}  // namespace firstlight::text::grammar
