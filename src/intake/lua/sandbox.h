// SPDX-License-Identifier: Apache-2.0
// Lua 5.4 for code from outside: a state with a memory limit and a step budget whose globals are harmless. No io, os,
// debug, load, pcall, coroutines or metatables; string functions that run in C are bounded; `require` reaches std/
// alone; pairs() visits keys in a fixed order. The library is the build whose errors are C++ exceptions, so destructors
// run.
#pragma once

#include <chrono>
#include <cstdint>
#include <lua.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "intake/trace_record.h"

namespace firstlight::intake {

class SpecStore;
struct Tracer;

class Sandbox {
 public:
  // `tracer` and `store` are not owned and must outlive it; tracer->error_code takes the code of a raised error.
  static Result<std::unique_ptr<Sandbox>> create(const SandboxLimits& limits, const SpecStore& store, Tracer& tracer);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  lua_State* state() const { return state_; }

  // Compiles and runs a chunk; leaves its one result on the stack. Errors: kInvalidData with file and line.
  Status run(const std::string& path, std::string_view text);
  // lua_pcall with a message that names the callers. Errors: the code the failing builtin gave, else kInvalidData.
  Status call(int num_args, int num_results);

  int64_t steps_used() const { return steps_; }
  // Counts work that a builtin does in C, where no instruction is counted.
  void charge(int64_t steps) { steps_ += steps; }

 private:
  Sandbox(const SandboxLimits& limits, Tracer& tracer) : limits_(limits), tracer_(tracer) {}
  static void* allocate(void* self, void* block, size_t old_size, size_t new_size);
  static void on_hook(lua_State* state, lua_Debug* event);

  SandboxLimits limits_;
  Tracer& tracer_;
  lua_State* state_ = nullptr;
  int64_t used_bytes_ = 0;
  int64_t steps_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

Sandbox& sandbox_of(lua_State* state);

// Puts the harmless part of the base, string, table and math libraries, and `require`, into the globals.
void open_safe_libraries(lua_State* state, const SpecStore& store);

}  // namespace firstlight::intake
