-- SPDX-License-Identifier: Apache-2.0
-- MiMo V2: full and windowed layers with heads and ropes of their own, values narrower than keys and scaled, sinks in the
-- windowed layers; sigmoid routing without a shared expert.
local std = require "std"

-- The library reads sliding_window_size as so many tokens before the query; the vendor's own code reads sliding_window, as
-- so many with it.
local function window_size(c)
  local before = c:count("sliding_window_size", nil)
  if c.model_type == "mimo_v2_flash" and before then
    c:waive("sliding_window", "sliding_window_size is given")
    return before + 1
  end
  local size = c:count "sliding_window"
  c:expect("sliding_window_size", size, "it repeats sliding_window")
  return size
end

-- One kind of attention layer: what is common, under the kind's own keys, which default to the other kind's.
local function geometry(c, p, layer_type, prefix, kv_heads)
  local function count(key, default) return prefix and c:count(prefix .. key, nil) or default or c:count(key) end
  local g = {}
  for key, value in pairs(p) do g[key] = value end
  g.heads, g.kv_heads = count("num_attention_heads", p.heads), count("num_key_value_heads", kv_heads)
  g.head_dim, g.v_dim = count("head_dim", p.head_dim), count("v_head_dim", p.v_dim)
  g.scale, g.state = g.head_dim ^ -0.5, layer_type
  local theta = c:number(prefix and "swa_rope_theta" or "rope_theta", nil)
  g.rope = std.rope.from_config(c, { dim = g.head_dim, layer_type = layer_type, theta = theta, share = 0.334 })
  return g
end

local function read_attention(c, p)
  p.v_dim, p.qkv_bias = c:count "v_head_dim", c:bool("attention_bias", false)
  local layout = c:string("attention_projection_layout", "split")
  if layout ~= "split" and layout ~= "fused_qkv" then unsupported("attention_projection_layout: found " .. layout) end
  p.fused_qkv = layout == "fused_qkv"
  c:waive("attention_chunk_size", "the reference code does not read it")
  local factor = c:number("attention_value_scale", nil)
  if factor then p.adjust = function(y, name) return name == "v" and y * factor or y end end
  local sinks = "attention_sink_bias"
  p.full = geometry(c, p, "full_attention", nil, p.kv_heads)
  p.full.sinks = c:bool("add_full_attention_sink_bias", false) and sinks or nil
  p.sliding = geometry(c, p, "sliding_attention", "swa_", 2 * p.kv_heads)
  p.sliding.sinks = c:bool("add_swa_attention_sink_bias", true) and sinks or nil
  local size = window_size(c)
  p.sliding.window = function() return size end
end

local function log(g, layers)
  return append { layers = layers, window = g.window, k = { g.kv_heads, g.head_dim }, v = { g.kv_heads, g.v_dim } }
end

local function kind(p, sliding)
  return function(i) return p.is_sliding[i] == sliding end
end

-- The first of the layers that predict, windowed and dense; the others, for tokens further on, are not run.
local prediction = std.predict.head {
  scope = function(_, w) return w:scope "model.mtp.layers.0" end,
  enorm = "enorm", hnorm = "hnorm", join = "eh_proj", last = "final_layernorm", goes_on_normed = true,
  state = function(p) return { sliding_attention = log(p.sliding) } end,
  layer = function(x, l, p, batch)
    x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p.sliding, batch, 0)
    return x + std.mlp.glu(std.norm.rms(x, l, "pre_mlp_layernorm", p), l:scope "mlp", p)
  end,
}

return architecture {
  matches = {
    model_type = { "mimo_v2_flash", "mimo_v2" }, architectures = { "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM" },
  },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.act = c:bool("tie_word_embeddings", false), std.activation(c:string "hidden_act")
    read_attention(c, p)
    p.is_sliding = std.kinds.marks(c, "layer_types", "full_attention", "sliding_attention", "hybrid_layer_pattern", p.layers)
    p.is_sparse = std.kinds.marks(c, "mlp_layer_types", "dense", "sparse", "moe_layer_freq", p.layers)
    std.moe.read_grouped(c, p)
    c:expect("n_shared_experts", 0, "there is no shared expert")
    c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
    return p
  end,

  state = function(p)
    return { full_attention = log(p.full, kind(p, false)), sliding_attention = log(p.sliding, kind(p, true)) }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local mlp, kind = l:scope "mlp", p.is_sliding[i] and p.sliding or p.full
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", kind, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = x + (p.is_sparse[i] and std.moe.glu(h, mlp, p, std.moe.sigmoid_router(h, mlp, p)) or std.mlp.glu(h, mlp, p))
    end
    std.head.skip_prediction_layers(w, 0, 0, "model.mtp.layers")
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,

  predict = prediction,
}
