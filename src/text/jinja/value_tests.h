// SPDX-License-Identifier: Apache-2.0
// The table of tests ("is defined", "is string", …): the whole list of Jinja2.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace firstlight::text::jinja {

struct TestRow {
  std::string_view name;
  size_t operands = 0;
  Result<bool> (*apply)(Runtime&, const Value&, const std::vector<Value>& operands) = nullptr;
};

const TestRow* find_test(std::string_view name);
Result<bool> apply_test(Runtime& runtime, const TestRow& row, const Value& value, const CallArgs& args);

}  // namespace firstlight::text::jinja
