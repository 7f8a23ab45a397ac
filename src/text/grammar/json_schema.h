// SPDX-License-Identifier: Apache-2.0
// JSON Schema (draft 2020-12, a subset: docs/structured_output.md) to the grammar of its documents. Every text of the
// grammar is a document that the schema allows. Members come in the order of "properties"; there are no others where
// "properties" is given and "additionalProperties" is not. A keyword that is not known is an error that names it by its
// JSON pointer.
#pragma once

#include <string>
#include <string_view>

#include "text/grammar/grammar.h"
#include "text/grammar/json_text.h"

namespace firstlight::text::grammar {

// `strings`: how the strings in the documents are written; `root`: the reference in the schema ("#/properties/a") that
// documents are held to. Errors: kInvalidArgument (malformed, nothing is allowed, too large) and kUnsupported.
Result<Grammar> compile_json_schema(std::string_view schema_json, StringSpelling strings = {},
                                    const std::string& root = "#");

// "/name", as a part of a reference.
std::string pointer_part(std::string_view name);

// Any JSON object.
Grammar json_object_grammar();

}  // namespace firstlight::text::grammar
