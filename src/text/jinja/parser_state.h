// SPDX-License-Identifier: Apache-2.0
// What the statement and the expression half of the parser share: the position in the token list, the nesting count,
// and the expression parser itself. Internal to the parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace firstlight::text::jinja {

class ParserState {
 public:
  explicit ParserState(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& look() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  void next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }

  bool is_op(std::string_view op) const { return current().kind == TokenKind::kOperator && current().text == op; }
  bool is_word(std::string_view word) const { return current().kind == TokenKind::kName && current().text == word; }
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);
  Status expect_op(std::string_view op);
  Status expect_word(std::string_view word);
  Status expect_kind(TokenKind kind, std::string_view what);
  Result<std::string> expect_name();

  // An error at the current line.
  Status fail(const std::string& message) const { return error_at(current().line, message); }
  std::string describe_current() const;

  // Counts nesting (of blocks and expressions together) and refuses more than kMaxTreeDepth.
  Status enter();
  void leave() { --depth_; }

 private:
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
};

struct TupleOptions {
  bool with_condition = true;   // "a if b else c" allowed
  bool in_parentheses = false;  // "()" allowed
  bool simplified = false;      // primaries only
  bool with_namespace = false;  // "ns.x" as a target
  std::string_view end_word = {};
};

struct TargetOptions {
  bool name_only = false;
  bool with_namespace = false;
  std::string_view end_word = {};
};

class ExprParser {
 public:
  explicit ExprParser(ParserState& state) : state_(state) {}
  using Parsed = Result<ExprPtr>;

  Parsed parse_expression(bool with_condition = true);
  // One expression, or a tuple where commas follow.
  Parsed parse_tuple(TupleOptions options);
  // Something that can be assigned to.
  Parsed parse_target(TargetOptions options);
  // "|f(…)|g" applied to `node` (null in blocks); with `inline_start` the first name stands without a bar.
  Parsed parse_filters(ExprPtr node, bool inline_start);
  ExprPtr constant(Value value, int line) const;

 private:
  ExprPtr make(ExprKind kind, int line) const;
  Parsed finish(ExprPtr node) const;  // computes the depth and refuses too much of it
  Parsed binary(Operator op, ExprPtr left, ExprPtr right, int line) const;
  Parsed pair(ExprKind kind, ExprPtr left, ExprPtr right, int line) const;

  Parsed parse_condition();
  Parsed parse_or();
  Parsed parse_and();
  Parsed parse_not();
  Parsed parse_compare();
  Parsed parse_sum();
  Parsed parse_concat();
  Parsed parse_product();
  Parsed parse_power();
  Parsed parse_unary(bool with_filter);
  Parsed parse_primary(bool with_namespace);
  Parsed parse_list();
  Parsed parse_dict();
  Parsed parse_postfix(ExprPtr node);
  Parsed parse_filters_and_tests(ExprPtr node);
  Parsed parse_subscript(ExprPtr node);
  Parsed parse_subscribed();
  Parsed parse_call(ExprPtr node);
  Parsed parse_test(ExprPtr node);
  Status parse_arguments(Expr& call);
  Result<std::string> parse_dotted_name();

  ParserState& state_;
};

}  // namespace firstlight::text::jinja
