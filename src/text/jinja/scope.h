// SPDX-License-Identifier: Apache-2.0
// Variables of one block of a template and, behind it, those of the blocks around it. Internal to the renderer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace firstlight::text::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string, Value> variables;

  const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      if (const auto it = scope->variables.find(name); it != scope->variables.end()) return &it->second;
    }
    return nullptr;
  }
};

}  // namespace firstlight::text::jinja
