// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/visits.h"

namespace firstlight::intake {

void Visits::note(lua_State* state, lua_Debug* event) {
  switch (event->event) {
    case LUA_HOOKCALL:
      lines_.push_back(0);
      return;
    case LUA_HOOKTAILCALL:
      lines_.back() = 0;
      return;
    case LUA_HOOKRET:
      if (lines_.size() > 1) lines_.pop_back();
      return;
    default:
      break;
  }
  lua_getinfo(state, "S", event);
  if (event->source != last_chunk_) {
    last_chunk_ = event->source;
    last_ = &jumps[event->short_src];
  }
  last_->emplace(lines_.back(), event->currentline);
  lines_.back() = event->currentline;
}

}  // namespace firstlight::intake
