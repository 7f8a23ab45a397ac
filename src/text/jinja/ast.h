// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a template. Two node types with a kind each: the language is closed, and a tree that is read by
// one checker and one renderer needs no more. Which members a kind uses stands beside it. Depth is kept so that hostile
// nesting is refused while parsing and no later recursion over the tree can overflow the stack.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

struct Expr;
struct Stmt;
struct FilterRow;
struct TestRow;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;

enum class ExprKind : uint8_t {
  kConst,    // constant
  kName,     // name
  kNsRef,    // name, attribute: a target only
  kTuple,    // items
  kList,     // items
  kDict,     // items: key, value, key, value …
  kGetAttr,  // left, name
  kGetItem,  // left, right (maybe a kSlice)
  kSlice,    // left, right, third: start, stop, step, each may be null
  kCall,     // left and the arguments
  kFilter,   // left (null inside filter blocks), name, arguments, filter
  kTest,     // left, name, arguments, test
  kCond,     // left if right else third (may be null)
  kOr,       // left, right
  kAnd,      // left, right
  kNot,      // left
  kNeg,      // left
  kPos,      // left
  kCompare,  // left, then operators[i] with items[i]
  kBinary,   // left, operators[0], right
  kConcat,   // items
};

enum class Operator : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 0;
  int depth = 1;
  std::string name;
  std::string attribute;
  Value constant;
  ExprPtr left;
  ExprPtr right;
  ExprPtr third;
  std::vector<ExprPtr> items;  // also positional arguments
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star_args;
  ExprPtr star_kwargs;
  std::vector<Operator> operators;
  const FilterRow* filter = nullptr;  // set by the checker; null: unknown, an error if it is reached
  const TestRow* test = nullptr;
};

enum class StmtKind : uint8_t {
  kOutput,       // items
  kFor,          // target, expr (what is iterated), test (the filter), body, orelse, is_recursive
  kIf,           // branches, orelse
  kSet,          // target, expr
  kSetBlock,     // target, filter (may be null), body
  kMacro,        // name, params, body
  kCallBlock,    // expr (the call), params, body
  kFilterBlock,  // filter, body
  kWith,         // targets and items, body
  kScope,        // body: generation
  kBlock,        // body, is_scoped
  kBreak,
  kContinue,
};

struct Param {
  std::string name;
  ExprPtr fallback;
};

struct Branch {
  ExprPtr test;
  std::vector<StmtPtr> body;
};

struct Stmt {
  StmtKind kind = StmtKind::kOutput;
  int line = 0;
  std::string name;
  ExprPtr target;
  ExprPtr expr;
  ExprPtr filter;
  ExprPtr test;
  std::vector<ExprPtr> items;
  std::vector<ExprPtr> targets;
  std::vector<Param> params;
  std::vector<Branch> branches;
  std::vector<StmtPtr> body;
  std::vector<StmtPtr> orelse;
  bool is_recursive = false;
  bool is_scoped = false;
  bool takes_caller = false;  // macros: which of the implicit arguments the body names (set by the checker)
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

// A whole template.
struct Tree {
  std::vector<StmtPtr> body;
};

}  // namespace firstlight::text::jinja
