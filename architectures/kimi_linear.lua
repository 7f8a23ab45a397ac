-- SPDX-License-Identifier: Apache-2.0
-- Kimi Linear: three layers of Kimi delta attention to one of latent attention without positions, sigmoid routing in groups
-- with a shared expert, first layers dense.
local std = require "std"

return architecture {
  matches = { model_type = { "kimi_linear" }, architectures = { "KimiLinearForCausalLM" } },

  parameters = function(c)
    local p = std.kimi.parameters(c)
    p.act = std.activation(c:string "hidden_act")
    return p
  end,

  state = std.kimi.state,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local mix = p.is_full(i) and std.attention.mla or std.mixer.kda
      x = x + mix(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if p.is_dense(i) then
        x = x + std.mlp.glu(h, l:scope "mlp", p)
      else
        local m = l:scope "block_sparse_moe"
        x = x + std.moe.glu(h, m, p, std.moe.sigmoid_router(h, m, p))
        if p.shared > 0 then x = x + std.mlp.glu(h, m:scope "shared_experts", p, p.expert_width * p.shared) end
      end
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
