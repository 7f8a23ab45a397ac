-- SPDX-License-Identifier: Apache-2.0
-- GLM-4.5 to 4.7: grouped-query attention with half of each head turned, sigmoid routing, a shared expert, first layers dense.
local std = require "std"

local function state(p) return append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } end

-- x after a layer whose scope is l; i: its place in batch.state.kv.
local function through_layer(x, l, p, batch, i, sparse)
  local mlp = l:scope "mlp"
  x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
  local h = std.norm.rms(x, l, "post_attention_layernorm", p)
  if not sparse then return x + std.mlp.glu(h, mlp, p) end
  x = x + std.moe.glu(h, mlp, p, std.moe.sigmoid_router(h, mlp, p))
  if p.shared > 0 then x = x + std.mlp.glu(h, mlp:scope "shared_experts", p, p.expert_width * p.shared) end
  return x
end

return architecture {
  matches = { model_type = { "glm4_moe" }, architectures = { "Glm4MoeForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.qk_norm = c:bool("use_qk_norm", false) and "head" or nil
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim, share = 0.5 })
    std.moe.read_grouped(c, p)
    p.first_sparse = c:int("first_k_dense_replace", 1)
    if p.first_sparse < 1 then c:waive("intermediate_size", "no layer is dense") end
    p.prediction_layers = c:any { "num_nextn_predict_layers", "num_mtp_layers" } or 0
    for _, key in ipairs { "num_nextn_predict_layers", "num_mtp_layers" } do
      c:waive(key, "extra prediction layers are not run")
    end
    return p
  end,

  state = function(p) return { kv = state(p) } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      x = through_layer(x, w:scope("model.layers." .. i), p, batch, i, i >= p.first_sparse)
    end
    std.head.skip_prediction_layers(w, p.layers, p.prediction_layers)
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,

  predict = std.predict.nextn(function(p) return { kv = state(p) } end, function(x, l, p, batch)
    return through_layer(x, l, p, batch, 0, p.layers >= p.first_sparse)
  end),
}
