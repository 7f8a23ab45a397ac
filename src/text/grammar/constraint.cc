// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/constraint.h"

#include <list>
#include <map>
#include <utility>

#include "base/json.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_syntax.h"
#include "text/grammar/token_mask.h"

namespace firstlight::text::grammar {
namespace {

// Compiled constraints that are kept: texts and automata.
constexpr size_t kMostKept = 64;
constexpr size_t kMostKeptBytes = size_t{64} << 20;
constexpr size_t kMostTextBytes = size_t{4} << 20;

Result<Grammar> choice_grammar(const std::string& text) {
  const Json list = FL_TRY(parse_json(text));
  if (!list.is_array() || list.empty()) return invalid_argument("a list of at least one string wanted");
  std::vector<std::string> texts;
  for (const Json& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty()) {
      return invalid_argument("choice " + std::to_string(texts.size()) + ": a string that is not empty wanted");
    }
    texts.push_back(one.get<std::string>());
  }
  Grammar grammar;
  const RuleId root = grammar.add_rule("root");
  grammar.set_root(root);
  grammar.define(root, grammar.one_of(std::move(texts)));
  return grammar;
}

Result<Grammar> regex_grammar(const std::string& text) {
  Grammar grammar;
  const RuleId root = grammar.add_rule("root");
  grammar.set_root(root);
  grammar.define(root, FL_TRY(parse_regex(grammar, text, {})));
  return grammar;
}

}  // namespace

Result<Grammar> parse_constraint(const ConstraintSpec& spec, const ControlTokens& tokens) {
  if (spec.text.size() > kMostTextBytes) {
    return invalid_argument(std::to_string(spec.text.size()) + " bytes, at most " + std::to_string(kMostTextBytes) +
                            " wanted");
  }
  switch (spec.kind) {
    case ConstraintSpec::Kind::kJsonObject:
      return json_object_grammar();
    case ConstraintSpec::Kind::kJsonSchema:
      return compile_json_schema(spec.text);
    case ConstraintSpec::Kind::kRegex:
      return regex_grammar(spec.text);
    case ConstraintSpec::Kind::kChoice:
      return choice_grammar(spec.text);
    case ConstraintSpec::Kind::kGrammar:
      return parse_ebnf(spec.text);
    case ConstraintSpec::Kind::kStructure:
      return compile_structure(spec.text, tokens);
  }
  return internal_error("a kind of constraint that is none");
}

Result<std::shared_ptr<const Automaton>> compile_automaton(const ConstraintSpec& spec, const ControlTokens& tokens) {
  const Grammar grammar = FL_TRY(parse_constraint(spec, tokens));
  return std::shared_ptr<const Automaton>(std::make_shared<Automaton>(FL_TRY(Automaton::compile(grammar))));
}

struct ConstraintCompiler::Impl {
  using Key = std::pair<ConstraintSpec::Kind, std::string>;
  struct Kept {
    Key key;
    std::shared_ptr<const CompiledConstraint> constraint;
    size_t size_bytes = 0;
  };

  Tokenizer tokenizer;
  std::shared_ptr<TableBudget> budget = std::make_shared<TableBudget>();
  std::mutex mutex;
  std::shared_ptr<const TokenTexts> texts;              // made for the first constraint
  std::unique_ptr<const ControlTokens> control_tokens;  // made for the first structure
  std::list<Kept> kept;                                 // lately used first
  size_t kept_bytes = 0;

  Result<std::shared_ptr<const TokenTexts>> token_texts() {
    const std::scoped_lock lock(mutex);
    if (!texts) texts = FL_TRY(TokenTexts::build(tokenizer));
    return texts;
  }

  const ControlTokens& tokens_for(ConstraintSpec::Kind kind) {
    static const ControlTokens kNone;
    if (kind != ConstraintSpec::Kind::kStructure) return kNone;
    const std::scoped_lock lock(mutex);
    if (!control_tokens) control_tokens = std::make_unique<const ControlTokens>(tokenizer);
    return *control_tokens;
  }

  std::shared_ptr<const CompiledConstraint> find(const Key& key) {
    const std::scoped_lock lock(mutex);
    for (auto it = kept.begin(); it != kept.end(); ++it) {
      if (it->key != key) continue;
      kept.splice(kept.begin(), kept, it);
      return kept.front().constraint;
    }
    return nullptr;
  }

  void keep(Key key, std::shared_ptr<const CompiledConstraint> constraint) {
    const std::scoped_lock lock(mutex);
    const size_t size = key.second.size() + constraint->size_bytes();
    kept.push_front({std::move(key), std::move(constraint), size});
    kept_bytes += size;
    while (kept.size() > 1 && (kept.size() > kMostKept || kept_bytes > kMostKeptBytes)) {
      kept_bytes -= kept.back().size_bytes;
      kept.pop_back();
    }
  }
};

ConstraintCompiler::ConstraintCompiler(Tokenizer tokenizer) : impl_(new Impl{.tokenizer = std::move(tokenizer)}) {}

ConstraintCompiler::~ConstraintCompiler() = default;

Result<std::shared_ptr<const Constraint>> ConstraintCompiler::compile(const ConstraintSpec& spec) {
  Impl::Key key(spec.kind, spec.text);
  if (auto known = impl_->find(key)) return std::shared_ptr<const Constraint>(std::move(known));
  auto automaton = FL_TRY(compile_automaton(spec, impl_->tokens_for(spec.kind)));
  const auto constraint =
      std::make_shared<const CompiledConstraint>(std::move(automaton), FL_TRY(impl_->token_texts()), impl_->budget);
  impl_->keep(std::move(key), constraint);
  return std::shared_ptr<const Constraint>(constraint);
}

}  // namespace firstlight::text::grammar
