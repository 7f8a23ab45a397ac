-- SPDX-License-Identifier: Apache-2.0
-- ERNIE 4.5, dense and with experts: Llama's blocks with interleaved rope; softmax routing where a bias takes part in the
-- choice alone, shared experts, dense layers at the ends.
local std = require "std"

-- The chosen experts' own scores, over their sum or moe_norm_min if that is larger.
local function route(x, w, p)
  local scores = softmax(linear(x, w("gate.weight", { p.experts, p.hidden })))
  local bias = reshape(w("moe_statics.e_score_correction_bias", { 1, p.experts }), p.experts)
  local _, idx = top_k(scores + bias, { k = p.top_k })
  local weight, least = gather_last(scores, idx), p.norm_min
  return idx, map(function(y, sum) return y / max(sum, least) end, weight, reduce(weight, { op = "sum" }))
end

local function read_experts(c, p)
  p.experts, p.top_k = c:any { "moe_num_experts", "num_experts" }, c:any { "moe_k", "num_experts_per_tok" }
  p.expert_width, p.shared = c:count "moe_intermediate_size", c:int("moe_num_shared_experts", 2)
  p.norm_min = c:number("moe_norm_min", 1e-12)
  local first, last, step = c:int("moe_layer_start_index", 1), c:int("moe_layer_end_index", -1), c:count("moe_layer_interval", 1)
  if last == -1 then last = p.layers - 1 end
  p.is_sparse = function(i) return (i + 1) % step == 0 and i >= first and i <= last end
  c:expect("moe_gate", "topk")
  c:expect("moe_use_aux_free", true)
  c:waive("moe_capacity", "training only; no token is dropped")
end

return architecture {
  matches = {
    model_type = { "ernie4_5_moe", "ernie4_5" }, architectures = { "Ernie4_5_MoeForCausalLM", "Ernie4_5ForCausalLM" },
  },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", true), c:bool("use_bias", false)
    p.o_bias, p.mlp_bias = p.qkv_bias, p.qkv_bias
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim, style = "interleaved", default_theta = 5e5 })
    c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
    p.is_sparse = function() return false end
    if c.model_type == "ernie4_5_moe" then read_experts(c, p) end
    if not std.kinds.any(p.layers, function(i) return not p.is_sparse(i) end) then
      c:waive("intermediate_size", "every layer has experts")
    end
    return p
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local mlp = l:scope "mlp"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if p.is_sparse(i) then
        x = x + std.moe.glu(h, mlp, p, route(h, mlp, p))
        if p.shared > 0 then x = x + std.mlp.glu(h, mlp:scope "shared_experts", p, p.expert_width * p.shared) end
      else
        x = x + std.mlp.glu(h, mlp, p)
      end
    end
    std.head.skip_prediction_layers(w, p.layers, 0)
    std.head.skip_prediction_layers(w, 0, 0, "model.mtp_block")
    for _, name in ipairs { "mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj" } do
      w:waive("model." .. name .. ".0.weight", "extra prediction layers are not run")
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
