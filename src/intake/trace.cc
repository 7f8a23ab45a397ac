// SPDX-License-Identifier: Apache-2.0
#include "intake/trace.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "intake/lua/architecture.h"
#include "intake/lua/kinds.h"
#include "intake/lua/sandbox.h"
#include "intake/lua/stack.h"
#include "intake/lua/states.h"
#include "intake/lua/tracer.h"
#include "intake/lua/visits.h"
#include "intake/lua/weight_proxy.h"
#include "intake/table_to_config.h"
#include "ir/rewrite.h"

namespace firstlight::intake {
namespace {

using tensor::DType;
using tensor::Symbol;
using tensor::Type;

constexpr const char* kSpec = "firstlight.spec";  // registry key of the table that architecture{…} returned
constexpr size_t kMaxFacts = 100;
constexpr size_t kMaxFactText = 1000;

// fact("max_positions", value): what is known of the model and is not computation; nil and null are left out.
int declare_fact(lua_State* state) {
  const std::string name = to_text(state, 1, "the name of a fact");
  ops::Attributes& facts = tracer_of(state).graph.metadata;
  if (facts.all().size() >= kMaxFacts)
    raise(state, invalid_data("a spec may state " + std::to_string(kMaxFacts) + " facts"));
  switch (lua_type(state, 2)) {
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA:
      return 0;
    case LUA_TBOOLEAN:
      facts.set(name, lua_toboolean(state, 2) != 0);
      return 0;
    case LUA_TSTRING:
      facts.set(name, to_text(state, 2, name));
      return 0;
    case LUA_TNUMBER:
      if (lua_isinteger(state, 2) != 0) {
        facts.set(name, static_cast<int64_t>(lua_tointeger(state, 2)));
      } else {
        facts.set(name, lua_tonumber(state, 2));
      }
      return 0;
    default:
      facts.set(name, to_integers(state, 2, name));
      return 0;
  }
}

class Runner {
 public:
  Runner(const TraceInput& input, const ConfigNode& config)
      : input_(input), config_(config), tracer_(*input.tensors, *input.quantisation) {
    tracer_.gguf = input.gguf;
    tracer_.probing = input.probing;
    tracer_.read_floats = input.read_floats;
    if (input.record_visits) tracer_.visits = &visits_;
  }

  Result<Trace> run() {
    FL_TRY(open());
    FL_TRY(find_spec());
    FL_TRY(guarded(&Runner::trace_model));
    if (input_.released) FL_TRY(guarded(&Runner::release_weights));
    return finish();
  }

  Result<std::string> model_type() {
    FL_TRY(open());
    return text_key("model_type");
  }

 private:
  Status open() {
    sandbox_ = FL_TRY(Sandbox::create(input_.limits, *input_.specs, tracer_));
    state_ = sandbox_->state();
    lua_register(state_, "architecture", &declare_architecture);
    lua_register(state_, "fact", &declare_fact);
    if (!input_.gguf) return ok_status();
    open_gguf_access(state_);
    return map_gguf();
  }

  // Runs a member function inside lua_pcall, so that whatever it raises becomes a Status.
  Status guarded(void (Runner::*body)()) {
    body_ = body;
    lua_pushcfunction(state_, [](lua_State* state) {
      auto* self = static_cast<Runner*>(lua_touserdata(state, 1));
      (self->*self->body_)();
      return 0;
    });
    lua_pushlightuserdata(state_, this);
    return sandbox_->call(1, 0);
  }

  // The GGUF's metadata becomes a config in Hugging Face's words; its tensor names get a mapper.
  Status map_gguf() { return guarded(&Runner::run_gguf_module); }

  void run_gguf_module() {
    lua_getglobal(state_, "require");
    push(state_, "std.gguf");
    lua_call(state_, 1, 1);
    lua_getfield(state_, -1, "config");
    push_config(state_, config_, keep(state_, ""), tracer_.config);
    lua_call(state_, 1, 1);
    derived_ = table_to_config(state_, -1, 0);
    lua_pop(state_, 1);
    lua_getfield(state_, -1, "mapper");
    push_config(state_, derived_, keep(state_, ""), tracer_.derived_config);
    lua_call(state_, 1, 1);
    lua_setfield(state_, LUA_REGISTRYINDEX, kGgufMapper);
  }

  // gguf.lua puts the weights into the shapes of released checkpoints; they take the logits' place as outputs.
  void release_weights() {
    lua_getglobal(state_, "require");
    push(state_, "std.gguf");
    lua_call(state_, 1, 1);
    lua_getfield(state_, -1, "released");
    push_config(state_, derived_, keep(state_, ""), tracer_.derived_config);
    lua_newtable(state_);
    for (const auto& [name, id] : tracer_.weights) {
      push_graph_value(state_, id);
      lua_setfield(state_, -2, name.c_str());
    }
    lua_call(state_, 2, 1);
    if (lua_type(state_, -1) != LUA_TTABLE) raise(state_, invalid_data("gguf.released gave no table"));
    std::map<std::string, ir::ValueId> released;
    for (lua_pushnil(state_); lua_next(state_, -2) != 0; lua_pop(state_, 1)) {
      const std::string name = to_text(state_, -2, "the name of a released tensor");
      const auto* value = userdata<GraphValue>(state_, -1, kGraphValue);
      if (value == nullptr) raise(state_, invalid_data("gguf.released: " + name + " is " + describe(state_, -1)));
      released[name] = value->id;
    }
    tracer_.graph.output_names.clear();
    tracer_.graph.body.yields.clear();
    for (const auto& [name, id] : released) tracer_.builder.add_output(name, id);
  }

  const ConfigNode& config() const { return input_.gguf ? derived_ : config_; }
  ConfigRecord& record() { return input_.gguf ? tracer_.derived_config : tracer_.config; }

  Result<std::string> text_key(std::string_view key) {
    const ConfigNode* node = config().find(key);
    if (node == nullptr || node->kind != ConfigNode::Kind::kString) {
      return invalid_data("config key '" + std::string(key) + "': found " +
                          (node == nullptr ? "nothing" : node->to_string()) + ", wanted a string");
    }
    record().touched.insert(std::string(key));
    record().pinned.insert(std::string(key));
    return node->text;
  }

  // Runs the specs until one matches; leaves its table at index 1.
  Status find_spec() {
    architecture_ = FL_TRY(text_key("model_type"));
    std::string names;
    for (const SpecText& spec : input_.specs->specs()) {
      FL_TRY(sandbox_->run(spec.path, spec.text));
      if (lua_type(state_, -1) != LUA_TTABLE) return invalid_data(spec.path + ": the chunk returns no architecture{…}");
      const bool single = input_.specs->specs().size() == 1;
      if (matches_type(state_, lua_gettop(state_), architecture_, nullptr)) {
        spec_ = spec.path;
        FL_TRY(check_class());
        lua_setfield(state_, LUA_REGISTRYINDEX, kSpec);
        return ok_status();
      }
      lua_pop(state_, 1);
      if (single) {
        return unsupported(spec.path + " does not match model_type \"" + architecture_ + "\"");
      }
      names += (names.empty() ? " " : ", ") + std::filesystem::path(spec.path).stem().string();
    }
    return unsupported("no spec matches model_type \"" + architecture_ + "\" (docs/add_a_model.md); there are" +
                       (names.empty() ? std::string(" none") : names));
  }

  // config.architectures names a class; a class that is not in matches.architectures computes something else (a reward
  // model, a classifier) from the same config. "XModel" is the base of "XForCausalLM": the same without an output head.
  Status check_class() {
    const ConfigNode* classes = config().find("architectures");
    if (classes == nullptr || classes->kind != ConfigNode::Kind::kList) return ok_status();
    record().touched.insert("architectures");
    record().pinned.insert("architectures");
    std::vector<std::string> known;
    lua_getfield(state_, -1, "matches");
    if (lua_getfield(state_, -1, "architectures") == LUA_TTABLE) {
      const auto count = static_cast<lua_Integer>(lua_rawlen(state_, -1));
      for (lua_Integer i = 1; i <= count; ++i) {
        if (lua_rawgeti(state_, -1, i) == LUA_TSTRING) known.emplace_back(lua_tostring(state_, -1));
        lua_pop(state_, 1);
      }
    }
    lua_pop(state_, 2);
    for (const ConfigNode& name : classes->items) {
      if (const std::string base = "Model"; name.text.ends_with(base)) {
        const std::string whole = name.text.substr(0, name.text.size() - base.size()) + "ForCausalLM";
        if (std::find(known.begin(), known.end(), whole) != known.end()) {
          take_off_head();
          continue;
        }
      }
      if (!known.empty() && std::find(known.begin(), known.end(), name.text) == known.end()) {
        return unsupported("config key 'architectures': found " + name.to_string() + ", which " + spec_ +
                           " does not compute");
      }
    }
    return ok_status();
  }

  void take_off_head() {
    is_base_ = true;
    for (const char* key : {"tie_word_embeddings", "final_logit_softcapping"}) {
      record().waived[key] = "a base model has no output head";
    }
  }

  void trace_model() {
    lua_getfield(state_, LUA_REGISTRYINDEX, kSpec);
    int spec = lua_gettop(state_);
    lua_getfield(state_, spec, "parameters");
    push_config(state_, config(), keep(state_, ""), record());
    lua_call(state_, 1, 1);
    const int parameters = lua_gettop(state_);
    if (input_.predict) spec = push_predict(spec);
    add_inputs();
    if (input_.predict) add_hidden_input(parameters);
    const int batch = lua_gettop(state_);
    lua_getfield(state_, spec, "state");
    lua_pushvalue(state_, parameters);
    lua_call(state_, 1, 1);
    declare_states(state_, lua_gettop(state_), parameters);
    lua_setfield(state_, batch, "state");
    lua_getfield(state_, spec, "forward");
    lua_pushvalue(state_, parameters);
    push_weight_scope(state_, keep(state_, ""));
    lua_pushvalue(state_, batch);
    lua_call(state_, 3, 1);
    add_outputs();
  }

  // spec.predict, which has the parts `state` and `forward` as the spec has; its index.
  int push_predict(int spec) {
    if (is_base_) raise(state_, unsupported("a base model has no output head, and so none that predicts"));
    if (lua_getfield(state_, spec, "predict") != LUA_TTABLE) {
      raise(state_, unsupported(spec_ + " describes no head that predicts further tokens"));
    }
    for (const char* part : {"state", "forward"}) {
      if (lua_getfield(state_, -1, part) != LUA_TFUNCTION)
        raise(state_, invalid_data(std::string("predict: no function '") + part + "'"));
      lua_pop(state_, 1);
    }
    return lua_gettop(state_);
  }

  // batch.hidden: what the model's output head saw at each row.
  void add_hidden_input(int parameters) {
    lua_getfield(state_, parameters, "hidden");
    const int64_t width = to_integer(state_, -1, "hidden");
    lua_pop(state_, 1);
    const Type type = Type::tensor(DType::kF32, {tensor::Dim(1, Symbol::kTokens), tensor::Dim(width)});
    push_graph_value(state_, tracer_.builder.add_input("hidden", type));
    lua_setfield(state_, -2, "hidden");
  }

  // Leaves the batch table on the stack.
  void add_inputs() {
    lua_newtable(state_);
    const std::pair<const char*, Symbol> inputs[] = {
        {"tokens", Symbol::kTokens}, {"positions", Symbol::kTokens}, {"output_rows", Symbol::kOutputs}};
    for (const auto& [name, symbol] : inputs) {
      push_graph_value(state_, tracer_.builder.add_input(name, Type::tensor(DType::kI32, {tensor::Dim(1, symbol)})));
      lua_setfield(state_, -2, name);
    }
    lua_pushboolean(state_, is_base_ ? 1 : 0);
    lua_setfield(state_, -2, "headless");
  }

  void add_outputs() {
    if (lua_type(state_, -1) != LUA_TTABLE)
      raise(state_, invalid_data("forward returned " + describe(state_, -1) + ", wanted { logits = … }"));
    lua_getfield(state_, -1, "logits");
    const auto* logits = userdata<GraphValue>(state_, -1, kGraphValue);
    if (logits == nullptr) raise(state_, invalid_data("forward returned no logits"));
    const tensor::Shape& shape = tracer_.builder.type(logits->id).shape;
    if (shape.size() != 2 || shape[0] != tensor::Dim(1, Symbol::kOutputs)) {
      raise(state_, invalid_data("logits: shape " + tensor::shape_to_string(shape) +
                                 ", wanted [O, vocabulary]: gather batch.output_rows"));
    }
    if (is_base_ && tracer_.graph.metadata.find("vocabulary") == nullptr) {
      raise(state_,
            unsupported("a base model, and " + spec_ + " has no form without an output head (std.head has one)"));
    }
    tracer_.builder.add_output(is_base_ ? "hidden" : "logits", logits->id);
    if (!input_.predict) return;
    lua_getfield(state_, -2, "hidden");
    const auto* hidden = userdata<GraphValue>(state_, -1, kGraphValue);
    if (hidden == nullptr) raise(state_, invalid_data("predict.forward returned no hidden"));
    const tensor::Shape& rows = tracer_.builder.type(hidden->id).shape;
    if (rows.size() != 2 || rows[0] != tensor::Dim(1, Symbol::kOutputs) ||
        tracer_.builder.type(hidden->id).dtype != DType::kF32) {
      raise(state_, invalid_data("hidden: shape " + tensor::shape_to_string(rows) +
                                 ", wanted f32 [O, hidden]: gather batch.output_rows"));
    }
    tracer_.builder.add_output("hidden", hidden->id);
  }

  // Scales of a quantised key/value cache have names of their own and no reader here.
  void waive_cache_scales() {
    if (!input_.quantisation->present()) return;
    int64_t count = 0;
    for (const auto& [name, info] : input_.tensors->all()) {
      constexpr std::string_view kEnds[] = {".k_scale",
                                            ".v_scale",
                                            ".q_scale",
                                            ".kv_scale",
                                            ".prob_scale",
                                            ".k_proj.output_scale",
                                            ".v_proj.output_scale",
                                            ".k_zero_point",
                                            ".v_zero_point"};
      if (std::none_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return name.ends_with(end); })) {
        continue;
      }
      tracer_.waived_tensors.emplace(name, "a scale of a quantised key/value cache; the cache keeps its own type here");
      ++count;
    }
    if (count == 0) return;
    tracer_.warnings.push_back(std::to_string(count) +
                               " scales of a quantised key/value cache are not used: the cache keeps its own type");
  }

  Result<Trace> finish() {
    waive_cache_scales();
    Trace trace;
    tracer_.graph.name = architecture_;
    if (!input_.quantisation->description.empty()) {
      tracer_.graph.metadata.set("quantisation", input_.quantisation->description);
      tracer_.graph.metadata.set("unconverted", input_.quantisation->summary());
    }
    trace.graph = std::move(tracer_.graph);
    ir::eliminate_dead_code(trace.graph);
    trace.released_config = std::move(derived_);
    trace.config = std::move(tracer_.config);
    trace.waived_tensors = std::move(tracer_.waived_tensors);
    trace.waived_copies = std::move(tracer_.waived_copies);
    trace.waived_layers = std::move(tracer_.waived_layers);
    trace.missing_tensors = std::move(tracer_.missing_tensors);
    trace.warnings = std::move(tracer_.warnings);
    trace.architecture = architecture_;
    trace.spec = spec_;
    trace.steps = sandbox_->steps_used();
    for (const auto& [chunk, jumps] : visits_.jumps) {
      for (const auto& [from, to] : jumps) {
        trace.jumps.insert(chunk + ":" + std::to_string(from) + ">" + std::to_string(to));
      }
    }
    return trace;
  }

  const TraceInput& input_;
  const ConfigNode& config_;
  ConfigNode derived_;
  Tracer tracer_;
  Visits visits_;
  std::unique_ptr<Sandbox> sandbox_;
  lua_State* state_ = nullptr;
  void (Runner::*body_)() = nullptr;
  std::string architecture_;
  std::string spec_;
  bool is_base_ = false;  // without an output head: the graph's output is "hidden"
};

}  // namespace

Result<Trace> run_trace(const TraceInput& input, const ConfigNode& config) { return Runner(input, config).run(); }

Result<std::string> find_model_type(const TraceInput& input, const ConfigNode& config) {
  return Runner(input, config).model_type();
}

Result<std::map<std::string, std::vector<std::string>>> matched_types(const SpecStore& specs,
                                                                      const SandboxLimits& limits) {
  std::map<std::string, std::vector<std::string>> out;
  const TensorTable tensors = TensorTable::open_ended();
  const Quantisation quantisation;
  Tracer tracer(tensors, quantisation);
  const auto sandbox = FL_TRY(Sandbox::create(limits, specs, tracer));
  lua_State* state = sandbox->state();
  lua_register(state, "architecture", &declare_architecture);
  lua_register(state, "fact", &declare_fact);
  for (const SpecText& spec : specs.specs()) {
    FL_TRY(sandbox->run(spec.path, spec.text));
    if (lua_type(state, -1) != LUA_TTABLE) return invalid_data(spec.path + ": the chunk returns no architecture{…}");
    matches_type(state, lua_gettop(state), "", &out[spec.path]);
    lua_pop(state, 1);
  }
  return out;
}

}  // namespace firstlight::intake
