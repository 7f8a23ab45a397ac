-- SPDX-License-Identifier: Apache-2.0
-- What Kimi Linear and Kimi K3 have in common: layers of Kimi delta attention and of latent attention without positions,
-- sigmoid routing in groups with a shared expert, first layers dense.
local config, kinds = require "std.config", require "std.kinds"
local mixer = require "std.mixer"
local kimi = {}

-- Sizes of the recurrent layers and which layers they are: in linear_attn_config, whose layers count from 1, or beside the rest.
local function read_delta(c, p)
  local r, delta = c:object("linear_attn_config", nil), nil
  if r then
    delta = {
      heads = r:count "num_heads", dim = r:count "head_dim", kernel = r:count "short_conv_kernel_size",
      lower_bound = r:number("gate_lower_bound", nil), full_gate = r:bool("use_full_rank_gate", false),
    }
    local full = r:list("full_attn_layers", nil)
    p.is_linear = kinds.listed(r:list "kda_layers", 1)
    p.is_full = full and kinds.listed(full, 1) or function(i) return not p.is_linear(i) end
    for i = 0, p.layers - 1 do
      if p.is_full(i) == p.is_linear(i) then error("linear_attn_config names layer " .. i + 1 .. " twice or not at all") end
    end
  else
    delta = {
      heads = c:count "linear_num_heads", dim = c:count "linear_head_dim", kernel = c:count "linear_conv_kernel_dim",
    }
    local where = kinds.from_list(c:list "layer_types", p.layers, { "linear_attention", "full_attention" }, "layer_types")
    p.is_full, p.is_linear = where "full_attention", where "linear_attention"
  end
  return delta
end

local function dense_layers(c, layers)
  if c:has "mlp_layer_types" then
    c:waive("first_k_dense_replace", "mlp_layer_types states the kind of each layer")
    return kinds.from_list(c:list "mlp_layer_types", layers, { "dense", "sparse" }, "mlp_layer_types") "dense"
  end
  local first = c:int("first_k_dense_replace", 1)
  return function(i) return i < first end
end

-- outer: the config that holds c, if any. The activation is left to the family.
function kimi.parameters(c, outer)
  local nope, rope_dim = c:count "qk_nope_head_dim", c:count "qk_rope_head_dim"
  for _, key in ipairs { "head_dim", "qk_head_dim" } do c:waive(key, "the two parts of a head state its size") end
  for _, key in ipairs { "rope_theta", "rope_parameters" } do c:waive(key, "this family has no positions") end
  local p = config.decoder(c, nope + rope_dim, outer)
  fact("max_positions", c:count("model_max_length", nil))
  if p.kv_heads ~= p.heads then unsupported("latent attention with " .. p.kv_heads .. " kv heads") end
  c:expect("mla_use_nope", true)
  p.tied, p.bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
  p.nope, p.rope_dim, p.v_dim = nope, rope_dim, c:count "v_head_dim"
  p.q_rank, p.kv_rank, p.inner_eps = c:count("q_lora_rank", nil), c:count "kv_lora_rank", 1e-6
  p.delta = read_delta(c, p)
  p.is_dense = dense_layers(c, p.layers)

  c:expect("moe_router_activation_func", "sigmoid")
  c:expect("moe_layer_freq", 1)
  c:expect("use_grouped_topk", true)
  c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
  p.experts, p.top_k = c:any { "num_experts", "num_local_experts" }, c:any { "num_experts_per_token", "num_experts_per_tok" }
  p.groups, p.top_groups = c:any { "num_expert_group", "n_group" }, c:count "topk_group"
  p.norm_topk = config.either(c, { "moe_renormalize", "norm_topk_prob" }, true)
  p.route_scale = c:number "routed_scaling_factor"
  p.expert_width, p.intermediate = c:count "moe_intermediate_size", c:count "intermediate_size"
  p.shared, p.expert_names = c:any { "num_shared_experts", "n_shared_experts" }, { "w1", "w3", "w2" }
  return p
end

function kimi.state(p)
  return {
    kv = append { layers = p.is_full, latent = { 1, p.kv_rank + p.rope_dim } },
    mixer = mixer.kda_state(p.delta, p.is_linear),
  }
end

return kimi
