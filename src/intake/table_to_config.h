// SPDX-License-Identifier: Apache-2.0
// A Lua table as a config tree: what gguf.lua derives from a GGUF's metadata is read by specs like any config.json.
#pragma once

#include <lua.hpp>

#include "intake/config_tree.h"

namespace firstlight::intake {

// Tables with an element 1 become lists, others objects with their keys in byte order. Raises on what no config can
// hold.
ConfigNode table_to_config(lua_State* state, int index, int depth);

}  // namespace firstlight::intake
