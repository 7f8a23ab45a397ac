-- SPDX-License-Identifier: Apache-2.0
-- What Qwen3-Next and Qwen3.5 have in common: the sizes of both kinds of layers, and the stack itself.
local attention, config, head, kinds = require "std.attention", require "std.config", require "std.head", require "std.kinds"
local mixer, mlp, moe, norm, rope = require "std.mixer", require "std.mlp", require "std.moe", require "std.norm", require "std.rope"
local activation = require "std.activation"
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

-- top and model: the scopes of lm_head and of the layers.
function qwen.logits(p, top, model, batch)
  local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
  local x = gather_rows(embedding, batch.tokens)
  for i = 0, p.layers - 1 do
    local l = model:scope("layers." .. i)
    local h = norm.rms(x, l, "input_layernorm", p)
    x = x + (p.is_full(i) and attention.gqa(h, l:scope "self_attn", p, batch, i)
      or mixer.gdn(h, l:scope "linear_attn", p, batch, i))
    h = norm.rms(x, l, "post_attention_layernorm", p)
    x = x + (p.is_sparse(i) and moe.with_gated_shared or mlp.glu)(h, l:scope "mlp", p)
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

return qwen
