-- SPDX-License-Identifier: Apache-2.0
-- Llama 1 to 3, Mistral, Qwen2 and their kin: pre-norm blocks of grouped-query attention and a gated MLP.
local std = require "std"

return architecture {
  matches = {
    model_type = { "t", "llama", "mistral", "qwen2" },
    architectures = { "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM" },
  },

  parameters = function(c)
    local p = std.config.decoder(c)
    local qwen2 = c.model_type == "qwen2"
    p.tied = c:bool("tie_word_embeddings", false)
    p.qkv_bias = qwen2 or c:bool("attention_bias", false)
    p.o_bias = not qwen2 and c:bool("attention_bias", false)
    p.mlp_bias = c:bool("mlp_bias", false)
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim })
    if c.model_type == "llama" then
      p.window = std.window.none(c)
    else
      p.window = std.window.from_config(c, p.layers, { switch = qwen2 })
    end
    c:expect("use_mrope", false, "rope over several position axes")
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
