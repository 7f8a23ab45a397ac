// SPDX-License-Identifier: Apache-2.0
// The class behind render(): statements in renderer.cc, expressions and calls in renderer_expr.cc. Internal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/renderer.h"
#include "text/jinja/scope.h"

namespace firstlight::text::jinja {

using ScopePtr = std::shared_ptr<Scope>;

class Renderer final : public Runtime {
 public:
  explicit Renderer(const RenderInput& input);
  ~Renderer() override;
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  Result<Text> run(const Tree& tree);

  Status charge(uint64_t work) override;
  const Limits& limits() const override { return input_.limits; }
  std::tm now() const override { return input_.now; }
  Result<Value> call(const Value& callee, CallArgs args) override;
  Result<Value> call_filter(std::string_view name, const Value& value, CallArgs args) override;
  Result<bool> call_test(std::string_view name, const Value& value, CallArgs args) override;

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  using Body = std::vector<StmtPtr>;

  // Statements.
  Result<Flow> run_body(const Body& body, const ScopePtr& scope);
  Result<Flow> run_stmt(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> dispatch_stmt(const Stmt& stmt, const ScopePtr& scope);
  Status run_output(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> run_if(const Stmt& stmt, const ScopePtr& scope);
  Status run_for(const Stmt& stmt, const Value& iterable, const ScopePtr& scope, int64_t depth0);
  Status run_set(const Stmt& stmt, const ScopePtr& scope);
  Status run_set_block(const Stmt& stmt, const ScopePtr& scope);
  Status run_call_block(const Stmt& stmt, const ScopePtr& scope);
  Status run_filter_block(const Stmt& stmt, const ScopePtr& scope);
  Status run_with(const Stmt& stmt, const ScopePtr& scope);
  Status assign(const Expr& target, const Value& value, const ScopePtr& scope);
  Status emit(const Value& value);
  // The output of `body` as a string.
  Result<Value> capture(const Body& body, const ScopePtr& scope);

  // Expressions.
  Result<Value> eval(const Expr& expr, const ScopePtr& scope);
  Result<Value> dispatch_expr(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_name(const Expr& expr, const ScopePtr& scope);
  Result<std::vector<Value>> eval_items(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_dict(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_subscript(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_condition(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_compare(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_concat(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_filter(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_test(const Expr& expr, const ScopePtr& scope);
  Result<Value> eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Result<CallArgs> eval_args(const Expr& expr, const ScopePtr& scope);

  // Calls.
  Value make_macro(const Stmt& stmt, const ScopePtr& scope);
  Result<Value> call_macro(const Callable& macro, CallArgs args);
  Status bind_macro(const Callable& macro, CallArgs args, const ScopePtr& scope);
  Result<Value> call_loop(const LoopState& loop, CallArgs args);

  Status enter(int line);

  const RenderInput& input_;
  uint64_t work_left_;
  int depth_ = 0;
  int error_line_ = 0;
  Text* out_ = nullptr;
  const Value* block_value_ = nullptr;  // what a filter block filters
  ScopePtr root_;
  std::vector<std::shared_ptr<Callable>> macros_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace firstlight::text::jinja
