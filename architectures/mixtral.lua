-- SPDX-License-Identifier: Apache-2.0
-- Mixtral: Mistral's attention, and experts in each layer under the names w1 (gate), w3 (up) and w2 (down).
local std = require "std"

return architecture {
  matches = { model_type = { "mixtral" }, architectures = { "MixtralForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied = c:bool("tie_word_embeddings", false)
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim, default_theta = 1e6 })
    p.window = std.window.from_config(c, p.layers, { all = true })
    p.experts, p.top_k = c:any { "num_local_experts", "num_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.norm_topk, p.expert_names = c:count "intermediate_size", true, { "w1", "w3", "w2" }
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
      local moe = l:scope "block_sparse_moe"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = x + std.moe.glu(h, moe, p, std.moe.softmax_router(h, moe, p))
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
