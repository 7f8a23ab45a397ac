// SPDX-License-Identifier: Apache-2.0
// The tools of a request: which names may be called, and which types their parameters have, for call formats that write
// every value as plain text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace firstlight::text {

// A set of JSON types, as bits; 0: the schema does not say.
using TypeSet = uint8_t;
enum : TypeSet { kString = 1, kInteger = 2, kNumber = 4, kBoolean = 8, kObject = 16, kArray = 32, kNull = 64 };

class ToolSet {
 public:
  ToolSet() = default;
  // OpenAI's form, [{"type": "function", "function": {"name", "parameters"}}], or the functions alone. What is not of
  // that form is left out: it cannot be called.
  explicit ToolSet(const Json& tools);

  bool empty() const { return parameters_.empty(); }
  bool knows(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  std::vector<std::string> names() const;  // in alphabetical order
  // The schema of its arguments; null where none is given or the tool is not known.
  const Json& parameters(std::string_view name) const;
  // Of one argument: its type, enum or const, through $ref, anyOf, oneOf and allOf.
  TypeSet types(std::string_view name, const std::string& parameter) const;

 private:
  std::map<std::string, std::shared_ptr<const Json>, std::less<>> parameters_;
};

// The value that `text` means where these types are allowed: a string as it is written if nothing but a string may
// stand there or nothing else fits; else JSON (or the same as a Python literal).
Json typed_value(std::string_view text, TypeSet types);

}  // namespace firstlight::text
