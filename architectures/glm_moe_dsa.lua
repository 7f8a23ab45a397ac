-- SPDX-License-Identifier: Apache-2.0
-- GLM-5: the block of DeepSeek V3 with an indexer that some layers share with the last layer that has one.
local std = require "std"

local function waive_idle_indexer(w, layer)
  for _, name in ipairs { "wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias", "weights_proj.weight" } do
    if w:has(name) then w:waive(name, "layer " .. layer .. " takes the choice of an earlier layer") end
  end
end

return architecture {
  matches = { model_type = { "glm_moe_dsa" }, architectures = { "GlmMoeDsaForCausalLM" } },

  parameters = function(c)
    local p = std.deepseek.parameters(c, { default_dense = 3, needs_low_queries = true })
    std.indexer.parameters(c, p, { style = "interleaved" })
    p.full = std.indexer.full_layers(c, p.layers)
    c:waive("layer_types", "every layer sees chosen keys alone")
    return p
  end,

  state = function(p)
    return {
      kv = append { latent = { 1, p.kv_rank + p.rope_dim } },
      index = append { layers = function(i) return p.full[i] end, k = { 1, p.index.dim } },
    }
  end,

  forward = function(p, w, batch)
    local chosen
    return std.deepseek.forward(p, w, batch, function(x, low, scope, layer)
      local own = scope:scope "indexer"
      if p.full[layer] then
        chosen = std.indexer.lightning(x, low, own, p, batch, batch.state.index[layer])
      else
        waive_idle_indexer(own, layer)
      end
      return chosen
    end)
  end,

  predict = std.deepseek.predicts(function(p) return { index = append { k = { 1, p.index.dim } } } end, function(p, batch)
    return function(x, low, scope, layer)
      return std.indexer.lightning(x, low, scope:scope "indexer", p, batch, batch.state.index[layer])
    end
  end),
}
