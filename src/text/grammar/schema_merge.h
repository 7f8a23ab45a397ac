// SPDX-License-Identifier: Apache-2.0
// JSON Schemas taken together: one schema that allows what both allow (allOf, and what stands beside $ref, anyOf,
// oneOf), references found, and whether two schemas can have a value in common (oneOf).
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"

namespace firstlight::text::grammar {

// Work on the schemas of one document.
class SchemaMerger {
 public:
  explicit SchemaMerger(const Json& document) : document_(document) {}

  // The schema a reference ("#/$defs/x") names. Errors: kUnsupported for one into another document, kInvalidArgument
  // where nothing is.
  Result<const Json*> find(const std::string& reference) const;

  // The same schema without $ref and allOf at its top; anyOf and oneOf are left. Errors: as merge(), and
  // kInvalidArgument for references in a circle.
  Result<Json> flatten(const Json& schema);

  // What both allow; false (the schema) where nothing is. Errors: kUnsupported where it can not be written down.
  Result<Json> merge(const Json& a, const Json& b);

  // Whether no value is allowed by both, as far as types, constants and required members tell.
  Result<bool> are_apart(const Json& a, const Json& b, int depth = 0);

 private:
  Status spend(size_t steps);
  Result<Json> merge_flat(const Json& a, const Json& b);
  Status merge_objects(const Json& a, const Json& b, Json& out);
  Status merge_arrays(const Json& a, const Json& b, Json& out);

  const Json& document_;
  size_t left_ = 2'000'000;  // members that may still be copied or compared
  int depth_ = 0;
};

// The keywords without a say in what is allowed.
bool is_annotation(const std::string& keyword);

// The types of a schema without $ref and allOf: of its "type", or of its constants, or all seven (integer apart from
// number; a type of number allows both).
std::vector<std::string> types_of(const Json& schema);
std::string_view type_of(const Json& value);

}  // namespace firstlight::text::grammar
