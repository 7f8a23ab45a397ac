// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/sandbox.h"

#include <cstdlib>

#include "intake/lua/stack.h"
#include "intake/lua/traced_function.h"
#include "intake/lua/tracer.h"
#include "intake/lua/visits.h"

namespace firstlight::intake {
namespace {

constexpr int kStepsPerHook = 1000;
constexpr int64_t kBytesPerStep = 256;

// Adds the frames of other chunks to a message that begins with the innermost place: "std/mlp.lua:7: … (from
// llama.lua:31)".
int add_callers(lua_State* state) {
  const char* text = lua_tostring(state, 1);
  std::string message = text == nullptr ? "the spec raised an error that is not text" : text;
  lua_Debug frame;
  std::string last_source;
  // Finding a level takes time in proportion to it: a recursion that filled the stack is not walked to its end.
  constexpr int kDeepest = 200;
  for (int level = 1, named = 0; named < 4 && level <= kDeepest && lua_getstack(state, level, &frame) != 0; ++level) {
    lua_getinfo(state, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    const std::string place = std::string(frame.short_src) + ":" + std::to_string(frame.currentline);
    if (message.find(place) != std::string::npos || last_source == frame.short_src) continue;
    last_source = frame.short_src;
    message += " (from " + place + ")";
    ++named;
  }
  lua_pushlstring(state, message.data(), message.size());
  return 1;
}

int setup(lua_State* state) {
  const auto* store = static_cast<const SpecStore*>(lua_touserdata(state, 1));
  open_safe_libraries(state, *store);
  return 0;
}

}  // namespace

void* Sandbox::allocate(void* self, void* block, size_t old_size, size_t new_size) {
  auto& sandbox = *static_cast<Sandbox*>(self);
  const auto before = static_cast<int64_t>(block == nullptr ? 0 : old_size);
  if (new_size == 0) {
    std::free(block);
    sandbox.used_bytes_ -= before;
    return nullptr;
  }
  const int64_t grown = static_cast<int64_t>(new_size) - before;
  if (grown > 0 && sandbox.used_bytes_ + grown > sandbox.limits_.memory_bytes) return nullptr;
  // Copying large strings costs time that no instruction shows.
  sandbox.steps_ += static_cast<int64_t>(new_size) / kBytesPerStep;
  if (grown > kBytesPerStep && sandbox.steps_ > 2 * sandbox.limits_.steps) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved != nullptr) sandbox.used_bytes_ += grown;
  return moved;
}

void Sandbox::on_hook(lua_State* state, lua_Debug* event) {
  Sandbox& sandbox = sandbox_of(state);
  if (event->event != LUA_HOOKCOUNT) {
    const bool call = event->event == LUA_HOOKCALL || event->event == LUA_HOOKTAILCALL;
    if (sandbox.tracer_.visits != nullptr) sandbox.tracer_.visits->note(state, event);
    if (call && sandbox.tracer_.traced != nullptr) check_called_function(state, event);
    return;
  }
  sandbox.steps_ += kStepsPerHook;
  const bool late = std::chrono::steady_clock::now() > sandbox.deadline_;
  if (sandbox.steps_ <= sandbox.limits_.steps && !late) return;
  lua_sethook(state, &Sandbox::on_hook, LUA_MASKCOUNT, 1);
  if (late) raise(state, invalid_data("the spec ran longer than " + std::to_string(sandbox.limits_.seconds) + " s"));
  raise(state, invalid_data("the spec ran more than " + std::to_string(sandbox.limits_.steps) + " steps"));
}

Sandbox& sandbox_of(lua_State* state) {
  void* self = nullptr;
  lua_getallocf(state, &self);
  return *static_cast<Sandbox*>(self);
}

void hook_calls(lua_State* state, bool calls) {
  const bool all = tracer_of(state).visits != nullptr;
  const int mask = all ? LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE : calls ? LUA_MASKCALL : 0;
  lua_sethook(state, lua_gethook(state), LUA_MASKCOUNT | mask, kStepsPerHook);
}

Result<std::unique_ptr<Sandbox>> Sandbox::create(const SandboxLimits& limits, const SpecStore& store, Tracer& tracer) {
  std::unique_ptr<Sandbox> sandbox(new Sandbox(limits, tracer));
  sandbox->state_ = lua_newstate(&Sandbox::allocate, sandbox.get());
  if (sandbox->state_ == nullptr) return out_of_memory("the spec's memory limit is too small for an empty state");
  lua_State* state = sandbox->state_;
  sandbox->deadline_ =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(limits.seconds));
  *static_cast<Tracer**>(lua_getextraspace(state)) = &tracer;
  lua_sethook(state, &Sandbox::on_hook, LUA_MASKCOUNT, kStepsPerHook);
  hook_calls(state, false);
  lua_pushcfunction(state, &setup);
  lua_pushlightuserdata(state, const_cast<SpecStore*>(&store));
  FL_TRY(sandbox->call(1, 0));
  return sandbox;
}

Sandbox::~Sandbox() {
  if (state_ != nullptr) lua_close(state_);
}

Status Sandbox::run(const std::string& path, std::string_view text) {
  // Mode "t": precompiled chunks are refused, since bytecode can break the virtual machine.
  if (luaL_loadbufferx(state_, text.data(), text.size(), ("@" + path).c_str(), "t") != LUA_OK) {
    const char* reason = lua_tostring(state_, -1);
    const std::string message = reason == nullptr ? "does not compile" : reason;
    Status status = invalid_data(message.starts_with(path) ? message : path + ": " + message);
    lua_pop(state_, 1);
    return status;
  }
  return call(0, 1);
}

Status Sandbox::call(int num_args, int num_results) {
  const int handler = lua_gettop(state_) - num_args;
  lua_pushcfunction(state_, &add_callers);
  lua_insert(state_, handler);
  tracer_.error_code = StatusCode::kInvalidData;
  const int outcome = lua_pcall(state_, num_args, num_results, handler);
  lua_remove(state_, handler);
  if (outcome == LUA_OK) return ok_status();
  tracer_.traced = nullptr;
  if (outcome == LUA_ERRMEM || outcome == -1) {
    lua_pop(state_, 1);
    return invalid_data("the spec needs more than " + std::to_string(limits_.memory_bytes) + " bytes of memory");
  }
  const char* text = lua_tostring(state_, -1);
  std::string message = text == nullptr ? "the spec failed" : text;
  lua_pop(state_, 1);
  switch (tracer_.error_code) {
    case StatusCode::kUnsupported:
      return unsupported(std::move(message));
    case StatusCode::kInvalidArgument:
      return invalid_argument(std::move(message));
    case StatusCode::kInternal:
      return internal_error(std::move(message));
    default:
      return invalid_data(std::move(message));
  }
}

}  // namespace firstlight::intake
