// SPDX-License-Identifier: Apache-2.0
// What operators, filters, tests and methods need from the rendering they run in: a work budget, calls of callables and
// of other filters by name, and the clock. The renderer implements it; a filter sees no more than this.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/callable.h"
#include "text/jinja/value.h"

namespace firstlight::text::jinja {

// Bounds of one rendering; what exceeds them is an error (kUnsupported).
struct Limits {
  uint64_t work = 50'000'000;             // nodes evaluated plus bytes and items moved
  size_t string_bytes = size_t{1} << 26;  // any single string, the output included
  int depth = 600;                        // nested evaluations (macros that call themselves)
  Int range_items = 100'000;              // Jinja2's own MAX_RANGE
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  // Takes `work` from the budget.
  virtual Status charge(uint64_t work) = 0;
  virtual const Limits& limits() const = 0;
  // The moment that strftime_now formats, as broken-down local time.
  virtual std::tm now() const = 0;

  virtual Result<Value> call(const Value& callee, CallArgs args) = 0;
  // A filter or test by name, as `map` and `select` use them; kUnsupported for unknown names.
  virtual Result<Value> call_filter(std::string_view name, const Value& value, CallArgs args) = 0;
  virtual Result<bool> call_test(std::string_view name, const Value& value, CallArgs args) = 0;

  // A string value after checking its size and charging for it.
  Result<Value> text(Text text);
};

// Arguments matched to parameter names, Python's way.
class Bound {
 public:
  // `params` are names separated by spaces; the first `required` must be given. Errors name `function`.
  static Result<Bound> bind(std::string_view function, std::string_view params, size_t required, CallArgs args);

  bool has(size_t i) const { return values_[i].has_value(); }
  // Given and not None.
  bool is_set(size_t i) const { return has(i) && !values_[i]->is_none(); }
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value value_or(size_t i, Value fallback) const { return has(i) ? *values_[i] : std::move(fallback); }
  bool flag(size_t i, bool fallback) const { return has(i) ? is_truthy(*values_[i]) : fallback; }
  // An int; an error when something else was given.
  Result<int64_t> integer(size_t i, int64_t fallback) const;
  // str, or nothing for an absent argument or None; an error when something else was given.
  Result<std::optional<Text>> text(size_t i) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

// For variadic rows: the positional and named arguments as they came.
Status refuse_named(std::string_view function, const CallArgs& args);

}  // namespace firstlight::text::jinja
