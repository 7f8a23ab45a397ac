-- SPDX-License-Identifier: Apache-2.0
-- SmolLM3: Llama's blocks, of which every fourth has no positions.
local std = require "std"

return architecture {
  matches = { model_type = { "smollm3" }, architectures = { "SmolLM3ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", true), c:bool("attention_bias", false)
    p.o_bias, p.mlp_bias = p.qkv_bias, c:bool("mlp_bias", false)
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    local turns = std.rope.turning_layers(c, p.layers)
    local table_of = std.rope.from_config(c, { dim = p.head_dim, default_theta = 2e6 })
    p.rope = function(i) return turns(i) and table_of or nil end
    p.window = std.window.from_config(c, p.layers, { switch = true, where = function(i) return not turns(i) end })
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
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      x = x + std.mlp.glu(std.norm.rms(x, l, "post_attention_layernorm", p), l:scope "mlp", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
