// SPDX-License-Identifier: Apache-2.0
#include "intake/lua/traced_function.h"

#include <string>

#include "intake/lua/bytecode.h"
#include "intake/lua/kinds.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"

namespace firstlight::intake {
namespace {

int append_dump(lua_State*, const void* bytes, size_t size, void* out) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return 0;
}

// A traced value, or a table that holds one.
bool is_traced(lua_State* state, int index) {
  if (luaL_testudata(state, index, kTracedValue) != nullptr) return true;
  if (lua_type(state, index) != LUA_TTABLE) return false;
  index = lua_absindex(state, index);
  bool found = false;
  for (lua_pushnil(state); lua_next(state, index) != 0; lua_pop(state, 1)) {
    found = found || luaL_testudata(state, -1, kTracedValue) != nullptr;
  }
  return found;
}

// Puts the trace's state back however the function ends.
class TraceScope {
 public:
  TraceScope(lua_State* state, ops::Expression& expression) : state_(state), tracer_(tracer_of(state)) {
    tracer_.traced = &expression;
    ++tracer_.trace_serial;
    hook_calls(state_, true);
  }
  ~TraceScope() {
    tracer_.traced = nullptr;
    hook_calls(state_, false);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  lua_State* state_;
  Tracer& tracer_;
};

}  // namespace

int32_t traced_term(lua_State* state, int index) {
  Tracer& tracer = tracer_of(state);
  if (const auto* value = userdata<TracedValue>(state, index, kTracedValue)) {
    if (value->trace != tracer.trace_serial)
      raise(state, invalid_data("a traced value was used outside of its function"));
    return value->term;
  }
  if (lua_type(state, index) == LUA_TNUMBER) return tracer.traced->constant(lua_tonumber(state, index));
  if (luaL_testudata(state, index, kGraphValue) != nullptr) {
    raise(state, invalid_data("a graph value inside a traced function: hand it over as an argument of map"));
  }
  raise(state, invalid_data("arithmetic on " + describe(state, index) + " inside a traced function"));
}

ops::Expression trace_function(lua_State* state, int index, std::span<const TraceArgument> arguments,
                               std::string_view what) {
  Tracer& tracer = tracer_of(state);
  if (tracer.traced != nullptr) raise(state, invalid_data(std::string(what) + " inside a traced function"));
  index = lua_absindex(state, index);
  if (lua_iscfunction(state, index) != 0 || lua_type(state, index) != LUA_TFUNCTION) {
    // A builtin such as `sigmoid` has no bytecode to check and none is needed.
    if (lua_type(state, index) != LUA_TFUNCTION) {
      raise(state, invalid_data(std::string(what) + ": found " + describe(state, index) + ", wanted a function"));
    }
  }
  ops::Expression expression;
  const TraceScope scope(state, expression);
  lua_pushvalue(state, index);
  for (const TraceArgument& argument : arguments) {
    if (argument.input < 0) {
      lua_pushnumber(state, argument.number);
    } else {
      push_userdata<TracedValue>(state, kTracedValue) = {expression.input(argument.input), tracer.trace_serial};
    }
  }
  lua_call(state, static_cast<int>(arguments.size()), 1);
  if (luaL_testudata(state, -1, kTracedValue) == nullptr && lua_type(state, -1) != LUA_TNUMBER) {
    raise(state,
          invalid_data(std::string(what) + ": the function returned " + describe(state, -1) + ", wanted a formula"));
  }
  expression.set_result(traced_term(state, -1));
  lua_pop(state, 1);
  if (expression.is_for_integers() && what != ops::op_name(ops::OpKind::kImap)) {
    raise(state, invalid_data(std::string(what) + ": xor and mod are operations of imap"));
  }
  return expression;
}

void check_called_function(lua_State* state, lua_Debug* event) {
  Tracer& tracer = tracer_of(state);
  lua_getinfo(state, "fuS", event);
  if (lua_iscfunction(state, -1) != 0) {
    lua_pop(state, 1);
    return;
  }
  TracedInputs inputs;
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(lua_topointer(state, -1))) + ":";
  for (int i = 1; i <= event->nparams; ++i) {
    bool traced = false;
    if (lua_getlocal(state, event, i) != nullptr) {
      traced = is_traced(state, -1);
      lua_pop(state, 1);
    }
    inputs.parameters.push_back(traced);
    key += traced ? '1' : '0';
  }
  key += ":";
  for (int i = 1; i <= event->nups; ++i) {
    bool traced = false;
    if (lua_getupvalue(state, -1, i) != nullptr) {
      traced = luaL_testudata(state, -1, kTracedValue) != nullptr;
      lua_pop(state, 1);
    }
    inputs.upvalues.push_back(traced);
    key += traced ? '1' : '0';
  }
  if (tracer.checked_functions.contains(key)) {
    lua_pop(state, 1);
    return;
  }
  std::string dump;
  lua_dump(state, &append_dump, &dump, 0);
  lua_pop(state, 1);
  const auto branch = find_traced_branch(dump, inputs);
  if (!branch.ok()) raise(state, branch.status());
  if (branch->line > 0) {
    tracer.error_code = StatusCode::kInvalidData;
    luaL_error(state, "%s:%d: %s on a traced value, which Lua would decide silently: use lt, le, eq and where",
               event->short_src, branch->line, branch->construct.c_str());
  }
  tracer.checked_functions.insert(std::move(key));
}

}  // namespace firstlight::intake
