-- SPDX-License-Identifier: Apache-2.0
-- Granite 3, dense and with experts: Llama's blocks with multipliers on the embedding, the scores of attention and what each
-- block adds, and a divisor of the logits.
local std = require "std"

-- The k best logits, and softmax among them; both matrices of all experts stand in one tensor each.
local function sparse(x, w, p)
  local best, idx = top_k(linear(x, w("router.layer.weight", { p.experts, p.hidden })), { k = p.top_k })
  if w:has "experts.{}.gate_proj.weight" then return std.moe.glu(x, w, p, idx, softmax(best)) end  -- GGUF files
  return std.moe.packed_glu(x, w, p, idx, softmax(best), "input_linear.weight", "output_linear.weight", {})
end

return architecture {
  matches = { model_type = { "granite", "granitemoe" }, architectures = { "GraniteForCausalLM", "GraniteMoeForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.o_bias = p.qkv_bias
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim })
    p.scale = c:number("attention_multiplier", 1.0)
    p.embedding_factor, p.residual_factor = c:number("embedding_multiplier", 1.0), c:number("residual_multiplier", 1.0)
    p.logit_divisor = c:number("logits_scaling", 1.0)
    if c.model_type == "granitemoe" then
      p.experts, p.top_k = c:count "num_local_experts", c:count "num_experts_per_tok"
      p.expert_width = c:count "intermediate_size"
    else
      p.intermediate, p.mlp_bias = c:count "intermediate_size", c:bool("mlp_bias", false)
    end
    return p
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens) * p.embedding_factor
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      x = x + h * p.residual_factor
      h = std.norm.rms(x, l, "post_attention_layernorm", p)
      h = p.experts and sparse(h, l:scope "block_sparse_moe", p) or std.mlp.glu(h, l:scope "mlp", p)
      x = x + h * p.residual_factor
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) / p.logit_divisor }
  end,
}
