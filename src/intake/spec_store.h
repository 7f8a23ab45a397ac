// SPDX-License-Identifier: Apache-2.0
// The texts of the spec language: shipped specs and templates, embedded in the program at build time or read from a
// directory in their place, and single files given by the user. Knows paths and bytes, not Lua.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace firstlight::intake {

struct EmbeddedFile {
  std::string_view path;  // "llama.lua", "std/rope.lua"
  std::string_view text;
};
// Generated from architectures/ by cmake/embed_specs.cmake.
const std::vector<EmbeddedFile>& embedded_files();

struct SpecText {
  std::string path;  // for messages: "architectures/llama.lua"
  std::string text;
};

class SpecStore {
 public:
  // `directory` empty: the embedded files. Reads everything at once. Errors: kNotFound, kInvalidData (too large).
  static Result<SpecStore> open(const std::string& directory);

  // Adds or replaces the one spec to be used. Errors: kNotFound.
  Status use_file(const std::string& path);
  void use_text(std::string path, std::string text);

  // Specs in alphabetical order; the single one after use_file.
  const std::vector<SpecText>& specs() const { return specs_; }
  // What require "std.rope" reads ("std/rope.lua"); nullptr: no such module.
  const SpecText* module(std::string_view name) const;
  // By the path as messages have it, where Lua puts "..." in the place of a long one's beginning; nullptr: none.
  const SpecText* find(std::string_view path) const;

 private:
  void add(std::string_view path, std::string text);
  std::vector<SpecText> specs_;
  std::map<std::string, SpecText, std::less<>> modules_;
};

}  // namespace firstlight::intake
