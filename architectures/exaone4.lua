-- SPDX-License-Identifier: Apache-2.0
-- EXAONE 4: norms after each block, a norm on each head of q and k; where there is a window, the full layers have no
-- positions.
local std = require "std"

-- Which layers are windowed where layer_types does not say: a word of L (windowed) and G, repeated, or every how many layers
-- one is full.
local function windowed(c)
  if c:has "layer_types" or not c:has "sliding_window" then
    c:waive("sliding_window_pattern", c:has "layer_types" and "layer_types states the kind of each layer" or "no window is in use")
    return nil
  end
  local pattern = c.sliding_window_pattern
  if type(pattern) == "string" then
    if not pattern:match "^[LG]+$" then error("sliding_window_pattern: found '" .. pattern .. "', wanted L and G") end
    return function(i)
      local at = i % #pattern + 1
      return pattern:sub(at, at) == "L"
    end
  end
  local every = c:count("sliding_window_pattern", 4)
  return function(i) return (i + 1) % every ~= 0 end
end

return architecture {
  matches = { model_type = { "exaone4" }, architectures = { "Exaone4ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.qk_norm = c:bool("tie_word_embeddings", false), "head"
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    p.window = std.window.from_config(c, p.layers, { where = windowed(c) })
    local table_of, hybrid = std.rope.from_config(c, { dim = p.head_dim }), c:has "sliding_window"
    p.rope = function(i) return (not hybrid or p.window(i) > 0) and table_of or nil end
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
      local h = std.attention.gqa(x, l:scope "self_attn", p, batch, i)
      x = x + std.norm.rms(h, l, "post_attention_layernorm", p)
      x = x + std.norm.rms(std.mlp.glu(x, l:scope "mlp", p), l, "post_feedforward_layernorm", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
