-- SPDX-License-Identifier: Apache-2.0
-- GGUF files of Qwen3-Next and Qwen3.5 (gguf.lua): their metadata in the words of Hugging Face, names of their own, and what
-- writers change in their tensors.
local tools = require "std.gguf_tools"
local families, models = {}, {}

-- What Qwen3-Next and Qwen3.5 share.
local function qwen_next(key, c)
  tools.head_size(key, c)
  c.layer_types = tools.kinds(c, { { "ssm_a", "linear_attention" }, { "attn_q.weight", "full_attention" } })
  key.waive("full_attention_interval", "the tensors state the kind of each layer")
  c.linear_conv_kernel_dim, c.linear_key_head_dim = key.int "ssm.conv_kernel", key.int "ssm.state_size"
  c.linear_num_key_heads, c.linear_num_value_heads = key.int "ssm.group_count", key.int "ssm.time_step_rank"
  c.linear_value_head_dim = key.int "ssm.inner_size" // c.linear_num_value_heads
  c.attention_bias = tools.find(c, "attn_q.bias") ~= nil
end

local function qwen_experts(key, c)
  tools.read_experts(key, c, { count = "num_experts", top = "num_experts_per_tok" })
  c.moe_intermediate_size = key.int "expert_feed_forward_length"
  c.shared_expert_intermediate_size = key.int("expert_shared_feed_forward_length", nil)
    or tools.find(c, "ffn_up_shexp.weight")[1]
end

function families.qwen3next(g, key, c)
  c.model_type, c.norm_topk_prob = "qwen3_next", true
  qwen_next(key, c)
  qwen_experts(key, c)
  c.mlp_only_layers, c.decoder_sparse_step = {}, 1
  for i = 0, c.num_hidden_layers - 1 do
    if not tools.has(i, "ffn_gate_inp.weight") then c.mlp_only_layers[#c.mlp_only_layers + 1] = i end
  end
  if #c.mlp_only_layers == 0 then
    c.intermediate_size, c.mlp_only_layers = nil, nil
    key.waive("feed_forward_length", "every layer has experts")
  end
end

local function qwen35(key, c)
  c.mtp_num_hidden_layers = tools.without_prediction_layers(key, c)
  key.waive("rope.dimension_sections", "the positions of text are the same on every axis")
  qwen_next(key, c)
end

function families.qwen35(g, key, c)
  c.model_type = "qwen3_5_text"
  qwen35(key, c)
end

function families.qwen35moe(g, key, c)
  c.model_type, c.intermediate_size = "qwen3_5_moe_text", nil
  key.waive("feed_forward_length", "every layer has experts")
  qwen35(key, c)
  qwen_experts(key, c)
end

local qwen_names = tools.ssm_names("linear_attn", {
  ["linear_attn.dt_bias"] = "ssm_dt.bias", ["linear_attn.in_proj_qkv"] = "attn_qkv", ["linear_attn.in_proj_z"] = "attn_gate",
  ["linear_attn.in_proj_ba"] = "ssm_ba", ["linear_attn.in_proj_a"] = "ssm_alpha", ["linear_attn.in_proj_b"] = "ssm_beta",
  post_attention_layernorm = "post_attention_norm",
  ["mlp.shared_expert_gate"] = "ffn_gate_inp_shexp",
}, tools.blocks("mlp.shared_expert", "_shexp"))

local function undo_qwen(c)
  local plain = tools.undo_ssm(false)()
  return function(module, mapped)
    if module:sub(-4) == "norm" and mapped ~= "ssm_norm" then return tools.minus_one end
    if mapped == "ffn_gate_inp_shexp" then
      return function(v) return v:rank() == 1 and reshape(v, 1, v:dim(0)) or v end
    end
    return plain(module, mapped)
  end
end

-- Qwen3.5's files have the value heads in turn, the first of each key head, then the second of each: rows `first` and on of
-- width `width` each are put back under their key heads.
local function undo_qwen35(c)
  local groups, heads = c:int "linear_num_key_heads", c:int "linear_num_value_heads"
  local plain, each, width = undo_qwen(c), heads // groups, c:int "linear_value_head_dim"
  local keys = 2 * groups * c:int "linear_key_head_dim"
  local function grouped(v, size)
    local columns = v:rank() == 2 and v:dim(1) or 1
    local y = reshape(transpose(reshape(v, each, groups, size, columns), 1, 0, 2, 3), heads * size, columns)
    return v:rank() == 2 and y or reshape(y, heads * size)
  end
  local undo = {
    attn_gate = function(v) return grouped(v, width) end,
    ssm_alpha = function(v) return grouped(v, 1) end, ssm_beta = function(v) return grouped(v, 1) end,
    ssm_a = function(v) return grouped(tools.log_rates(v), 1) end, ["ssm_dt.bias"] = function(v) return grouped(v, 1) end,
  }
  local function rows_behind_keys(v)
    local all = v:dim(0)
    local head, tail = slice(v, { axis = 0, start = 0, stop = keys }), slice(v, { axis = 0, start = keys, stop = all })
    return concat(head, grouped(tail, width), { axis = 0 })
  end
  undo.attn_qkv = rows_behind_keys
  function undo.ssm_conv1d(v) return tools.with_middle_axis(rows_behind_keys(v)) end
  return function(module, mapped)
    return each > 1 and undo[mapped] or plain(module, mapped)
  end
end

-- The names that Qwen3-Next's releases have for joined projections, made of the parts that files hold.
local function release_qwen_next(c, w, layer)
  local at = layer .. "linear_attn."
  local qkv, z = w[at .. "in_proj_qkv.weight"], w[at .. "in_proj_z.weight"]
  if not qkv then return end
  w[at .. "in_proj_qkv.weight"], w[at .. "in_proj_z.weight"] = nil, nil
  local groups, key_dim, hidden = c:int "linear_num_key_heads", c:int "linear_key_head_dim", qkv:dim(1)
  local each = c:int "linear_num_value_heads" // groups * c:int "linear_value_head_dim"
  local keys, all = groups * key_dim, qkv:dim(0)
  local function part(v, start, stop, rows)
    return reshape(slice(cast(v, "f32"), { axis = 0, start = start, stop = stop }), groups, rows, hidden)
  end
  local both = concat(part(qkv, 0, keys, key_dim), part(qkv, keys, 2 * keys, key_dim), part(qkv, 2 * keys, all, each),
    part(z, 0, groups * each, each), { axis = 1 })
  w[at .. "in_proj_qkvz.weight"] = reshape(both, groups * (2 * key_dim + 2 * each), hidden)
end

-- The columns of the last projection in the order of releases.
local function release_qwen35(c, w, layer)
  local at = layer .. "linear_attn.out_proj"
  local v = w[at .. "_tiled.weight"]
  if not v then return end
  local groups, heads, width = c:int "linear_num_key_heads", c:int "linear_num_value_heads", c:int "linear_value_head_dim"
  local tiled = reshape(cast(v, "f32"), v:dim(0), heads // groups, groups, width)
  w[at .. "_tiled.weight"] = nil
  w[at .. ".weight"] = reshape(transpose(tiled, 0, 2, 1, 3), v:dim(0), heads * width)
end

models.qwen3_next = { class = "Qwen3NextForCausalLM", names = qwen_names, undo = undo_qwen, released = release_qwen_next }
local qwen35_names = tools.names(qwen_names, { ["linear_attn.out_proj_tiled"] = "ssm_out" })
for kind, class in pairs { qwen3_5_text = "Qwen3_5ForCausalLM", qwen3_5_moe_text = "Qwen3_5MoeForCausalLM" } do
  models[kind] = { class = class, names = qwen35_names, undo = undo_qwen35, released = release_qwen35 }
end


return { families = families, models = models }
