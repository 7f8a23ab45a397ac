-- SPDX-License-Identifier: Apache-2.0
-- OLMo 2 and 3: norms after each block instead of before it, one norm over all heads of q and one of k. OLMo 3 windows three
-- layers of four, and scales the rope of the full layers alone.
local std = require "std"

local function two_ropes(c, p)
  local theta = c:number("rope_theta", nil)
  local function of(layer_type, unscaled)
    return std.rope.from_config(c, {
      dim = p.head_dim, layer_type = layer_type, theta = theta, default_theta = 5e5, unscaled = unscaled,
    })
  end
  local full, sliding = of "full_attention", of("sliding_attention", true)
  return function(i) return p.window and p.window(i) > 0 and sliding or full end
end

return architecture {
  matches = { model_type = { "olmo2", "olmo3" }, architectures = { "Olmo2ForCausalLM", "Olmo3ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.o_bias, p.qk_norm = p.qkv_bias, "whole"
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    if c.model_type == "olmo3" then
      p.window = std.window.from_config(c, p.layers, { every = 4 })
      p.rope = two_ropes(c, p)
    else
      p.window = std.window.none(c)
      p.rope = std.rope.from_config(c, { dim = p.head_dim })
    end
    return p
  end,

  state = function(p)
    return { kv = append { window = p.window, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = std.attention.gqa(x, l:scope "self_attn", p, batch, i)
      x = x + std.norm.rms(h, l, "post_attention_layernorm", p)
      x = x + std.norm.rms(std.mlp.glu(x, l:scope "mlp", p), l, "post_feedforward_layernorm", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
