-- SPDX-License-Identifier: Apache-2.0
-- Flint: windowed layers with positions, full ones without, sinks and a norm on each head of q and k; sigmoid routing without
-- a correction, a shared expert, first layers dense.
local std = require "std"

return architecture {
  matches = { model_type = { "flint" }, architectures = { "FlintForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c, c:count("head_dim", 128))
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.o_bias, p.qk_norm, p.sinks = p.qkv_bias, "head", "softmax_offset"
    p.act = std.activation(c:string "hidden_act")
    p.window = std.window.from_config(c, p.layers, {
      where = function(i) return i >= 2 and i % 4 ~= 1 and i ~= p.layers - 1 end,
    }) or error "sliding_window is missing or null"
    local turned = std.rope.from_config(c, { dim = p.head_dim, default_theta = 1e4 })
    p.rope = function(i) return p.window(i) > 0 and turned or nil end
    p.experts, p.top_k = c:any { "num_experts", "num_local_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.shared_width = c:count "moe_intermediate_size", c:count "shared_expert_intermediate_size"
    p.norm_topk, p.route_bias = c:bool("norm_topk_prob", true), false
    p.is_sparse = std.moe.sparse_layers(c, p, { 0, 1 })
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
        x = x + std.moe.glu(h, mlp, p, std.moe.sigmoid_router(h, mlp, p))
          + std.mlp.glu(h, mlp:scope "shared_expert", p, p.shared_width)
      else
        x = x + std.mlp.glu(h, mlp, p)
      end
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
