// SPDX-License-Identifier: Apache-2.0
// The tensors as a spec sees them: scopes that ask by name, check shapes at once, and resolve how a tensor is stored.
// What w "x.weight" gives is always the logical weight: the parts of a quantised one are put together, a GGUF's own
// names and baked-in changes are undone by nodes in the graph.
#include "intake/lua/weight_proxy.h"

#include <algorithm>

#include "intake/lua/kinds.h"
#include "intake/lua/operators.h"
#include "intake/lua/stack.h"
#include "intake/lua/tracer.h"
#include "intake/stored_weight.h"

namespace firstlight::intake {
namespace {

using ops::OpKind;
using tensor::DType;

constexpr size_t kMaxMissing = 2000;
constexpr int64_t kMaxStack = 16384;
constexpr size_t kMaxName = 1000;
constexpr size_t kMaxReason = 500;
constexpr size_t kMaxLayerWaivers = 100;

tensor::Shape shape_of(const std::vector<int64_t>& sizes) {
  tensor::Shape shape;
  for (const int64_t size : sizes) shape.emplace_back(size);
  return shape;
}

std::string text_of(const std::vector<int64_t>& sizes) { return tensor::shape_to_string(shape_of(sizes)); }

// One weight on its way into the graph. Raises.
class Fetch {
 public:
  Fetch(lua_State* state, std::string name, std::optional<std::vector<int64_t>> wanted)
      : state_(state), tracer_(tracer_of(state)), name_(std::move(name)), wanted_(std::move(wanted)) {
    if (name_.size() > kMaxName) {
      raise(state, invalid_data("the name of a weight is longer than " + std::to_string(kMaxName) + " bytes"));
    }
  }

  ir::ValueId run() {
    if (const auto it = tracer_.weights.find(name_); it != tracer_.weights.end()) return check(it->second);
    const ir::ValueId id = check(tracer_.gguf ? from_gguf() : plain_or_quantised());
    tracer_.weights[name_] = id;
    return id;
  }

  // The weights "a.<e>.b" for e in 0 .. count - 1 as one value with a leading axis.
  ir::ValueId run_stack(int64_t count) {
    const std::string key = name_;
    if (const auto it = tracer_.weights.find(key); it != tracer_.weights.end()) return check(it->second);
    ir::ValueId id = -1;
    if (tracer_.gguf) {
      wanted_->insert(wanted_->begin(), count);
      id = check(from_gguf());
    } else {
      id = stack(count);
    }
    tracer_.weights[key] = id;
    return id;
  }

 private:
  ir::ValueId check(ir::ValueId id) {
    if (!wanted_) return id;
    const tensor::Shape& found = tracer_.builder.type(id).shape;
    if (found != shape_of(*wanted_)) {
      raise(state_,
            invalid_data(name_ + ": shape " + tensor::shape_to_string(found) + ", wanted " + text_of(*wanted_)));
    }
    return id;
  }

  ir::ValueId add(const std::string& name, DType dtype, const std::vector<int64_t>& shape, const std::string& source) {
    return tracer_.builder.add_weight(name, tensor::Type::tensor(dtype, shape_of(shape)), source);
  }

  ir::ValueId add_found(const std::string& name, const TensorInfo& info, const std::string& source) {
    if (!info.dtype)
      raise(state_, unsupported(source + " is stored as " + info.stored_type + ", which nothing here decodes"));
    return add(name, *info.dtype, info.shape, source);
  }

  // A tensor that must exist and does not: noted, so that one load names them all.
  void note_missing(const std::string& source) {
    if (!tracer_.tensors.is_complete()) {
      if (!wanted_) raise(state_, invalid_data(source + ": the spec gives no shape, which a dry run needs"));
      return;
    }
    if (!wanted_ || tracer_.missing_tensors.size() >= kMaxMissing) {
      raise(state_, invalid_data("tensor " + source + " is missing"));
    }
    tracer_.missing_tensors.push_back(source);
  }

  // And a stand-in for it, which keeps the trace going.
  ir::ValueId missing(const std::string& source) {
    note_missing(source);
    return add(name_, DType::kBF16, *wanted_, source);
  }

  // The registry's mapper: name → GGUF name (nil: none), and optionally a function that undoes a change.
  ir::ValueId from_gguf() {
    lua_getfield(state_, LUA_REGISTRYINDEX, kGgufMapper);
    push(state_, name_);
    lua_call(state_, 1, 2);
    if (lua_type(state_, -2) != LUA_TSTRING) raise(state_, invalid_data("gguf.lua knows no tensor for " + name_));
    const std::string source = to_text(state_, -2, "GGUF name");
    const TensorInfo* info = tracer_.tensors.find(source);
    ir::ValueId id = info == nullptr ? missing(source) : add_found(name_, *info, source);
    if (info != nullptr && lua_type(state_, -1) == LUA_TFUNCTION) {
      push_graph_value(state_, id);
      lua_call(state_, 1, 1);
      const auto* value = userdata<GraphValue>(state_, -1, kGraphValue);
      if (value == nullptr) raise(state_, invalid_data("gguf.lua made no graph value of " + name_));
      id = value->id;
    }
    lua_pop(state_, 2);
    return id;
  }

  ir::ValueId plain_or_quantised() {
    if (tracer_.quantisation.gpt_oss_blocks) {
      const TensorInfo* blocks = tracer_.tensors.find(name_ + "_blocks");
      if (blocks != nullptr) return mxfp4(*blocks);
    }
    if (const auto stored = find_stored(name_)) {
      std::vector<ir::ValueId> parts;
      for (const StoredPart& part : stored->parts) parts.push_back(add_found(part.name, part.info, part.name));
      return assembled(*stored, parts);
    }
    const TensorInfo* info = tracer_.tensors.find(name_);
    return info == nullptr ? missing(name_) : add_found(name_, *info, name_);
  }

  std::optional<StoredWeight> find_stored(const std::string& name) {
    auto stored = find_stored_weight(tracer_.tensors, tracer_.quantisation, name, wanted_);
    if (!stored.ok()) raise(state_, stored.status());
    if (stored.value()) {
      for (const auto& [companion, reason] : (*stored)->waived) tracer_.waived_tensors[companion] = reason;
    }
    return std::move(stored).value();
  }

  ir::ValueId assembled(const StoredWeight& stored, std::span<const ir::ValueId> parts) {
    const ir::ValueId id = add_node_one(state_, OpKind::kAssembleWeight, parts, stored.attributes);
    if (tracer_.quantisation.vendor_activations && !stored.scheme->activations.format.empty()) {
      ActivationUse use{.scheme = &stored.scheme->activations, .scale = -1, .divides = stored.activation_scale_divides};
      if (stored.activation_scale) {
        const StoredPart& scale = *stored.activation_scale;
        use.scale = add_found(scale.name, scale.info, scale.name);
      }
      tracer_.activations[id] = use;
    }
    return id;
  }

  ir::ValueId mxfp4(const TensorInfo& blocks) {
    const TensorInfo* scales = tracer_.tensors.find(name_ + "_scales");
    if (scales == nullptr) raise(state_, invalid_data(name_ + "_scales is missing beside " + name_ + "_blocks"));
    if (tracer_.quantisation.is_unconverted(name_)) {
      raise(state_,
            invalid_data(name_ + " is stored in MXFP4 blocks, but quantization_config lists it as not converted"));
    }
    const ir::ValueId operands[] = {add_found(name_ + "_blocks", blocks, name_ + "_blocks"),
                                    add_found(name_ + "_scales", *scales, name_ + "_scales")};
    return add_node_one(state_, OpKind::kPackMxfp4, operands, {});
  }

  std::string member_name(int64_t i) const {
    const size_t at = name_.find("{}");
    return name_.substr(0, at) + std::to_string(i) + name_.substr(at + 2);
  }

  // Stacking first and putting the stacks together gives one node for all experts. A probe checks the same and lets one
  // weight stand for the stack.
  ir::ValueId stack(int64_t count) {
    std::vector<std::optional<StoredWeight>> members;
    int64_t quantised = 0;
    for (int64_t i = 0; i < count; ++i) {
      members.push_back(find_stored(member_name(i)));
      quantised += members.back() ? 1 : 0;
    }
    if (quantised == 0) return join(count, plain_members(count));
    for (int64_t i = 0; i < count; ++i) check_alike(members[0], members[static_cast<size_t>(i)], i);
    if (tracer_.quantisation.vendor_activations && members[0]->scheme->activations.is_static) {
      raise(state_, unsupported(name_ + ": --vendor-activations with static scales of experts is not known"));
    }
    std::vector<ir::ValueId> parts;
    for (size_t p = 0; p < members[0]->parts.size(); ++p) {
      std::vector<StoredPart> part;
      for (const auto& member : members) part.push_back(member->parts[p]);
      parts.push_back(join(count, part));
    }
    return assembled(*members[0], parts);
  }

  void check_alike(const std::optional<StoredWeight>& first, const std::optional<StoredWeight>& other, int64_t i) {
    bool alike = first.has_value() == other.has_value();
    if (alike && first) {
      alike = first->attributes == other->attributes && first->parts.size() == other->parts.size();
      for (size_t p = 0; alike && p < first->parts.size(); ++p) {
        alike = first->parts[p].info.dtype == other->parts[p].info.dtype &&
                first->parts[p].info.shape == other->parts[p].info.shape;
      }
    }
    if (!alike) {
      raise(state_, invalid_data(member_name(0) + " and " + member_name(i) + " are stored in different ways"));
    }
  }

  // The tensors as they are, checked against the wanted shape; a stand-in where one is missing, and noted.
  std::vector<StoredPart> plain_members(int64_t count) {
    std::vector<StoredPart> members;
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = member_name(i);
      const TensorInfo* info = tracer_.tensors.find(name);
      if (info == nullptr) {
        note_missing(name);
        members.push_back({name, {.dtype = DType::kBF16, .stored_type = "BF16", .shape = *wanted_}});
        continue;
      }
      if (info->shape != *wanted_) {
        raise(state_, invalid_data(name + ": shape " + text_of(info->shape) + ", wanted " + text_of(*wanted_)));
      }
      members.push_back({name, *info});
    }
    return members;
  }

  ir::ValueId join(int64_t count, const std::vector<StoredPart>& members) {
    if (tracer_.probing) {
      TensorInfo all = members[0].info;
      all.shape.insert(all.shape.begin(), count);
      return add_found(members[0].name + " and others", all, members[0].name + " and others");
    }
    std::vector<ir::ValueId> parts;
    for (const StoredPart& member : members) parts.push_back(add_found(member.name, member.info, member.name));
    return add_node_one(state_, OpKind::kStack, parts, {});
  }

  lua_State* state_;
  Tracer& tracer_;
  std::string name_;
  std::optional<std::vector<int64_t>> wanted_;
};

const std::string& self_prefix(lua_State* state) {
  return *static_cast<WeightScope*>(luaL_checkudata(state, 1, kWeightScope))->prefix;
}

std::optional<std::vector<int64_t>> wanted_shape(lua_State* state, int index) {
  if (lua_isnoneornil(state, index)) return std::nullopt;
  return to_integers(state, index, "the shape of a weight");
}

void enter_scope(lua_State* state, const std::string& prefix) {
  tracer_of(state).builder.set_scope(prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1));
}

// w(name, shape), w "name"
int call_scope(lua_State* state) {
  const std::string& prefix = self_prefix(state);
  enter_scope(state, prefix);
  Fetch fetch(state, prefix + to_text(state, 2, "the name of a weight"), wanted_shape(state, 3));
  push_graph_value(state, fetch.run());
  return 1;
}

// w:stack("experts.{}.up_proj.weight", count, shape of one)
int call_stack(lua_State* state) {
  const std::string& prefix = self_prefix(state);
  enter_scope(state, prefix);
  const std::string name = to_text(state, 2, "the name of a weight");
  const int64_t count = to_integer(state, 3, "the number of stacked weights");
  if (name.find("{}") == std::string::npos) raise(state, invalid_data("w:stack: no {} in '" + name + "'"));
  if (count < 1 || count > kMaxStack)
    raise(state, invalid_data("w:stack: found " + std::to_string(count) + " weights, wanted 1 to " +
                              std::to_string(kMaxStack)));
  const auto shape = wanted_shape(state, 4);
  if (!shape) raise(state, invalid_data("w:stack: wanted the shape of one weight"));
  push_graph_value(state, Fetch(state, prefix + name, shape).run_stack(count));
  return 1;
}

int sub_scope(lua_State* state) {
  const std::string& prefix = self_prefix(state);
  push_weight_scope(state, keep(state, prefix + to_text(state, 2, "a scope") + "."));
  return 1;
}

// The name under which the file holds it: in a GGUF the mapper's, "" where it knows none.
std::string stored_name(lua_State* state, const Tracer& tracer, const std::string& name) {
  if (!tracer.gguf) return name;
  lua_getfield(state, LUA_REGISTRYINDEX, kGgufMapper);
  push(state, name);
  lua_call(state, 1, 1);
  std::string found = lua_type(state, -1) == LUA_TSTRING ? to_text(state, -1, "GGUF name") : "";
  lua_pop(state, 1);
  return found;
}

// w:has(name): whether the checkpoint holds it; in an open-ended dry run nothing optional exists.
int has_weight(lua_State* state) {
  Tracer& tracer = tracer_of(state);
  const std::string name = self_prefix(state) + to_text(state, 2, "the name of a weight");
  const std::string stored = stored_name(state, tracer, name);
  lua_pushboolean(state, tracer.gguf ? tracer.tensors.find(stored) != nullptr : is_stored(tracer.tensors, stored));
  return 1;
}

// w:waive(name, reason [, original]): with `original`, a weight of the graph, the tensor should be a copy of it.
int waive_weight(lua_State* state) {
  const std::string asked = self_prefix(state) + to_text(state, 2, "the name of a weight");
  const std::string reason = to_text(state, 3, "the reason of a waiver");
  if (reason.empty()) raise(state, invalid_data("the waiver of '" + asked + "' gives no reason"));
  Tracer& tracer = tracer_of(state);
  const std::string name = stored_name(state, tracer, asked);
  if (tracer.tensors.find(name) == nullptr) return 0;
  tracer.waived_tensors[name] = reason.substr(0, kMaxReason);
  if (lua_gettop(state) >= 4) {
    const ir::Value& original = tracer.graph.value(graph_operand(state, 4, "the original of a copy"));
    const auto source = tracer.graph.weight_sources.find(original.name);
    if (source != tracer.graph.weight_sources.end()) tracer.waived_copies[name] = source->second.tensor;
  }
  return 0;
}

// w:waive_layers("model.layers", first, last, reason): everything under these layers, both ends included.
int waive_layers(lua_State* state) {
  LayerWaiver waiver{.prefix = self_prefix(state) + to_text(state, 2, "the prefix of a layer") + ".",
                     .first = to_integer(state, 3, "the first layer"),
                     .last = to_integer(state, 4, "the last layer"),
                     .reason = to_text(state, 5, "the reason of a waiver")};
  if (waiver.reason.empty()) raise(state, invalid_data("the waiver of '" + waiver.prefix + "' gives no reason"));
  Tracer& tracer = tracer_of(state);
  if (tracer.waived_layers.size() >= kMaxLayerWaivers) raise(state, invalid_data("too many waivers of layers"));
  waiver.reason.resize(std::min(waiver.reason.size(), kMaxReason));
  tracer.waived_layers.push_back(std::move(waiver));
  return 0;
}

int index_scope(lua_State* state) {
  luaL_getmetatable(state, kWeightScope);
  lua_getfield(state, -1, "methods");
  const std::string key = to_text(state, 2, "field");
  if (lua_getfield(state, -1, key.c_str()) == LUA_TNIL) {
    raise(state,
          invalid_data("a weight scope has no method '" + key + "'; weights are asked for as w(\"" + key + "\")"));
  }
  return 1;
}

}  // namespace

void push_weight_scope(lua_State* state, const std::string& prefix) {
  push_userdata<WeightScope>(state, kWeightScope).prefix = &prefix;
}

void open_weights(lua_State* state) {
  const luaL_Reg scope[] = {{"__call", &call_scope}, {"__index", &index_scope}, {nullptr, nullptr}};
  new_kind(state, kWeightScope, scope);
  const luaL_Reg methods[] = {{"scope", &sub_scope},           {"has", &has_weight},
                              {"stack", &call_stack},          {"waive", &waive_weight},
                              {"waive_layers", &waive_layers}, {nullptr, nullptr}};
  luaL_getmetatable(state, kWeightScope);
  luaL_newlib(state, methods);
  lua_setfield(state, -2, "methods");
  lua_pop(state, 1);
}

}  // namespace firstlight::intake
