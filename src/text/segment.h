// SPDX-License-Identifier: Apache-2.0
// A piece of a prompt and where it came from. A chat template yields a list of them, a tokenizer turns the list into
// ids: only text that is trusted (the template's own scaffolding, the model's special tokens) may become control ids;
// the words of a user, a tool or a file may not, whatever they spell.
#pragma once

#include <string>

namespace firstlight::text {

struct Segment {
  std::string text;
  bool trusted = false;

  bool operator==(const Segment&) const = default;
};

}  // namespace firstlight::text
