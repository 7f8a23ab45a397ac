-- SPDX-License-Identifier: Apache-2.0
-- Qwen3 with experts: Qwen3's attention, softmax routing, dense layers where the config says so.
local std = require "std"

return architecture {
  matches = { model_type = { "qwen3_moe" }, architectures = { "Qwen3MoeForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied = c:bool("tie_word_embeddings", false)
    p.qkv_bias = c:bool("attention_bias", false)
    p.o_bias = p.qkv_bias
    p.qk_norm = "head"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim })
    p.window = std.window.from_config(c, p.layers, { switch = true, all = true })
    p.experts, p.top_k = c:any { "num_experts", "num_local_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.norm_topk = c:count "moe_intermediate_size", c:bool("norm_topk_prob", false)
    p.is_sparse = std.moe.sparse_layers(c, p)
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
      local mlp = l:scope "mlp"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if p.is_sparse(i) then
        x = x + std.moe.glu(h, mlp, p, std.moe.softmax_router(h, mlp, p))
      else
        x = x + std.mlp.glu(h, mlp, p)
      end
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
