// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/checker.h"

#include "text/jinja/filters.h"
#include "text/jinja/globals.h"
#include "text/jinja/lexer.h"
#include "text/jinja/methods.h"
#include "text/jinja/value_tests.h"

namespace firstlight::text::jinja {
namespace {

Status unsupported_at(int line, const std::string& what) {
  return unsupported("line " + std::to_string(line) + ": unsupported " + what);
}

// What surrounds a node.
struct Frame {
  bool soft = false;      // directly inside a condition
  bool in_loop = false;   // break and continue mean something
  Stmt* macro = nullptr;  // innermost macro or call block, whose implicit arguments are recorded
};

class Checker {
 public:
  Status body(std::vector<StmtPtr>& statements, const Frame& frame) {
    for (StmtPtr& statement : statements) FL_TRY(stmt(*statement, frame));
    return ok_status();
  }

 private:
  Status expr(Expr& node, const Frame& frame) {
    Frame inner = frame;
    switch (node.kind) {
      case ExprKind::kName:
        use_name(node, frame);
        break;
      case ExprKind::kFilter:
        FL_TRY(filter(node, frame));
        break;
      case ExprKind::kTest:
        FL_TRY(test(node, frame));
        break;
      case ExprKind::kCall:
        FL_TRY(call(node));
        break;
      case ExprKind::kCond:
        inner.soft = true;
        break;
      default:
        break;
    }
    for (ExprPtr* child : {&node.left, &node.right, &node.third, &node.star_args, &node.star_kwargs}) {
      if (*child != nullptr) FL_TRY(expr(**child, inner));
    }
    for (ExprPtr& item : node.items) FL_TRY(expr(*item, inner));
    for (auto& [name, value] : node.named) FL_TRY(expr(*value, inner));
    return ok_status();
  }

  static void use_name(const Expr& node, const Frame& frame) {
    if (frame.macro == nullptr) return;
    if (node.name == "caller") frame.macro->takes_caller = true;
    if (node.name == "varargs") frame.macro->takes_varargs = true;
    if (node.name == "kwargs") frame.macro->takes_kwargs = true;
  }

  static Status filter(Expr& node, const Frame& frame) {
    if (is_refused_filter(node.name)) return unsupported_at(node.line, "filter '" + node.name + "'");
    node.filter = find_filter(node.name);
    if (node.filter == nullptr) {
      return frame.soft ? ok_status() : error_at(node.line, "no filter named '" + node.name + "'");
    }
    for (const auto& [name, value] : node.named) {
      if (frame.soft || takes_keyword(node.filter->params, name)) continue;
      return error_at(node.line, "filter '" + node.name + "' takes no keyword argument '" + name + "'");
    }
    return ok_status();
  }

  static Status test(Expr& node, const Frame& frame) {
    node.test = find_test(node.name);
    if (node.test == nullptr)
      return frame.soft ? ok_status() : error_at(node.line, "no test named '" + node.name + "'");
    if (!node.named.empty()) return unsupported_at(node.line, "keyword argument of test '" + node.name + "'");
    return ok_status();
  }

  static Status call(const Expr& node) {
    const Expr& callee = *node.left;
    if (callee.kind == ExprKind::kGetAttr && is_unsupported_method_name(callee.name)) {
      return unsupported_at(node.line, "method '" + callee.name + "'");
    }
    if (callee.kind == ExprKind::kName && (callee.name == "lipsum" || callee.name == "super")) {
      return unsupported_at(node.line, "function '" + callee.name + "'");
    }
    return ok_status();
  }

  static bool assigns_loop(const Expr& target) {
    if (target.kind == ExprKind::kName) return target.name == "loop";
    for (const ExprPtr& item : target.items) {
      if (assigns_loop(*item)) return true;
    }
    return false;
  }

  Status maybe(ExprPtr& node, const Frame& frame) { return node == nullptr ? ok_status() : expr(*node, frame); }

  Status stmt(Stmt& node, const Frame& frame) {
    Frame inner = frame;  // of a nested scope: Jinja2 forgets there that it is inside a condition
    inner.soft = false;
    switch (node.kind) {
      case StmtKind::kOutput:
        for (ExprPtr& item : node.items) FL_TRY(expr(*item, frame));
        return ok_status();
      case StmtKind::kIf: {
        inner.soft = true;
        for (Branch& branch : node.branches) {
          FL_TRY(expr(*branch.test, inner));
          FL_TRY(body(branch.body, inner));
        }
        return body(node.orelse, inner);
      }
      case StmtKind::kFor:
        return loop(node, frame, inner);
      case StmtKind::kSet:
      case StmtKind::kSetBlock:
        if (for_depth_ > 0 && assigns_loop(*node.target)) {
          return error_at(node.line, "can't assign to the special loop variable");
        }
        FL_TRY(maybe(node.expr, frame));
        FL_TRY(maybe(node.filter, frame));
        return body(node.body, inner);
      case StmtKind::kMacro:
      case StmtKind::kCallBlock:
        return macro(node, frame, inner);
      case StmtKind::kFilterBlock:
        FL_TRY(expr(*node.filter, frame));
        return body(node.body, inner);
      case StmtKind::kWith:
        for (ExprPtr& item : node.items) FL_TRY(expr(*item, frame));
        return body(node.body, inner);
      case StmtKind::kScope:
      case StmtKind::kBlock:
        inner.in_loop = false;
        return body(node.body, inner);
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        if (frame.in_loop) return ok_status();
        return error_at(node.line, node.kind == StmtKind::kBreak ? "'break' outside loop" : "'continue' outside loop");
    }
    return ok_status();
  }

  Status loop(Stmt& node, const Frame& frame, Frame inner) {
    if (assigns_loop(*node.target)) return error_at(node.line, "can't assign to the special loop variable");
    FL_TRY(expr(*node.expr, frame));
    FL_TRY(maybe(node.test, inner));
    FL_TRY(body(node.orelse, inner));
    inner.in_loop = true;
    ++for_depth_;
    FL_TRY(body(node.body, inner));
    --for_depth_;
    return ok_status();
  }

  Status macro(Stmt& node, const Frame& frame, Frame inner) {
    FL_TRY(maybe(node.expr, frame));
    inner.in_loop = false;
    for (Param& param : node.params) FL_TRY(maybe(param.fallback, inner));
    inner.macro = &node;
    FL_TRY(body(node.body, inner));
    if (frame.macro != nullptr) {  // what an inner body uses, its surroundings use
      frame.macro->takes_caller |= node.takes_caller;
      frame.macro->takes_varargs |= node.takes_varargs;
      frame.macro->takes_kwargs |= node.takes_kwargs;
    }
    for (const Param& param : node.params) {
      if (param.name == "caller") {
        if (param.fallback == nullptr)
          return error_at(node.line, "a macro's explicit 'caller' argument needs a default");
        node.takes_caller = false;
      }
      if (param.name == "varargs") node.takes_varargs = false;
      if (param.name == "kwargs") node.takes_kwargs = false;
    }
    return ok_status();
  }

  int for_depth_ = 0;
};

}  // namespace

Status check(Tree& tree) { return Checker().body(tree.body, Frame{}); }

}  // namespace firstlight::text::jinja
