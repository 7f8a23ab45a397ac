// SPDX-License-Identifier: Apache-2.0
// What a template can call or ask for attributes beyond plain data: global functions, bound methods, macros, cyclers,
// joiners, and the `loop` object. Only their state is here; methods.cc, globals.cc and the renderer act on it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

struct Stmt;
struct Scope;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

enum class CallableKind : uint8_t { kGlobal, kMethod, kMacro, kCycler, kJoiner };

struct Callable {
  CallableKind kind = CallableKind::kGlobal;
  std::string name;
  Value self;                      // method: its object; cycler: the tuple of items; joiner: the separator
  const Stmt* macro = nullptr;     // macro: its definition (a macro or call block), alive as long as the template
  std::shared_ptr<Scope> closure;  // macro: where it was defined; cut by the renderer at the end, it may form a cycle
  size_t position = 0;             // cycler
  bool used = false;               // joiner

  std::string type_name() const;
};

// One running `for`. Items are pulled one by one, because the loop's filter may depend on what the body did before.
struct LoopState {
  std::vector<Value> items;
  size_t position = 0;  // next of `items` to look at
  std::function<Result<bool>(const Value&)> filter;
  std::optional<size_t> known_length;
  std::optional<Value> after;  // pulled ahead of its turn
  std::optional<Value> before;
  std::optional<Value> current;
  std::optional<std::vector<Value>> last_changed;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  const Stmt* recursive = nullptr;  // the `for` itself when it has the marker
  std::shared_ptr<Scope> outer;     // where the recursive `for` stands

  // Moves to the next item; false at the end.
  Result<bool> advance();
  // An attribute such as `index0` or `last`; undefined when there is none of that name.
  Result<Value> attribute(std::string_view name);
  // Drops what refers to the renderer, once the loop is over.
  void finish();

 private:
  Result<std::optional<Value>> pull();
  Status peek();
  Result<size_t> length();
};

}  // namespace firstlight::text::jinja
