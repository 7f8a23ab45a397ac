// SPDX-License-Identifier: Apache-2.0
#include "intake/spec_renderer.h"

#include <ctime>

#include "intake/lua/architecture.h"
#include "intake/lua/prompts.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"
#include "intake/spec_store.h"
#include "text/chat_messages.h"
#include "text/chat_renderer.h"

namespace firstlight::intake {
namespace {

// A state with the language of specs in it, and no checkpoint behind it.
class PromptState {
 public:
  Status open(const SandboxLimits& limits, const SpecStore& store) {
    sandbox_ = FL_TRY(Sandbox::create(limits, store, tracer_));
    lua_register(state(), "architecture", &declare_architecture);
    return ok_status();
  }
  lua_State* state() const { return sandbox_->state(); }
  Sandbox& sandbox() { return *sandbox_; }
  Tracer& tracer() { return tracer_; }

 private:
  TensorTable tensors_ = TensorTable::open_ended();
  Quantisation quantisation_;
  Tracer tracer_{tensors_, quantisation_};
  std::unique_ptr<Sandbox> sandbox_;
};

std::string date_of(std::optional<int64_t> now_unix_s) {
  const std::time_t at = now_unix_s ? *now_unix_s : std::time(nullptr);
  std::tm parts{};
  if (now_unix_s) {
    gmtime_r(&at, &parts);
  } else {
    localtime_r(&at, &parts);
  }
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

// The argument of render, as JSON.
Result<Json> argument_of(const text::ChatContext& context) {
  if (!context.tools.is_null() && !context.tools.is_array()) return invalid_argument("tools must be an array");
  if (!context.variables.is_null() && !context.variables.is_object()) {
    return invalid_argument("template variables must be an object");
  }
  Json chat = Json::object();
  chat["messages"] = FL_TRY(text::normalize_messages(context.messages, {.string_arguments = true}));
  if (!context.tools.empty()) chat["tools"] = context.tools;
  chat["add_generation_prompt"] = context.add_generation_prompt;
  chat["variables"] = context.variables.is_null() ? Json::object() : context.variables;
  if (!context.tool_choice.is_null()) chat["tool_choice"] = context.tool_choice;
  if (!context.response_format.is_null()) chat["response_format"] = context.response_format;
  chat["date"] = date_of(context.now_unix_s);
  return chat;
}

// Inside lua_pcall: the spec's table and the chat.
int call_render(lua_State* state) {
  const auto& chat = *static_cast<const Json*>(lua_touserdata(state, 2));
  lua_getfield(state, 1, "render");
  push_json(state, chat);
  lua_pushcfunction(state, &write_pieces);
  lua_call(state, 2, 1);
  if (lua_type(state, -1) != LUA_TNIL) {
    raise(state, invalid_data("render returned " + describe(state, -1) + ", wanted nothing: prompts are written"));
  }
  return 0;
}

class SpecRenderer final : public text::ChatRenderer {
 public:
  SpecRenderer(std::shared_ptr<const SpecStore> store, SpecText spec, const SandboxLimits& limits)
      : store_(std::move(store)), spec_(std::move(spec)), limits_(limits) {}

  Result<text::RenderedPrompt> render(const text::ChatContext& context) const override {
    const Json chat = FL_TRY(argument_of(context));
    PromptState run;
    PromptScope scope{.segments = {}, .bytes_left = limits_.memory_bytes, .parsed = {}, .refusal = {}};
    text::RenderedPrompt out;
    const Status status = call(run, chat, scope, out);
    if (status.ok()) return out;
    if (status.code() == StatusCode::kInvalidArgument) return invalid_argument(scope.refusal);
    return Status(status).with_context("the prompt by " + spec_.path);
  }

  const std::string& name() const override { return spec_.path; }

 private:
  Status call(PromptState& run, const Json& chat, PromptScope& scope, text::RenderedPrompt& out) const {
    FL_TRY(run.open(limits_, *store_));
    FL_TRY(run.sandbox().run(spec_.path, spec_.text));
    run.tracer().prompt = &scope;
    lua_pushcfunction(run.state(), &call_render);
    lua_insert(run.state(), -2);
    lua_pushlightuserdata(run.state(), const_cast<Json*>(&chat));
    FL_TRY(run.sandbox().call(2, 0));
    out.segments = std::move(scope.segments);
    return ok_status();
  }

  std::shared_ptr<const SpecStore> store_;
  SpecText spec_;
  SandboxLimits limits_;
};

}  // namespace

Result<std::unique_ptr<text::ChatRenderer>> open_spec_renderer(const IntakeOptions& options,
                                                               const std::string& model_type,
                                                               const SandboxLimits& limits) {
  SpecStore store = FL_TRY(SpecStore::open(options.architectures_dir));
  if (!options.spec_file.empty()) FL_TRY(store.use_file(options.spec_file));
  const auto shared = std::make_shared<const SpecStore>(std::move(store));
  PromptState search;
  FL_TRY(search.open({.steps = options.step_limit, .memory_bytes = options.memory_limit_bytes}, *shared));
  for (const SpecText& spec : shared->specs()) {
    FL_TRY(search.sandbox().run(spec.path, spec.text));
    lua_State* state = search.state();
    if (lua_type(state, -1) != LUA_TTABLE) return invalid_data(spec.path + ": the chunk returns no architecture{…}");
    if (matches_type(state, lua_gettop(state), model_type, nullptr)) {
      if (lua_getfield(state, -1, "render") == LUA_TNIL) break;
      return std::unique_ptr<text::ChatRenderer>(std::make_unique<SpecRenderer>(shared, spec, limits));
    }
    lua_pop(state, 1);
  }
  return std::unique_ptr<text::ChatRenderer>();
}

}  // namespace firstlight::intake
