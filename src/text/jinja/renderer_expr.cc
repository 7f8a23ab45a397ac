// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/globals.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/renderer_impl.h"
#include "text/jinja/value_tests.h"

namespace firstlight::text::jinja {

Result<Value> Renderer::eval(const Expr& expr, const ScopePtr& scope) {
  if (expr.kind == ExprKind::kConst) return expr.constant;
  FL_TRY(enter(expr.line));
  Result<Value> out = dispatch_expr(expr, scope);
  --depth_;
  if (!out.ok() && error_line_ == 0) error_line_ = expr.line;
  return out;
}

Result<Value> Renderer::dispatch_expr(const Expr& expr, const ScopePtr& scope) {
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.constant;
    case ExprKind::kName:
      return eval_name(expr, scope);
    case ExprKind::kTuple:
      return make_tuple(FL_TRY(eval_items(expr, scope)));
    case ExprKind::kList:
      return make_list(FL_TRY(eval_items(expr, scope)));
    case ExprKind::kDict:
      return eval_dict(expr, scope);
    case ExprKind::kGetAttr:
      return get_attr(*this, FL_TRY(eval(*expr.left, scope)), expr.name);
    case ExprKind::kGetItem:
      return eval_subscript(expr, scope);
    case ExprKind::kCall:
      return eval_call(expr, scope, nullptr);
    case ExprKind::kFilter:
      return eval_filter(expr, scope);
    case ExprKind::kTest:
      return eval_test(expr, scope);
    case ExprKind::kCond:
      return eval_condition(expr, scope);
    case ExprKind::kOr:
    case ExprKind::kAnd: {
      Value left = FL_TRY(eval(*expr.left, scope));
      if (is_truthy(left) == (expr.kind == ExprKind::kOr)) return left;
      return eval(*expr.right, scope);
    }
    case ExprKind::kNot:
      return Value(!is_truthy(FL_TRY(eval(*expr.left, scope))));
    case ExprKind::kNeg:
      return negate(FL_TRY(eval(*expr.left, scope)), true);
    case ExprKind::kPos:
      return negate(FL_TRY(eval(*expr.left, scope)), false);
    case ExprKind::kCompare:
      return eval_compare(expr, scope);
    case ExprKind::kConcat:
      return eval_concat(expr, scope);
    case ExprKind::kBinary: {
      const Value left = FL_TRY(eval(*expr.left, scope));
      const Value right = FL_TRY(eval(*expr.right, scope));
      return apply_binary(*this, expr.operators[0], left, right);
    }
    case ExprKind::kNsRef:
    case ExprKind::kSlice:
      break;
  }
  return internal_error("expression that can not be evaluated");
}

Result<Value> Renderer::eval_name(const Expr& expr, const ScopePtr& scope) {
  if (const Value* found = scope->find(expr.name)) return *found;
  if (std::optional<Value> global = find_global(expr.name)) return *std::move(global);
  return Value::undefined("'" + expr.name + "' is undefined");
}

Result<std::vector<Value>> Renderer::eval_items(const Expr& expr, const ScopePtr& scope) {
  std::vector<Value> out;
  out.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) out.push_back(FL_TRY(eval(*item, scope)));
  return out;
}

Result<Value> Renderer::eval_dict(const Expr& expr, const ScopePtr& scope) {
  Dict out;
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = FL_TRY(eval(*expr.items[i], scope));
    if (!is_hashable(key)) return invalid_data("unhashable type: '" + type_name(key) + "'");
    out.set(key, FL_TRY(eval(*expr.items[i + 1], scope)));
  }
  return make_dict(std::move(out));
}

Result<Value> Renderer::eval_subscript(const Expr& expr, const ScopePtr& scope) {
  const Value object = FL_TRY(eval(*expr.left, scope));
  if (expr.right->kind != ExprKind::kSlice) return get_item(*this, object, FL_TRY(eval(*expr.right, scope)));
  SliceBounds bounds;
  if (expr.right->left != nullptr) bounds.start = FL_TRY(eval(*expr.right->left, scope));
  if (expr.right->right != nullptr) bounds.stop = FL_TRY(eval(*expr.right->right, scope));
  if (expr.right->third != nullptr) bounds.step = FL_TRY(eval(*expr.right->third, scope));
  return get_slice(*this, object, bounds);
}

Result<Value> Renderer::eval_condition(const Expr& expr, const ScopePtr& scope) {
  if (is_truthy(FL_TRY(eval(*expr.left, scope)))) return eval(*expr.right, scope);
  if (expr.third != nullptr) return eval(*expr.third, scope);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

Result<Value> Renderer::eval_compare(const Expr& expr, const ScopePtr& scope) {
  Value left = FL_TRY(eval(*expr.left, scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = FL_TRY(eval(*expr.items[i], scope));
    if (!FL_TRY(apply_compare(*this, expr.operators[i], left, right))) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Renderer::eval_concat(const Expr& expr, const ScopePtr& scope) {
  Text out;
  for (const ExprPtr& item : expr.items) {
    const Value value = FL_TRY(eval(*item, scope));
    FL_TRY(charge(1 + value_weight(value) / 8));
    out.append(to_text(value));
  }
  return text(std::move(out));
}

Result<CallArgs> Renderer::eval_args(const Expr& expr, const ScopePtr& scope) {
  CallArgs out;
  out.positional = FL_TRY(eval_items(expr, scope));
  for (const auto& [name, value] : expr.named) out.named.emplace_back(name, FL_TRY(eval(*value, scope)));
  if (expr.star_args != nullptr) {
    const std::vector<Value> more = FL_TRY(items_of(FL_TRY(eval(*expr.star_args, scope))));
    FL_TRY(charge(more.size()));
    out.positional.insert(out.positional.end(), more.begin(), more.end());
  }
  if (expr.star_kwargs != nullptr) {
    const Value more = FL_TRY(eval(*expr.star_kwargs, scope));
    if (!more.is_dict()) return invalid_data("argument after ** must be a mapping, not " + type_name(more));
    for (const auto& entry : more.as_dict()->entries) {
      if (!entry.first.is_string()) return invalid_data("keywords must be strings");
      const std::string& name = entry.first.as_text().bytes();
      const bool repeated =
          std::any_of(out.named.begin(), out.named.end(), [&](const auto& named) { return named.first == name; });
      if (repeated) return invalid_data("got multiple values for keyword argument '" + name + "'");
      out.named.emplace_back(name, entry.second);
    }
    FL_TRY(charge(out.named.size() * out.named.size()));
  }
  return out;
}

Result<Value> Renderer::eval_filter(const Expr& expr, const ScopePtr& scope) {
  const Value value = expr.left == nullptr ? *block_value_ : FL_TRY(eval(*expr.left, scope));
  if (expr.filter == nullptr) return unsupported("No filter named '" + expr.name + "'.");
  return apply_filter(*this, *expr.filter, value, FL_TRY(eval_args(expr, scope)));
}

Result<Value> Renderer::eval_test(const Expr& expr, const ScopePtr& scope) {
  const Value value = FL_TRY(eval(*expr.left, scope));
  if (expr.test == nullptr) return unsupported("No test named '" + expr.name + "'.");
  return Value(FL_TRY(apply_test(*this, *expr.test, value, FL_TRY(eval_args(expr, scope)))));
}

Result<Value> Renderer::eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller) {
  const Value callee = FL_TRY(eval(*expr.left, scope));
  CallArgs args = FL_TRY(eval_args(expr, scope));
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return call(callee, std::move(args));
}

Result<Value> Renderer::call(const Value& callee, CallArgs args) {
  FL_TRY(charge(1));
  if (callee.is_undefined()) return invalid_data(callee.undefined_message());
  if (callee.kind() == Kind::kLoop) return call_loop(*callee.as_loop(), std::move(args));
  if (callee.kind() != Kind::kCallable) return invalid_data("'" + type_name(callee) + "' object is not callable");
  Callable& callable = *callee.as_callable();
  switch (callable.kind) {
    case CallableKind::kMacro:
      return call_macro(callable, std::move(args));
    case CallableKind::kMethod:
      return call_method(*this, callable.self, callable.name, std::move(args));
    case CallableKind::kCycler:
      return invalid_data("'Cycler' object is not callable");
    case CallableKind::kJoiner: {
      const bool first = !callable.used;
      callable.used = true;
      return first ? Value(Text()) : callable.self;
    }
    case CallableKind::kGlobal:
      break;
  }
  Value out = FL_TRY(call_global(*this, callable.name, std::move(args)));
  if (out.kind() == Kind::kNamespace) namespaces_.push_back(out.as_namespace());
  return out;
}

Result<Value> Renderer::call_filter(std::string_view name, const Value& value, CallArgs args) {
  const FilterRow* row = find_filter(name);
  if (row == nullptr) return unsupported("No filter named '" + std::string(name) + "'.");
  return apply_filter(*this, *row, value, std::move(args));
}

Result<bool> Renderer::call_test(std::string_view name, const Value& value, CallArgs args) {
  const TestRow* row = find_test(name);
  if (row == nullptr) return unsupported("No test named '" + std::string(name) + "'.");
  return apply_test(*this, *row, value, args);
}

Value Renderer::make_macro(const Stmt& stmt, const ScopePtr& scope) {
  auto macro = std::make_shared<Callable>();
  macro->kind = CallableKind::kMacro;
  macro->name = stmt.name;
  macro->macro = &stmt;
  macro->closure = scope;
  macros_.push_back(macro);
  return Value(std::move(macro));
}

namespace {

// The keyword argument `name`, removed from the list.
std::optional<Value> take(std::vector<std::pair<std::string, Value>>& named, const std::string& name) {
  const auto it = std::find_if(named.begin(), named.end(), [&](const auto& entry) { return entry.first == name; });
  if (it == named.end()) return std::nullopt;
  Value out = std::move(it->second);
  named.erase(it);
  return out;
}

}  // namespace

Status Renderer::bind_macro(const Callable& macro, CallArgs args, const ScopePtr& scope) {
  const Stmt& stmt = *macro.macro;
  std::vector<std::optional<Value>> given(stmt.params.size());
  for (size_t i = 0; i < stmt.params.size(); ++i) {
    given[i] = i < args.positional.size() ? std::optional(args.positional[i]) : take(args.named, stmt.params[i].name);
  }
  if (stmt.takes_caller) {
    std::optional<Value> caller = take(args.named, "caller");
    if (caller.has_value() && caller->is_none()) caller.reset();
    scope->variables.insert_or_assign("caller", caller ? *caller : Value::undefined("No caller defined"));
  }
  if (stmt.takes_kwargs) {
    Dict rest;
    for (auto& [name, value] : args.named) rest.set(Value::string(name, true), std::move(value));
    scope->variables.insert_or_assign("kwargs", FL_TRY(make_dict(std::move(rest))));
  } else if (!args.named.empty()) {
    return invalid_data("macro '" + macro.name + "' takes no keyword argument '" + args.named.front().first + "'");
  }
  const size_t taken = std::min(args.positional.size(), stmt.params.size());
  if (stmt.takes_varargs) {
    std::vector<Value> rest(args.positional.begin() + static_cast<ptrdiff_t>(taken), args.positional.end());
    scope->variables.insert_or_assign("varargs", FL_TRY(make_tuple(std::move(rest))));
  } else if (args.positional.size() > taken) {
    return invalid_data("macro '" + macro.name + "' takes not more than " + std::to_string(taken) + " argument(s)");
  }
  for (size_t i = 0; i < stmt.params.size(); ++i) {
    const Param& param = stmt.params[i];
    if (!given[i].has_value()) {
      given[i] = param.fallback != nullptr ? FL_TRY(eval(*param.fallback, scope))
                                           : Value::undefined("parameter '" + param.name + "' was not provided");
    }
    scope->variables.insert_or_assign(param.name, *given[i]);
  }
  return ok_status();
}

Result<Value> Renderer::call_macro(const Callable& macro, CallArgs args) {
  const auto scope = std::make_shared<Scope>(macro.closure);
  FL_TRY(bind_macro(macro, std::move(args), scope));
  return capture(macro.macro->body, scope);
}

Result<Value> Renderer::call_loop(const LoopState& loop, CallArgs args) {
  if (loop.recursive == nullptr || loop.outer == nullptr) {
    return invalid_data("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound = FL_TRY(Bound::bind("loop", "iterable", 1, std::move(args)));
  Text captured;
  Text* outer = out_;
  out_ = &captured;
  const ScopePtr scope = loop.outer;
  Status status = enter(loop.recursive->line);
  if (status.ok()) status = run_for(*loop.recursive, bound[0], scope, loop.depth0 + 1);
  --depth_;
  out_ = outer;
  FL_TRY(std::move(status));
  return text(std::move(captured));
}

}  // namespace firstlight::text::jinja
