// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/parser.h"

#include "text/jinja/parser_state.h"

namespace firstlight::text::jinja {
namespace {

using Words = std::vector<std::string_view>;

// Statements; expressions are in parser_expr.cc.
class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : state_(std::move(tokens)), expr_(state_) {}

  Result<Tree> parse_all() {
    Tree tree;
    tree.body = FL_TRY(parse_body({}));
    return tree;
  }

 private:
  using Parsed = Result<StmtPtr>;

  StmtPtr make(StmtKind kind, int line) const {
    auto out = std::make_unique<Stmt>();
    out->kind = kind;
    out->line = line;
    return out;
  }

  // Data, prints and statements up to a block that starts with one of `ends` (whose name is then the current token) or,
  // without any, to the end of the template.
  Result<std::vector<StmtPtr>> parse_body(const Words& ends) {
    FL_TRY(state_.enter());
    std::vector<StmtPtr> body;
    while (state_.current().kind != TokenKind::kEnd) {
      const Token& token = state_.current();
      if (token.kind == TokenKind::kData || token.kind == TokenKind::kVariableBegin) {
        body.push_back(FL_TRY(parse_output()));
        continue;
      }
      state_.next();  // a block begins
      if (state_.current().kind == TokenKind::kName && is_any(state_.current().text, ends)) {
        state_.leave();
        return body;
      }
      body.push_back(FL_TRY(parse_statement(ends)));
      FL_TRY(state_.expect_kind(TokenKind::kBlockEnd, "end of statement block"));
    }
    if (!ends.empty()) return state_.fail("unexpected end of template, expected " + list(ends));
    state_.leave();
    return body;
  }

  static bool is_any(std::string_view word, const Words& words) {
    for (const std::string_view candidate : words) {
      if (candidate == word) return true;
    }
    return false;
  }

  static std::string list(const Words& words) {
    std::string out;
    for (const std::string_view word : words) out += (out.empty() ? "'" : " or '") + std::string(word) + "'";
    return out;
  }

  Parsed parse_output() {
    StmtPtr out = make(StmtKind::kOutput, state_.current().line);
    while (true) {
      const Token& token = state_.current();
      if (token.kind == TokenKind::kData) {
        out->items.push_back(expr_.constant(Value::string(token.text, true), token.line));
        state_.next();
      } else if (token.kind == TokenKind::kVariableBegin) {
        state_.next();
        out->items.push_back(FL_TRY(expr_.parse_tuple({})));
        FL_TRY(state_.expect_kind(TokenKind::kVariableEnd, "end of print statement"));
      } else {
        return out;
      }
    }
  }

  // A block's body after its head: "%}" … "{% end". With `drop` the end word is eaten as well.
  Result<std::vector<StmtPtr>> parse_block_body(const Words& ends, bool drop) {
    state_.skip_op(":");
    FL_TRY(state_.expect_kind(TokenKind::kBlockEnd, "end of statement block"));
    std::vector<StmtPtr> body = FL_TRY(parse_body(ends));
    if (drop) state_.next();
    return body;
  }

  Parsed parse_statement(const Words& ends) {
    const Token token = state_.current();
    if (token.kind != TokenKind::kName) return state_.fail("tag name expected");
    state_.next();
    const std::string& tag = token.text;
    if (tag == "for") return parse_for(token.line);
    if (tag == "if") return parse_if(token.line);
    if (tag == "set") return parse_set(token.line);
    if (tag == "macro") return parse_macro(token.line);
    if (tag == "call") return parse_call_block(token.line);
    if (tag == "filter") return parse_filter_block(token.line);
    if (tag == "with") return parse_with(token.line);
    if (tag == "print") return parse_print(token.line);
    if (tag == "block") return parse_block(token.line);
    if (tag == "break") return make(StmtKind::kBreak, token.line);
    if (tag == "continue") return make(StmtKind::kContinue, token.line);
    if (tag == "generation") {
      StmtPtr out = make(StmtKind::kScope, token.line);
      out->body = FL_TRY(parse_block_body({"endgeneration"}, true));
      return out;
    }
    if (is_any(tag, {"include", "import", "from", "extends", "autoescape"})) {
      return unsupported("line " + std::to_string(token.line) + ": unsupported statement '" + tag + "'");
    }
    std::string message = "unknown tag '" + tag + "'";
    if (!ends.empty()) message += ", looking for " + list(ends);
    return error_at(token.line, message);
  }

  Parsed parse_for(int line) {
    StmtPtr out = make(StmtKind::kFor, line);
    out->target = FL_TRY(expr_.parse_target({.end_word = "in"}));
    FL_TRY(state_.expect_word("in"));
    out->expr = FL_TRY(expr_.parse_tuple({.with_condition = false, .end_word = "recursive"}));
    if (state_.skip_word("if")) out->test = FL_TRY(expr_.parse_expression());
    out->is_recursive = state_.skip_word("recursive");
    out->body = FL_TRY(parse_block_body({"endfor", "else"}, false));
    const std::string end = state_.current().text;
    state_.next();
    if (end == "else") out->orelse = FL_TRY(parse_block_body({"endfor"}, true));
    return out;
  }

  Parsed parse_if(int line) {
    StmtPtr out = make(StmtKind::kIf, line);
    while (true) {
      Branch branch;
      branch.test = FL_TRY(expr_.parse_tuple({.with_condition = false}));
      branch.body = FL_TRY(parse_block_body({"elif", "else", "endif"}, false));
      out->branches.push_back(std::move(branch));
      const std::string word = state_.current().text;
      state_.next();
      if (word == "elif") continue;
      if (word == "else") out->orelse = FL_TRY(parse_block_body({"endif"}, true));
      return out;
    }
  }

  Parsed parse_set(int line) {
    StmtPtr out = make(StmtKind::kSet, line);
    out->target = FL_TRY(expr_.parse_target({.with_namespace = true}));
    if (state_.skip_op("=")) {
      out->expr = FL_TRY(expr_.parse_tuple({}));
      return out;
    }
    out->kind = StmtKind::kSetBlock;
    out->filter = FL_TRY(expr_.parse_filters(nullptr, false));
    out->body = FL_TRY(parse_block_body({"endset"}, true));
    return out;
  }

  Status parse_signature(Stmt& out) {
    FL_TRY(state_.expect_op("("));
    bool has_fallback = false;
    while (!state_.is_op(")")) {
      if (!out.params.empty()) FL_TRY(state_.expect_op(","));
      Param param;
      ExprPtr target = FL_TRY(expr_.parse_target({.name_only = true}));
      param.name = target->name;
      for (const Param& other : out.params) {
        if (other.name == param.name) return state_.fail("duplicate argument '" + param.name + "'");
      }
      if (state_.skip_op("=")) {
        param.fallback = FL_TRY(expr_.parse_expression());
        has_fallback = true;
      } else if (has_fallback) {
        return state_.fail("non-default argument follows default argument");
      }
      out.params.push_back(std::move(param));
    }
    state_.next();
    return ok_status();
  }

  Parsed parse_macro(int line) {
    StmtPtr out = make(StmtKind::kMacro, line);
    out->name = FL_TRY(expr_.parse_target({.name_only = true}))->name;
    FL_TRY(parse_signature(*out));
    out->body = FL_TRY(parse_block_body({"endmacro"}, true));
    return out;
  }

  Parsed parse_call_block(int line) {
    StmtPtr out = make(StmtKind::kCallBlock, line);
    out->name = "caller";
    if (state_.is_op("(")) FL_TRY(parse_signature(*out));
    out->expr = FL_TRY(expr_.parse_expression());
    if (out->expr->kind != ExprKind::kCall) return error_at(line, "expected call");
    out->body = FL_TRY(parse_block_body({"endcall"}, true));
    return out;
  }

  Parsed parse_filter_block(int line) {
    StmtPtr out = make(StmtKind::kFilterBlock, line);
    out->filter = FL_TRY(expr_.parse_filters(nullptr, true));
    out->body = FL_TRY(parse_block_body({"endfilter"}, true));
    return out;
  }

  Parsed parse_with(int line) {
    StmtPtr out = make(StmtKind::kWith, line);
    while (state_.current().kind != TokenKind::kBlockEnd) {
      if (!out->targets.empty()) FL_TRY(state_.expect_op(","));
      out->targets.push_back(FL_TRY(expr_.parse_target({})));
      FL_TRY(state_.expect_op("="));
      out->items.push_back(FL_TRY(expr_.parse_expression()));
    }
    out->body = FL_TRY(parse_block_body({"endwith"}, true));
    return out;
  }

  Parsed parse_print(int line) {
    StmtPtr out = make(StmtKind::kOutput, line);
    while (state_.current().kind != TokenKind::kBlockEnd) {
      if (!out->items.empty()) FL_TRY(state_.expect_op(","));
      out->items.push_back(FL_TRY(expr_.parse_expression()));
    }
    return out;
  }

  Parsed parse_block(int line) {
    StmtPtr out = make(StmtKind::kBlock, line);
    out->name = FL_TRY(state_.expect_name());
    out->is_scoped = state_.skip_word("scoped");
    if (state_.skip_word("required")) {
      return unsupported("line " + std::to_string(line) + ": unsupported 'required' of block '" + out->name + "'");
    }
    out->body = FL_TRY(parse_block_body({"endblock"}, true));
    state_.skip_word(out->name);
    return out;
  }

  ParserState state_;
  ExprParser expr_;
};

}  // namespace

Result<Tree> parse(std::vector<Token> tokens) { return StatementParser(std::move(tokens)).parse_all(); }

}  // namespace firstlight::text::jinja
