-- SPDX-License-Identifier: Apache-2.0
-- Jamba: Mamba layers with normed steps and, at fixed places, attention without positions; experts at others.
local std = require "std"

-- Layer i belongs to the kind when i % period == offset.
local function places(c, name)
  local period, offset = c:count(name .. "_layer_period"), c:int(name .. "_layer_offset")
  if offset < 0 or offset >= period then error(name .. "_layer_offset: found " .. offset .. " of " .. period) end
  return function(i) return i % period == offset end
end

return architecture {
  matches = { model_type = { "jamba" }, architectures = { "JambaForCausalLM" } },

  parameters = function(c)
    for _, key in ipairs { "use_mamba_kernels", "use_mambapy", "use_associative_scan", "num_logits_to_keep" } do
      c:waive(key, "a setting of another program")
    end
    local p = std.config.decoder(c)
    p.tied, p.act = c:bool("tie_word_embeddings", false), std.activation(c:string "hidden_act")
    p.window = std.window.none(c)
    p.intermediate, p.last_norm = c:count "intermediate_size", "final_layernorm"
    p.is_full = places(c, "attn")
    function p.is_mamba(i) return not p.is_full(i) end
    p.experts, p.top_k = c:any { "num_experts", "num_local_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.router, p.norm_topk = p.intermediate, "router.weight", false
    local placed = places(c, "expert")
    function p.is_sparse(i) return p.experts > 1 and placed(i) end
    local rank = c.mamba_dt_rank
    p.ssm = {
      inner = c:count("mamba_expand", 2) * p.hidden, size = c:count "mamba_d_state", kernel = c:count "mamba_d_conv",
      rank = rank == "auto" and (p.hidden + 15) // 16 or c:count "mamba_dt_rank", act = p.act,
      bias = c:bool("mamba_proj_bias", false), conv_bias = c:bool("mamba_conv_bias", true),
    }
    return p
  end,

  state = function(p)
    return {
      kv = append { layers = p.is_full, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } },
      mixer = std.mixer.mamba_state(p.ssm, p.is_mamba),
    }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h, m = std.norm.rms(x, l, "input_layernorm", p), l:scope "feed_forward"
      x = x + (p.is_full(i) and std.attention.gqa(h, l:scope "self_attn", p, batch, i)
        or std.mixer.mamba(h, l:scope "mamba", p, batch, i))
      h = std.norm.rms(x, l, "pre_ff_layernorm", p)
      if p.is_sparse(i) then
        x = x + std.moe.glu(h, m, p, std.moe.softmax_router(h, m, p))
      else
        x = x + std.mlp.glu(h, m, p)
      end
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
