// SPDX-License-Identifier: Apache-2.0
// The operators of expressions, subscripts and attributes, with Python's semantics under Jinja2's immutable sandbox.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

Result<Value> apply_binary(Runtime& runtime, Operator op, const Value& left, const Value& right);
Result<bool> apply_compare(Runtime& runtime, Operator op, const Value& left, const Value& right);
Result<Value> negate(const Value& value, bool minus);

// value[start:stop:step]; null bounds are None.
struct SliceBounds {
  Value start = None{};
  Value stop = None{};
  Value step = None{};
};
Result<Value> get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// `object[key]` (items first) and `object.name` (attributes and methods first). What is not there is undefined; asking
// an undefined value is an error.
Result<Value> get_item(Runtime& runtime, const Value& object, const Value& key);
Result<Value> get_attr(Runtime& runtime, const Value& object, const std::string& name);
// The attribute alone, without falling back to items; nothing if there is none.
Result<std::optional<Value>> get_attr_only(const Value& object, const std::string& name);

}  // namespace firstlight::text::jinja
