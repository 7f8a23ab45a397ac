-- SPDX-License-Identifier: Apache-2.0
-- GLM-4 (0414): norms before and after each block, half of each head turned by neighbouring columns, gate and up in one matrix.
local std = require "std"

return architecture {
  matches = { model_type = { "glm4" }, architectures = { "Glm4ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c, c:count("head_dim", 128))
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", true)
    p.intermediate, p.fused_gate_up = c:count "intermediate_size", true
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim, style = "interleaved", share = 0.5, default_theta = 1e4 })
    return p
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      x = x + std.norm.rms(h, l, "post_self_attn_layernorm", p)
      h = std.mlp.glu(std.norm.rms(x, l, "post_attention_layernorm", p), l:scope "mlp", p)
      x = x + std.norm.rms(h, l, "post_mlp_layernorm", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
