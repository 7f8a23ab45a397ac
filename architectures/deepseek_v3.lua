-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V3, R1 and V3.1, Kimi K2: latent attention, sigmoid routing in groups, a shared expert, first layers dense.
local std = require "std"

-- Sizes of a head under the names that different writers use; all must agree with the two parts.
local function check_head_sizes(c, nope, rope_dim)
  local head = c:count("head_dim", nil)
  if head and head ~= rope_dim and head ~= nope + rope_dim then
    error("head_dim: found " .. head .. ", wanted qk_rope_head_dim (" .. rope_dim .. ")")
  end
  local qk = c:count("qk_head_dim", nil)
  if qk and qk ~= nope + rope_dim then error("qk_head_dim: found " .. qk .. ", wanted " .. nope + rope_dim) end
end

local function waive_training(c)
  for _, key in ipairs { "aux_loss_alpha", "seq_aux" } do c:waive(key, "training only") end
  c:waive("ep_size", "how another program spread the experts")
  c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
end

return architecture {
  matches = {
    model_type = { "deepseek_v3", "kimi_k2" },
    architectures = { "DeepseekV3ForCausalLM", "KimiK2ForCausalLM" },
  },

  parameters = function(c)
    local nope, rope_dim = c:count "qk_nope_head_dim", c:count "qk_rope_head_dim"
    check_head_sizes(c, nope, rope_dim)
    waive_training(c)
    local p = std.config.decoder(c, nope + rope_dim)
    if p.kv_heads ~= p.heads then unsupported("latent attention with " .. p.kv_heads .. " of " .. p.heads .. " kv heads") end
    p.tied, p.bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.act = std.activation(c:string "hidden_act")
    p.nope, p.rope_dim, p.v_dim = nope, rope_dim, c:count "v_head_dim"
    p.q_rank, p.kv_rank, p.inner_eps = c:count("q_lora_rank", nil), c:count "kv_lora_rank", 1e-6
    local rotary
    p.rope, rotary = std.rope.from_config(c, {
      dim = rope_dim, style = c:bool("rope_interleave", true) and "interleaved" or "half", mla = true,
    })
    if rotary.mscale_all_dim then p.scale = p.scale * std.rope.yarn_mscale(rotary.factor, rotary.mscale_all_dim) ^ 2 end

    std.moe.read_grouped(c, p)
    c:expect("moe_layer_freq", 1)
    p.first_sparse = c:int("first_k_dense_replace", 0)
    if p.first_sparse < 1 then c:waive("intermediate_size", "no layer is dense") end
    p.prediction_layers = c:int("num_nextn_predict_layers", 0)
    return p
  end,

  state = function(p) return { kv = append { latent = { 1, p.kv_rank + p.rope_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local mlp = l:scope "mlp"
      x = x + std.attention.mla(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if i < p.first_sparse then
        x = x + std.mlp.glu(h, mlp, p)
      else
        x = x + std.moe.glu(h, mlp, p, std.moe.sigmoid_router(h, mlp, p))
        if p.shared > 0 then x = x + std.mlp.glu(h, mlp:scope "shared_experts", p, p.expert_width * p.shared) end
      end
    end
    std.head.skip_prediction_layers(w, p.layers, p.prediction_layers)
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
