// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "text/jinja/parser.h"
#include "text/jinja/parser_state.h"

namespace firstlight::text::jinja {

bool ParserState::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool ParserState::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  next();
  return true;
}

Status ParserState::expect_op(std::string_view op) {
  if (skip_op(op)) return ok_status();
  return fail("expected token '" + std::string(op) + "', got " + describe_current());
}

Status ParserState::expect_word(std::string_view word) {
  if (skip_word(word)) return ok_status();
  return fail("expected token '" + std::string(word) + "', got " + describe_current());
}

Status ParserState::expect_kind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return fail("expected " + std::string(what) + ", got " + describe_current());
  next();
  return ok_status();
}

Result<std::string> ParserState::expect_name() {
  if (current().kind != TokenKind::kName) return fail("expected a name, got " + describe_current());
  std::string name = current().text;
  next();
  return name;
}

std::string ParserState::describe_current() const {
  switch (current().kind) {
    case TokenKind::kData:
      return "template data";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kOperator:
      break;
  }
  return "'" + current().text + "'";
}

Status ParserState::enter() {
  if (++depth_ <= kMaxTreeDepth) return ok_status();
  return unsupported("line " + std::to_string(current().line) + ": nested deeper than " +
                     std::to_string(kMaxTreeDepth) + " levels");
}

ExprPtr ExprParser::make(ExprKind kind, int line) const {
  auto out = std::make_unique<Expr>();
  out->kind = kind;
  out->line = line;
  return out;
}

ExprPtr ExprParser::constant(Value value, int line) const {
  ExprPtr out = make(ExprKind::kConst, line);
  out->constant = std::move(value);
  return out;
}

ExprParser::Parsed ExprParser::finish(ExprPtr node) const {
  int depth = 0;
  const auto see = [&](const ExprPtr& child) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  };
  see(node->left);
  see(node->right);
  see(node->third);
  see(node->star_args);
  see(node->star_kwargs);
  for (const ExprPtr& item : node->items) see(item);
  for (const auto& [name, value] : node->named) see(value);
  node->depth = depth + 1;
  if (node->depth > kMaxTreeDepth) {
    return unsupported("line " + std::to_string(node->line) + ": expression nested deeper than " +
                       std::to_string(kMaxTreeDepth) + " levels");
  }
  return node;
}

ExprParser::Parsed ExprParser::pair(ExprKind kind, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr out = make(kind, line);
  out->left = std::move(left);
  out->right = std::move(right);
  return finish(std::move(out));
}

ExprParser::Parsed ExprParser::binary(Operator op, ExprPtr left, ExprPtr right, int line) const {
  ExprPtr out = make(ExprKind::kBinary, line);
  out->left = std::move(left);
  out->right = std::move(right);
  out->operators.push_back(op);
  return finish(std::move(out));
}

ExprParser::Parsed ExprParser::parse_expression(bool with_condition) {
  FL_TRY(state_.enter());
  ExprPtr out = FL_TRY(with_condition ? parse_condition() : parse_or());
  state_.leave();
  return out;
}

ExprParser::Parsed ExprParser::parse_condition() {
  const int line = state_.current().line;
  ExprPtr value = FL_TRY(parse_or());
  while (state_.skip_word("if")) {
    ExprPtr out = make(ExprKind::kCond, line);
    out->right = std::move(value);
    out->left = FL_TRY(parse_or());
    if (state_.skip_word("else")) {
      FL_TRY(state_.enter());
      out->third = FL_TRY(parse_condition());
      state_.leave();
    }
    value = FL_TRY(finish(std::move(out)));
  }
  return value;
}

ExprParser::Parsed ExprParser::parse_or() {
  ExprPtr left = FL_TRY(parse_and());
  while (state_.is_word("or")) {
    const int line = state_.current().line;
    state_.next();
    ExprPtr right = FL_TRY(parse_and());
    left = FL_TRY(pair(ExprKind::kOr, std::move(left), std::move(right), line));
  }
  return left;
}

ExprParser::Parsed ExprParser::parse_and() {
  ExprPtr left = FL_TRY(parse_not());
  while (state_.is_word("and")) {
    const int line = state_.current().line;
    state_.next();
    ExprPtr right = FL_TRY(parse_not());
    left = FL_TRY(pair(ExprKind::kAnd, std::move(left), std::move(right), line));
  }
  return left;
}

ExprParser::Parsed ExprParser::parse_not() {
  if (!state_.is_word("not")) return parse_compare();
  const int line = state_.current().line;
  state_.next();
  FL_TRY(state_.enter());
  ExprPtr operand = FL_TRY(parse_not());
  state_.leave();
  return pair(ExprKind::kNot, std::move(operand), nullptr, line);
}

namespace {

std::optional<Operator> compare_operator(const ParserState& state) {
  if (state.is_op("==")) return Operator::kEq;
  if (state.is_op("!=")) return Operator::kNe;
  if (state.is_op("<")) return Operator::kLt;
  if (state.is_op("<=")) return Operator::kLe;
  if (state.is_op(">")) return Operator::kGt;
  if (state.is_op(">=")) return Operator::kGe;
  if (state.is_word("in")) return Operator::kIn;
  if (state.is_word("not") && state.look().kind == TokenKind::kName && state.look().text == "in")
    return Operator::kNotIn;
  return std::nullopt;
}

}  // namespace

ExprParser::Parsed ExprParser::parse_compare() {
  const int line = state_.current().line;
  ExprPtr left = FL_TRY(parse_sum());
  ExprPtr out = make(ExprKind::kCompare, line);
  while (const std::optional<Operator> op = compare_operator(state_)) {
    state_.next();
    if (*op == Operator::kNotIn) state_.next();
    out->operators.push_back(*op);
    out->items.push_back(FL_TRY(parse_sum()));
  }
  if (out->operators.empty()) return left;
  out->left = std::move(left);
  return finish(std::move(out));
}

ExprParser::Parsed ExprParser::parse_sum() {
  ExprPtr left = FL_TRY(parse_concat());
  while (state_.is_op("+") || state_.is_op("-")) {
    const Operator op = state_.is_op("+") ? Operator::kAdd : Operator::kSub;
    const int line = state_.current().line;
    state_.next();
    ExprPtr right = FL_TRY(parse_concat());
    left = FL_TRY(binary(op, std::move(left), std::move(right), line));
  }
  return left;
}

ExprParser::Parsed ExprParser::parse_concat() {
  const int line = state_.current().line;
  ExprPtr first = FL_TRY(parse_product());
  if (!state_.is_op("~")) return first;
  ExprPtr out = make(ExprKind::kConcat, line);
  out->items.push_back(std::move(first));
  while (state_.skip_op("~")) out->items.push_back(FL_TRY(parse_product()));
  return finish(std::move(out));
}

namespace {

std::optional<Operator> product_operator(const ParserState& state) {
  if (state.is_op("*")) return Operator::kMul;
  if (state.is_op("/")) return Operator::kDiv;
  if (state.is_op("//")) return Operator::kFloorDiv;
  if (state.is_op("%")) return Operator::kMod;
  return std::nullopt;
}

}  // namespace

ExprParser::Parsed ExprParser::parse_product() {
  ExprPtr left = FL_TRY(parse_power());
  while (const std::optional<Operator> op = product_operator(state_)) {
    const int line = state_.current().line;
    state_.next();
    ExprPtr right = FL_TRY(parse_power());
    left = FL_TRY(binary(*op, std::move(left), std::move(right), line));
  }
  return left;
}

ExprParser::Parsed ExprParser::parse_power() {
  ExprPtr left = FL_TRY(parse_unary(true));
  while (state_.is_op("**")) {
    const int line = state_.current().line;
    state_.next();
    ExprPtr right = FL_TRY(parse_unary(true));
    left = FL_TRY(binary(Operator::kPow, std::move(left), std::move(right), line));
  }
  return left;
}

ExprParser::Parsed ExprParser::parse_unary(bool with_filter) {
  const int line = state_.current().line;
  ExprPtr node;
  if (state_.is_op("-") || state_.is_op("+")) {
    const ExprKind kind = state_.is_op("-") ? ExprKind::kNeg : ExprKind::kPos;
    state_.next();
    FL_TRY(state_.enter());
    ExprPtr operand = FL_TRY(parse_unary(false));
    state_.leave();
    node = FL_TRY(pair(kind, std::move(operand), nullptr, line));
  } else {
    node = FL_TRY(parse_primary(false));
  }
  node = FL_TRY(parse_postfix(std::move(node)));
  return with_filter ? parse_filters_and_tests(std::move(node)) : Parsed(std::move(node));
}

ExprParser::Parsed ExprParser::parse_primary(bool with_namespace) {
  const Token token = state_.current();
  switch (token.kind) {
    case TokenKind::kName: {
      state_.next();
      const std::string& word = token.text;
      if (word == "true" || word == "True") return constant(Value(true), token.line);
      if (word == "false" || word == "False") return constant(Value(false), token.line);
      if (word == "none" || word == "None") return constant(Value(None{}), token.line);
      ExprPtr out = make(ExprKind::kName, token.line);
      out->name = word;
      if (with_namespace && state_.skip_op(".")) {
        out->kind = ExprKind::kNsRef;
        out->attribute = FL_TRY(state_.expect_name());
      }
      return out;
    }
    case TokenKind::kString: {
      std::string text;
      for (; state_.current().kind == TokenKind::kString; state_.next()) text += state_.current().text;
      return constant(Value::string(std::move(text), true), token.line);
    }
    case TokenKind::kInteger:
      state_.next();
      return constant(Value::integer(token.integer), token.line);
    case TokenKind::kFloat:
      state_.next();
      return constant(Value(token.number), token.line);
    default:
      break;
  }
  if (state_.is_op("[")) return parse_list();
  if (state_.is_op("{")) return parse_dict();
  if (!state_.skip_op("(")) return state_.fail("unexpected " + state_.describe_current());
  ExprPtr out = FL_TRY(parse_tuple({.in_parentheses = true}));
  FL_TRY(state_.expect_op(")"));
  return out;
}

ExprParser::Parsed ExprParser::parse_tuple(TupleOptions options) {
  const int line = state_.current().line;
  FL_TRY(state_.enter());
  ExprPtr tuple = make(ExprKind::kTuple, line);
  bool is_tuple = false;
  while (true) {
    const TokenKind kind = state_.current().kind;
    const bool at_end = kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || state_.is_op(")") ||
                        (!options.end_word.empty() && state_.is_word(options.end_word));
    if (at_end) break;
    tuple->items.push_back(
        FL_TRY(options.simplified ? parse_primary(options.with_namespace) : parse_expression(options.with_condition)));
    if (!state_.skip_op(",")) break;
    is_tuple = true;
  }
  state_.leave();
  if (is_tuple) return finish(std::move(tuple));
  if (!tuple->items.empty()) return std::move(tuple->items.front());
  if (options.in_parentheses) return finish(std::move(tuple));
  return state_.fail("expected an expression, got " + state_.describe_current());
}

namespace {

// True for what can stand left of "=": names, namespace attributes, and tuples of them.
bool can_assign(const Expr& target) {
  if (target.kind == ExprKind::kTuple) {
    return std::all_of(target.items.begin(), target.items.end(), [](const ExprPtr& item) { return can_assign(*item); });
  }
  return target.kind == ExprKind::kName || target.kind == ExprKind::kNsRef;
}

}  // namespace

ExprParser::Parsed ExprParser::parse_target(TargetOptions options) {
  const int line = state_.current().line;
  ExprPtr out;
  if (options.name_only) {
    out = make(ExprKind::kName, line);
    out->name = FL_TRY(state_.expect_name());
    if (out->name == "true" || out->name == "false" || out->name == "none" || out->name == "True" ||
        out->name == "False" || out->name == "None") {
      return error_at(line, "can't assign to '" + out->name + "'");
    }
    return out;
  }
  out =
      FL_TRY(parse_tuple({.simplified = true, .with_namespace = options.with_namespace, .end_word = options.end_word}));
  if (!can_assign(*out)) return error_at(line, "can't assign to this expression");
  return out;
}

ExprParser::Parsed ExprParser::parse_list() {
  ExprPtr out = make(ExprKind::kList, state_.current().line);
  state_.next();
  while (!state_.is_op("]")) {
    out->items.push_back(FL_TRY(parse_expression()));
    if (!state_.is_op("]")) FL_TRY(state_.expect_op(","));
  }
  state_.next();
  return finish(std::move(out));
}

ExprParser::Parsed ExprParser::parse_dict() {
  ExprPtr out = make(ExprKind::kDict, state_.current().line);
  state_.next();
  while (!state_.is_op("}")) {
    out->items.push_back(FL_TRY(parse_expression()));
    FL_TRY(state_.expect_op(":"));
    out->items.push_back(FL_TRY(parse_expression()));
    if (!state_.is_op("}")) FL_TRY(state_.expect_op(","));
  }
  state_.next();
  return finish(std::move(out));
}

ExprParser::Parsed ExprParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (state_.is_op(".") || state_.is_op("[")) {
      node = FL_TRY(parse_subscript(std::move(node)));
    } else if (state_.is_op("(")) {
      node = FL_TRY(parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

ExprParser::Parsed ExprParser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (state_.is_op("|")) {
      node = FL_TRY(parse_filters(std::move(node), false));
    } else if (state_.is_word("is")) {
      node = FL_TRY(parse_test(std::move(node)));
    } else if (state_.is_op("(")) {
      node = FL_TRY(parse_call(std::move(node)));
    } else {
      return node;
    }
  }
}

ExprParser::Parsed ExprParser::parse_subscript(ExprPtr node) {
  const int line = state_.current().line;
  if (state_.skip_op(".")) {
    const Token token = state_.current();
    state_.next();
    if (token.kind == TokenKind::kInteger) {
      return pair(ExprKind::kGetItem, std::move(node), constant(Value::integer(token.integer), line), line);
    }
    if (token.kind != TokenKind::kName) return error_at(line, "expected name or number");
    ExprPtr out = make(ExprKind::kGetAttr, line);
    out->name = token.text;
    out->left = std::move(node);
    return finish(std::move(out));
  }
  state_.next();
  std::vector<ExprPtr> parts;
  while (!state_.is_op("]")) {
    if (!parts.empty()) FL_TRY(state_.expect_op(","));
    parts.push_back(FL_TRY(parse_subscribed()));
  }
  state_.next();
  if (parts.size() == 1) return pair(ExprKind::kGetItem, std::move(node), std::move(parts.front()), line);
  ExprPtr tuple = make(ExprKind::kTuple, line);
  for (const ExprPtr& part : parts) {
    if (part->kind == ExprKind::kSlice) return error_at(line, "a slice among several subscripts");
  }
  tuple->items = std::move(parts);
  ExprPtr index = FL_TRY(finish(std::move(tuple)));
  return pair(ExprKind::kGetItem, std::move(node), std::move(index), line);
}

ExprParser::Parsed ExprParser::parse_subscribed() {
  ExprPtr slice = make(ExprKind::kSlice, state_.current().line);
  const auto at_end = [&] { return state_.is_op("]") || state_.is_op(","); };
  if (!state_.is_op(":")) {
    slice->left = FL_TRY(parse_expression());
    if (!state_.is_op(":")) return std::move(slice->left);
  }
  state_.next();
  if (!state_.is_op(":") && !at_end()) slice->right = FL_TRY(parse_expression());
  if (state_.skip_op(":") && !at_end()) slice->third = FL_TRY(parse_expression());
  return finish(std::move(slice));
}

Status ExprParser::parse_arguments(Expr& call) {
  const Status invalid = state_.fail("invalid syntax for function call expression");
  FL_TRY(state_.expect_op("("));
  for (bool first = true; !state_.is_op(")"); first = false) {
    if (!first) {
      FL_TRY(state_.expect_op(","));
      if (state_.is_op(")")) break;  // a trailing comma
    }
    if (state_.skip_op("*")) {
      if (call.star_args != nullptr || call.star_kwargs != nullptr) return invalid;
      call.star_args = FL_TRY(parse_expression());
    } else if (state_.skip_op("**")) {
      if (call.star_kwargs != nullptr) return invalid;
      call.star_kwargs = FL_TRY(parse_expression());
    } else if (state_.current().kind == TokenKind::kName && state_.look().kind == TokenKind::kOperator &&
               state_.look().text == "=") {
      if (call.star_kwargs != nullptr) return invalid;
      std::string name = state_.current().text;
      for (const auto& [other, value] : call.named) {
        if (other == name) return state_.fail("keyword argument repeated: " + name);
      }
      state_.next();
      state_.next();
      ExprPtr value = FL_TRY(parse_expression());
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (call.star_args != nullptr || call.star_kwargs != nullptr || !call.named.empty()) return invalid;
      call.items.push_back(FL_TRY(parse_expression()));
    }
  }
  state_.next();
  return ok_status();
}

ExprParser::Parsed ExprParser::parse_call(ExprPtr node) {
  ExprPtr out = make(ExprKind::kCall, state_.current().line);
  out->left = std::move(node);
  FL_TRY(parse_arguments(*out));
  return finish(std::move(out));
}

Result<std::string> ExprParser::parse_dotted_name() {
  std::string name = FL_TRY(state_.expect_name());
  while (state_.skip_op(".")) name += "." + FL_TRY(state_.expect_name());
  return name;
}

ExprParser::Parsed ExprParser::parse_filters(ExprPtr node, bool inline_start) {
  while (inline_start || state_.is_op("|")) {
    if (!inline_start) state_.next();
    inline_start = false;
    ExprPtr out = make(ExprKind::kFilter, state_.current().line);
    out->left = std::move(node);
    out->name = FL_TRY(parse_dotted_name());
    if (state_.is_op("(")) FL_TRY(parse_arguments(*out));
    node = FL_TRY(finish(std::move(out)));
  }
  return node;
}

ExprParser::Parsed ExprParser::parse_test(ExprPtr node) {
  const int line = state_.current().line;
  state_.next();
  const bool is_negated = state_.skip_word("not");
  ExprPtr out = make(ExprKind::kTest, line);
  out->left = std::move(node);
  out->name = FL_TRY(parse_dotted_name());
  const TokenKind kind = state_.current().kind;
  const bool has_operand = kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
                           kind == TokenKind::kFloat || state_.is_op("[") || state_.is_op("{");
  if (state_.is_op("(")) {
    FL_TRY(parse_arguments(*out));
  } else if (has_operand && !state_.is_word("else") && !state_.is_word("or") && !state_.is_word("and")) {
    if (state_.is_word("is")) return state_.fail("you cannot chain multiple tests with is");
    ExprPtr operand = FL_TRY(parse_primary(false));
    out->items.push_back(FL_TRY(parse_postfix(std::move(operand))));
  }
  ExprPtr test = FL_TRY(finish(std::move(out)));
  return is_negated ? pair(ExprKind::kNot, std::move(test), nullptr, line) : Parsed(std::move(test));
}

}  // namespace firstlight::text::jinja
