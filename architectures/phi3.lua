-- SPDX-License-Identifier: Apache-2.0
-- Phi-3 and Phi-4: Llama's blocks with q, k and v in one matrix and gate and up in another.
local std = require "std"

return architecture {
  matches = { model_type = { "phi3" }, architectures = { "Phi3ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    for _, key in ipairs { "resid_pdrop", "embd_pdrop" } do c:waive(key, "training only") end
    c:expect("attention_bias", false)
    p.tied, p.fused_qkv, p.fused_gate_up = c:bool("tie_word_embeddings", false), true, true
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    local rotary
    p.rope, rotary = std.rope.from_config(c, { dim = p.head_dim, default_theta = 10000.0 })
    if not rotary.original then
      c:waive("original_max_position_embeddings", "the rope is not scaled")
    end
    p.window = std.window.from_config(c, p.layers, { all = true })
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
