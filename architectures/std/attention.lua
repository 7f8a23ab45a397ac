-- SPDX-License-Identifier: Apache-2.0
-- Attention templates. Each appends to the cache of its layer and attends to it.
local norm = require "std.norm"
local attention = {}

-- Grouped-query attention. p: heads, kv_heads, head_dim, scale, qkv_bias, o_bias, qk_norm, window (function of the layer),
-- rope (attributes of rope, or a function of the layer; nil: no positions), sinks, softcap.
function attention.gqa(x, w, p, batch, layer)
  local rope_of = p.rope
  if type(rope_of) == "function" then rope_of = rope_of(layer) end

  local function project(name, heads, normed)
    local rows = heads * p.head_dim
    local bias = p.qkv_bias and w(name .. "_proj.bias", { rows }) or nil
    local y = reshape(linear(x, w(name .. "_proj.weight", { rows, p.hidden }), bias), "T", heads, p.head_dim)
    if normed and p.qk_norm then y = norm.rms(y, w, name .. "_norm", p) end
    if normed and rope_of then y = rope(y, batch.positions, rope_of) end
    return y
  end

  local q, k, v = project("q", p.heads, true), project("k", p.kv_heads, true), project("v", p.kv_heads, false)
  local cap = p.softcap
  local y = attend {
    q = q, state = batch.state.kv[layer]:append { k = k, v = v }, scale = p.scale,
    window = p.window and p.window(layer) or 0,
    sinks = p.sinks and w("sinks", { p.heads }) or nil,
    score = cap and function(s) return cap * tanh(s / cap) end or nil,
  }
  local width = p.heads * p.head_dim
  local bias = p.o_bias and w("o_proj.bias", { p.hidden }) or nil
  return linear(reshape(y, "T", width), w("o_proj.weight", { p.hidden, width }), bias)
end

return attention
