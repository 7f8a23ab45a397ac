// SPDX-License-Identifier: Apache-2.0
// Constrained output, as the server and the command line use it: a language description becomes a Constraint (compiled
// once, kept by its text), and each request, each of its choices, gets a token mask of its own from it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "request/request.h"
#include "text/tokenizer.h"

namespace firstlight::text::grammar {

struct ConstraintSpec {
  enum class Kind : uint8_t {
    kJsonObject,  // any JSON object; no text
    kJsonSchema,  // text: a JSON Schema
    kRegex,       // text: a regular expression, of the whole output
    kChoice,      // text: a JSON array of strings
    kGrammar,     // text: a grammar (ebnf.h)
    kStructure,   // text: JSON, these and more put together (structure.h)
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
};

// Compiled and shared; any number of threads.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Follows one output from its first token on; `at_start` false: from within a text.
  virtual std::shared_ptr<request::TokenMask> make_mask(bool at_start = true) const = 0;
};

// One per tokenizer; any number of threads. Compiling is bounded in time and memory whatever the text.
class ConstraintCompiler {
 public:
  explicit ConstraintCompiler(Tokenizer tokenizer);
  ~ConstraintCompiler();

  // Errors: kInvalidArgument and kUnsupported, saying where in the text; kUnsupported for a tokenizer that constraints
  // can not work with.
  Result<std::shared_ptr<const Constraint>> compile(const ConstraintSpec& spec);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firstlight::text::grammar
