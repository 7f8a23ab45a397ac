-- SPDX-License-Identifier: Apache-2.0
-- Qwen3, dense: Llama's blocks with a norm on each head of q and k.
local std = require "std"

return architecture {
  matches = { model_type = { "qwen3" }, architectures = { "Qwen3ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied = c:bool("tie_word_embeddings", false)
    p.qkv_bias = c:bool("attention_bias", false)
    p.o_bias = p.qkv_bias
    p.qk_norm = "head"
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim })
    p.window = std.window.from_config(c, p.layers, { switch = true })
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
      local h = std.norm.rms(x, l, "input_layernorm", p)
      x = x + std.attention.gqa(h, l:scope "self_attn", p, batch, i)
      x = x + std.mlp.glu(std.norm.rms(x, l, "post_attention_layernorm", p), l:scope "mlp", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
