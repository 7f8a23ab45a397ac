-- SPDX-License-Identifier: Apache-2.0
-- Gemma 2: norms before and after each block, stored as weight - 1; every other layer windowed; soft caps on the scores of
-- attention and on the logits.
local std = require "std"

-- A number that the class gives where the key is missing; null switches the cap off.
local function cap(c, key, default)
  if c[key] == nil then return default end
  return c:number(key, nil)
end

return architecture {
  matches = { model_type = { "gemma2" }, architectures = { "Gemma2ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.norm_offset, p.tied = 1.0, c:bool("tie_word_embeddings", true)
    p.scale = c:number "query_pre_attn_scalar" ^ -0.5
    p.qkv_bias = c:bool("attention_bias", false)
    p.o_bias = p.qkv_bias
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string("hidden_activation", "gelu_pytorch_tanh"))
    c:waive("hidden_act", "the class reads hidden_activation")
    c:waive("cache_implementation", "a setting of another program")
    p.score = std.attention.softcap(cap(c, "attn_logit_softcapping", 50.0))
    p.logit_softcap = cap(c, "final_logit_softcapping", 30.0)
    c:expect("use_bidirectional_attention", false)
    p.rope = std.rope.from_config(c, { dim = p.head_dim, default_theta = 10000.0 })
    local size = c:count "sliding_window"
    c:expect("sliding_window_size", size, "it repeats sliding_window")
    p.window = std.window.from_config(c, p.layers, { every = 2 })
    return p
  end,

  state = function(p)
    return { kv = append { window = p.window, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens) * std.embedding.factor(embedding, math.sqrt(p.hidden))
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      x = x + std.norm.rms(h, l, "post_attention_layernorm", p)
      h = std.mlp.glu(std.norm.rms(x, l, "pre_feedforward_layernorm", p), l:scope "mlp", p)
      x = x + std.norm.rms(h, l, "post_feedforward_layernorm", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
