// SPDX-License-Identifier: Apache-2.0
// Methods and attributes of Python's built-in types as templates use them. Methods that change their object are unsafe,
// as in Jinja2's immutable sandbox; those of Python that are not carried here are named as unsupported, never silently
// missing.
#pragma once

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

enum class MethodKind : uint8_t { kNone, kMethod, kProperty, kUnsafe, kUnsupported };

MethodKind find_method(const Value& object, std::string_view name);
// Names that are methods of Python's str that this engine does not carry (checked at load when they are called).
bool is_unsupported_method_name(std::string_view name);

Result<Value> method_property(const Value& object, std::string_view name);
Result<Value> call_method(Runtime& runtime, const Value& self, const std::string& name, CallArgs args);

// str.join over any iterable of strings.
Result<Value> join_texts(Runtime& runtime, const Text& separator, const std::vector<Value>& items);

// Refuses a replacement whose result would be longer than a string may be, before it is made.
Status check_growth(Runtime& runtime, const Text& text, const Text& old, const Text& with);

// The methods of strings, in methods_str.cc.
MethodKind find_str_method(std::string_view name);
Result<Value> call_str_method(Runtime& runtime, const Text& self, std::string_view name, CallArgs args);

}  // namespace firstlight::text::jinja
