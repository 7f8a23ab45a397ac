-- SPDX-License-Identifier: Apache-2.0
-- What Qwen3-Next and Qwen3.5 have in common: the sizes of both kinds of layers, and the stack itself.
local attention, config, head, kinds = require "std.attention", require "std.config", require "std.head", require "std.kinds"
local mixer, mlp, moe, norm, rope = require "std.mixer", require "std.mlp", require "std.moe", require "std.norm", require "std.rope"
local activation, predict = require "std.activation", require "std.predict"
local qwen = {}

-- outer: the config that holds c, if any.
function qwen.parameters(c, outer)
  local p = config.decoder(c, nil, outer)
  p.norm_offset, p.qk_norm, p.gated = 1.0, "head", true
  p.qkv_bias = c:bool("attention_bias", false)
  p.o_bias = p.qkv_bias
  p.act = activation(c:string "hidden_act")
  p.rope = rope.from_config(c, { dim = p.head_dim, share = 0.25 })
  p.is_full, p.is_linear = kinds.interval(c, p.layers)
  p.delta = {
    key_heads = c:count "linear_num_key_heads", value_heads = c:count "linear_num_value_heads",
    key_dim = c:count "linear_key_head_dim", value_dim = c:count "linear_value_head_dim",
    kernel = c:count "linear_conv_kernel_dim",
  }
  if p.delta.value_heads % p.delta.key_heads ~= 0 then
    error(p.delta.value_heads .. " value heads are no multiple of " .. p.delta.key_heads .. " key heads")
  end
  return p
end

function qwen.read_experts(c, p)
  p.experts, p.top_k = c:any { "num_experts", "num_local_experts" }, c:count "num_experts_per_tok"
  p.expert_width, p.shared_width = c:count "moe_intermediate_size", c:count "shared_expert_intermediate_size"
end

function qwen.state(p)
  return {
    kv = append { layers = p.is_full, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } },
    mixer = mixer.gdn_state(p.delta, p.is_linear),
  }
end

-- x after a layer whose scope is l; i: its place in the states.
local function through_layer(x, l, p, batch, i, full, sparse)
  local h = norm.rms(x, l, "input_layernorm", p)
  x = x + (full and attention.gqa or mixer.gdn)(h, l:scope(full and "self_attn" or "linear_attn"), p, batch, i)
  h = norm.rms(x, l, "post_attention_layernorm", p)
  return x + (sparse and moe.with_gated_shared or mlp.glu)(h, l:scope "mlp", p)
end

-- top and model: the scopes of lm_head and of the layers.
function qwen.logits(p, top, model, batch)
  local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
  local x = gather_rows(embedding, batch.tokens)
  for i = 0, p.layers - 1 do
    x = through_layer(x, model:scope("layers." .. i), p, batch, i, p.is_full(i), p.is_sparse(i))
  end
  return head.logits(x, top, p, batch, embedding, model)
end

function qwen.skip_prediction_layers(w, count, layers)
  local reason = "extra prediction layers are not run"
  if count > 0 then
    w:waive_layers("mtp.layers", 0, count - 1, reason)
    w:waive_layers("blk", layers, layers + count - 1, reason)  -- in GGUF files
  end
  for _, name in ipairs { "fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden" } do
    w:waive("mtp." .. name .. ".weight", reason)
  end
end

-- One layer of gated attention, whatever the layers before it are. Without experts it is as wide as the model's dense layers.
qwen.predict = predict.head {
  scope = function(_, w) return w:scope "mtp" end,
  enorm = "pre_fc_norm_embedding", hnorm = "pre_fc_norm_hidden", join = "fc", last = "norm", goes_on_normed = true,
  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,
  layer = function(x, l, p, batch)
    local own = l:scope "layers.0"
    return through_layer(x, own, p, batch, 0, true, own:has "mlp.gate.weight")
  end,
  embedding = function(p, w) return head.scopes(w)("embed_tokens.weight", { p.vocab, p.hidden }) end,
  output = function(p, w)
    local _, top = head.scopes(w)
    return top("lm_head.weight", { p.vocab, p.hidden })
  end,
}

return qwen
