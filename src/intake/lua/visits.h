// SPDX-License-Identifier: Apache-2.0
// The path that a run of Lua takes: which line of a function followed which. Two runs with the same jumps took the same
// branches, up to those that begin and end on one line. Filled by the sandbox's hook.
#pragma once

#include <lua.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace firstlight::intake {

struct Visits {
  std::map<std::string, std::set<std::pair<int, int>>, std::less<>> jumps;  // by chunk; from 0: where a call begins

  void note(lua_State* state, lua_Debug* event);

 private:
  std::vector<int> lines_ = {0};      // the line each active call is at
  const char* last_chunk_ = nullptr;  // as Lua keeps its name; lives as long as its state
  std::set<std::pair<int, int>>* last_ = nullptr;
};

}  // namespace firstlight::intake
