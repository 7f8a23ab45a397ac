// SPDX-License-Identifier: Apache-2.0
// The part of the spec language for prompts: JSON as render functions see it, and where they write. Heavy header
// (base/json.h): include it in .cc files only.
//
// Lua strings are untrusted, whatever they hold; only markup, which exists before a render function is given anything,
// may become control tokens. So no text of a message can, however a spec handles it.
#pragma once

#include <cstdint>
#include <deque>
#include <lua.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/segment.h"

namespace firstlight::intake {

// What one run of a render function leaves behind.
struct PromptScope {
  std::vector<text::Segment> segments;  // neighbours differ in trust
  int64_t bytes_left = 0;               // that may still be written or parsed
  std::deque<Json> parsed;              // what prompt.parse made; handles point into it
  std::string refusal;                  // of prompt.refuse
};

// Objects and lists become handles into `json`, which must outlive the call; null becomes `null`.
void push_json(lua_State* state, const Json& json);

// write(…): strings, whole numbers and markup, in order.
int write_pieces(lua_State* state);

}  // namespace firstlight::intake
