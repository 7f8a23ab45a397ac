// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/callable.h"

namespace firstlight::text::jinja {

std::string Callable::type_name() const {
  switch (kind) {
    case CallableKind::kGlobal:
      return "function";
    case CallableKind::kMethod:
      return "builtin_function_or_method";
    case CallableKind::kMacro:
      return "Macro";
    case CallableKind::kCycler:
      return "Cycler";
    case CallableKind::kJoiner:
      return "Joiner";
  }
  return "function";
}

Result<std::optional<Value>> LoopState::pull() {
  while (position < items.size()) {
    const Value item = items[position++];
    if (!filter || FL_TRY(filter(item))) return std::optional<Value>(item);
  }
  return std::optional<Value>();
}

Status LoopState::peek() {
  if (!after.has_value()) after = FL_TRY(pull());
  return ok_status();
}

Result<bool> LoopState::advance() {
  std::optional<Value> item = std::move(after);
  after.reset();
  if (!item.has_value()) item = FL_TRY(pull());
  if (!item.has_value()) return false;
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

Result<size_t> LoopState::length() {
  if (known_length.has_value()) return *known_length;
  std::vector<Value> rest;
  while (true) {
    std::optional<Value> item = FL_TRY(pull());
    if (!item.has_value()) break;
    rest.push_back(*std::move(item));
  }
  known_length = rest.size() + static_cast<size_t>(index0 + 1) + (after.has_value() ? 1 : 0);
  items = std::move(rest);
  position = 0;
  filter = nullptr;
  return *known_length;
}

Result<Value> LoopState::attribute(std::string_view name) {
  const auto integer = [](int64_t value) { return Value::integer(value); };
  if (name == "index0") return integer(index0);
  if (name == "index") return integer(index0 + 1);
  if (name == "first") return Value(index0 == 0);
  if (name == "depth0") return integer(depth0);
  if (name == "depth") return integer(depth0 + 1);
  if (name == "length") return integer(static_cast<int64_t>(FL_TRY(length())));
  if (name == "revindex") return integer(static_cast<int64_t>(FL_TRY(length())) - index0);
  if (name == "revindex0") return integer(static_cast<int64_t>(FL_TRY(length())) - index0 - 1);
  if (name == "previtem") return index0 > 0 && before ? *before : Value::undefined("there is no previous item");
  if (name == "last" || name == "nextitem") {
    FL_TRY(peek());
    if (name == "last") return Value(!after.has_value());
    return after.has_value() ? *after : Value::undefined("there is no next item");
  }
  return Value::undefined("'jinja2.runtime.LoopContext object' has no attribute '" + std::string(name) + "'");
}

void LoopState::finish() {
  items.clear();
  filter = nullptr;
  outer.reset();
}

}  // namespace firstlight::text::jinja
