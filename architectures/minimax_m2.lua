-- SPDX-License-Identifier: Apache-2.0
-- MiniMax M2: one norm over all heads of q and one of k, half of each head turned, sigmoid routing with a bias for the choice.
local std = require "std"

local function check_variant(c, layers)
  c:expect("use_qk_norm", true)
  c:expect("qk_norm_type", "per_layer")
  c:expect("use_routing_bias", true)
  c:expect("scoring_func", "sigmoid")
  c:expect("shared_intermediate_size", 0, "there is no shared expert")
  c:expect("sliding_window", null, "this model type has no sliding window")
  local kinds = c:list("attn_type_list", nil)
  if kinds and #kinds ~= layers then error("attn_type_list has " .. #kinds .. " entries for " .. layers .. " layers") end
  for i = 0, kinds and layers - 1 or -1 do
    if kinds[i] ~= 1 then unsupported("attn_type_list[" .. i .. "]: found " .. tostring(kinds[i]) .. ", wanted 1 (softmax)") end
  end
  for _, key in ipairs { "use_mtp", "mtp_transformer_layers", "num_mtp_modules" } do
    c:waive(key, "extra prediction layers are not run")
  end
end

return architecture {
  matches = { model_type = { "minimax_m2" }, architectures = { "MiniMaxM2ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    check_variant(c, p.layers)
    p.tied, p.qk_norm = c:bool("tie_word_embeddings", false), "whole"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.with_columns(c, { dim = p.head_dim, default_theta = 5e6 })
    p.experts, p.top_k = c:any { "num_local_experts", "num_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.expert_names = c:count "intermediate_size", { "w1", "w3", "w2" }
    p.groups, p.norm_topk, p.route_scale, p.route_bias = 1, true, 1.0, "e_score_correction_bias"
    return p
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local moe = l:scope "block_sparse_moe"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = x + std.moe.glu(h, moe, p, std.moe.sigmoid_router(h, moe, p))
    end
    std.head.skip_prediction_layers(w, p.layers, 0)
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
