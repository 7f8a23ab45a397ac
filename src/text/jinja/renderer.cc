// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/renderer.h"

#include "text/jinja/globals.h"
#include "text/jinja/lexer.h"
#include "text/jinja/print.h"
#include "text/jinja/renderer_impl.h"

namespace firstlight::text::jinja {
namespace {

constexpr uint64_t kScopeWork = 4;  // what a scope with a variable or two costs beside an evaluated node

}  // namespace

Renderer::Renderer(const RenderInput& input)
    : input_(input), work_left_(input.limits.work), root_(std::make_shared<Scope>(nullptr)) {
  for (const auto& [name, value] : input.variables) root_->variables.insert_or_assign(name, value);
}

Renderer::~Renderer() {
  for (const auto& macro : macros_) macro->closure.reset();
  for (const auto& space : namespaces_) space->attributes = Dict();
}

Result<Text> Renderer::run(const Tree& tree) {
  Text out;
  out_ = &out;
  const Result<Flow> flow = run_body(tree.body, root_);
  if (flow.ok()) return out;
  if (flow.code() == StatusCode::kInvalidArgument) return flow.status();
  Status status = flow.status();
  return std::move(status).with_context("line " + std::to_string(error_line_));
}

Status Renderer::charge(uint64_t work) {
  if (work > work_left_) {
    work_left_ = 0;
    return unsupported("the template takes more than " + std::to_string(input_.limits.work) + " steps");
  }
  work_left_ -= work;
  return ok_status();
}

Status Renderer::enter(int line) {
  if (++depth_ > input_.limits.depth) {
    if (error_line_ == 0) error_line_ = line;
    return unsupported("nested deeper than " + std::to_string(input_.limits.depth) + " levels (endless recursion?)");
  }
  return charge(1);
}

Result<Renderer::Flow> Renderer::run_body(const Body& body, const ScopePtr& scope) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = FL_TRY(run_stmt(*stmt, scope));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Result<Renderer::Flow> Renderer::run_stmt(const Stmt& stmt, const ScopePtr& scope) {
  FL_TRY(enter(stmt.line));
  Result<Flow> out = dispatch_stmt(stmt, scope);
  --depth_;
  if (!out.ok() && error_line_ == 0) error_line_ = stmt.line;
  return out;
}

Result<Renderer::Flow> Renderer::dispatch_stmt(const Stmt& stmt, const ScopePtr& scope) {
  switch (stmt.kind) {
    case StmtKind::kOutput:
      FL_TRY(run_output(stmt, scope));
      break;
    case StmtKind::kFor: {
      const Value iterable = FL_TRY(eval(*stmt.expr, scope));
      FL_TRY(run_for(stmt, iterable, scope, 0));
      break;
    }
    case StmtKind::kIf:
      return run_if(stmt, scope);
    case StmtKind::kSet:
      FL_TRY(run_set(stmt, scope));
      break;
    case StmtKind::kSetBlock:
      FL_TRY(run_set_block(stmt, scope));
      break;
    case StmtKind::kMacro:
      scope->variables.insert_or_assign(stmt.name, make_macro(stmt, scope));
      break;
    case StmtKind::kCallBlock:
      FL_TRY(run_call_block(stmt, scope));
      break;
    case StmtKind::kFilterBlock:
      FL_TRY(run_filter_block(stmt, scope));
      break;
    case StmtKind::kWith:
      FL_TRY(run_with(stmt, scope));
      break;
    case StmtKind::kScope:
      FL_TRY(run_body(stmt.body, std::make_shared<Scope>(scope)));
      break;
    case StmtKind::kBlock:
      FL_TRY(run_body(stmt.body, std::make_shared<Scope>(stmt.is_scoped ? scope : root_)));
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Status Renderer::emit(const Value& value) {
  FL_TRY(charge(1 + value_weight(value) / 8));
  if (value.is_string()) {
    out_->append(value.as_text());
  } else {
    out_->append(to_text(value));
  }
  if (out_->size() > input_.limits.string_bytes) {
    return unsupported("output longer than " + std::to_string(input_.limits.string_bytes) + " bytes");
  }
  return ok_status();
}

Status Renderer::run_output(const Stmt& stmt, const ScopePtr& scope) {
  for (const ExprPtr& item : stmt.items) {
    if (item->kind == ExprKind::kConst) {
      FL_TRY(emit(item->constant));
    } else {
      FL_TRY(emit(FL_TRY(eval(*item, scope))));
    }
  }
  return ok_status();
}

Result<Renderer::Flow> Renderer::run_if(const Stmt& stmt, const ScopePtr& scope) {
  for (const Branch& branch : stmt.branches) {
    if (is_truthy(FL_TRY(eval(*branch.test, scope)))) return run_body(branch.body, scope);
  }
  return run_body(stmt.orelse, scope);
}

Status Renderer::run_for(const Stmt& stmt, const Value& iterable, const ScopePtr& scope, int64_t depth0) {
  auto loop = std::make_shared<LoopState>();
  loop->items = FL_TRY(items_of(iterable));
  FL_TRY(charge(loop->items.size()));
  loop->depth0 = depth0;
  if (stmt.is_recursive) {
    loop->recursive = &stmt;
    loop->outer = scope;
  }
  if (stmt.test != nullptr) {
    loop->filter = [this, &stmt, scope](const Value& item) -> Result<bool> {
      const auto inner = std::make_shared<Scope>(scope);
      FL_TRY(charge(kScopeWork));
      FL_TRY(assign(*stmt.target, item, inner));
      return is_truthy(FL_TRY(eval(*stmt.test, inner)));
    };
  } else {
    loop->known_length = loop->items.size();
  }
  bool ran = false;  // a body left by break or continue does not count, as in Jinja2's generated code
  Status status;
  while (true) {
    const Result<bool> more = loop->advance();
    if (!more.ok()) status = more.status();
    if (!more.ok() || !*more) break;
    const auto inner = std::make_shared<Scope>(scope);
    status = charge(kScopeWork);
    if (status.ok()) status = assign(*stmt.target, *loop->current, inner);
    if (!status.ok()) break;
    inner->variables.insert_or_assign("loop", Value(loop));
    const Result<Flow> flow = run_body(stmt.body, inner);
    if (!flow.ok()) status = flow.status();
    if (!flow.ok() || *flow == Flow::kBreak) break;
    ran = ran || *flow == Flow::kNormal;
  }
  loop->finish();
  FL_TRY(std::move(status));
  if (!ran && !stmt.orelse.empty()) FL_TRY(run_body(stmt.orelse, std::make_shared<Scope>(scope)));
  return ok_status();
}

Status Renderer::assign(const Expr& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == ExprKind::kName) {
    scope->variables.insert_or_assign(target.name, value);
    return ok_status();
  }
  if (target.kind == ExprKind::kNsRef) {
    const Value* space = scope->find(target.name);
    if (space == nullptr || space->kind() != Kind::kNamespace) {
      return invalid_data("cannot assign attribute on non-namespace object");
    }
    return set_namespace(*space->as_namespace(), target.attribute, value);
  }
  if (!is_iterable(value)) return invalid_data("cannot unpack non-iterable " + type_name(value) + " object");
  const std::vector<Value> items = FL_TRY(items_of(value));
  if (items.size() != target.items.size()) {
    return invalid_data((items.size() < target.items.size() ? "not enough values to unpack (expected "
                                                            : "too many values to unpack (expected ") +
                        std::to_string(target.items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) FL_TRY(assign(*target.items[i], items[i], scope));
  return ok_status();
}

Status Renderer::run_set(const Stmt& stmt, const ScopePtr& scope) {
  return assign(*stmt.target, FL_TRY(eval(*stmt.expr, scope)), scope);
}

Result<Value> Renderer::capture(const Body& body, const ScopePtr& scope) {
  Text captured;
  Text* outer = out_;
  out_ = &captured;
  const Result<Flow> flow = run_body(body, scope);
  out_ = outer;
  if (!flow.ok()) return flow.status();
  return text(std::move(captured));
}

Status Renderer::run_set_block(const Stmt& stmt, const ScopePtr& scope) {
  Value value = FL_TRY(capture(stmt.body, std::make_shared<Scope>(scope)));
  if (stmt.filter != nullptr) {
    const Value* outer = block_value_;
    block_value_ = &value;
    const Result<Value> filtered = eval(*stmt.filter, scope);
    block_value_ = outer;
    if (!filtered.ok()) return filtered.status();
    value = *filtered;
  }
  return assign(*stmt.target, value, scope);
}

Status Renderer::run_filter_block(const Stmt& stmt, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  const Value value = FL_TRY(capture(stmt.body, inner));
  const Value* outer = block_value_;
  block_value_ = &value;
  const Result<Value> filtered = eval(*stmt.filter, inner);
  block_value_ = outer;
  if (!filtered.ok()) return filtered.status();
  return emit(*filtered);
}

Status Renderer::run_call_block(const Stmt& stmt, const ScopePtr& scope) {
  const Value caller = make_macro(stmt, scope);
  return emit(FL_TRY(eval_call(*stmt.expr, scope, &caller)));
}

Status Renderer::run_with(const Stmt& stmt, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    FL_TRY(assign(*stmt.targets[i], FL_TRY(eval(*stmt.items[i], scope)), inner));
  }
  FL_TRY(run_body(stmt.body, inner));
  return ok_status();
}

Result<Text> render(const Tree& tree, const RenderInput& input) { return Renderer(input).run(tree); }

}  // namespace firstlight::text::jinja
