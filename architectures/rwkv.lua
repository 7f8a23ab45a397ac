-- SPDX-License-Identifier: Apache-2.0
-- RWKV 5.2 in the files of rwkv.cpp, whose header and shapes make the config: linear attention with a decay per channel and a
-- bonus for the token itself, and mixtures of each token with the one before it.
local std = require "std"

local function normed(x, w, name)
  local width = x:dim(-1)
  return layer_norm(x, w(name .. ".weight", { width }), w(name .. ".bias", { width }), { eps = 1e-5 })
end

-- x moved towards the row before it; the weight says how much of x stays.
local function mix(x, before, weight)
  return map(function(now, past, stays) return now * stays + past * (1 - stays) end, x, before, weight)
end

local function project(x, w, name, rows) return linear(x, w(name .. ".weight", { rows, x:dim(-1) })) end

local function time_mix(x, w, p, state)
  local before, size = shift { x = x, state = state, component = "time" }, p.hidden // p.heads
  local function stream(letter, name)
    return project(mix(x, before, w("time_mix_" .. letter, { p.hidden })), w, name, p.hidden)
  end
  local function heads(y) return reshape(y, "T", p.heads, size) end
  local function per_channel(name) return reshape(w(name, { p.heads, size, 1 }), p.heads, size) end
  local k = heads(stream("k", "key"))
  local y = recur {
    form = "gla", state = state, component = "s", q = heads(stream("r", "receptance")), k = k,
    v = heads(stream("v", "value")), bonus = per_channel "time_faaaa",
    decay = map(function(factor, row) return log(factor) + 0 * row end, per_channel "time_decay", k),  -- for every token
  }
  y = reshape(layer_norm(y, { eps = 1e-5 }), "T", p.hidden)  -- each head by itself
  y = y * w("ln_x.weight", { p.hidden }) + w("ln_x.bias", { p.hidden })
  local gate = stream("g", "gate")
  return project(y * (gate * sigmoid(gate)), w, "output", p.hidden)
end

local function channel_mix(x, w, p, state)
  local before = shift { x = x, state = state, component = "channel" }
  local width = w "key.weight":dim(0)
  local k = project(mix(x, before, w("time_mix_k", { p.hidden })), w, "key", width)
  local r = project(mix(x, before, w("time_mix_r", { p.hidden })), w, "receptance", p.hidden)
  return sigmoid(r) * project(map(std.activation "relu2", k), w, "value", p.hidden)
end

return architecture {
  matches = { model_type = { "rwkv.cpp" } },

  parameters = function(c)
    local p = { layers = c:count "num_hidden_layers", hidden = c:count "hidden_size", vocab = c:count "vocab_size" }
    if not c:has "num_attention_heads" then unsupported "RWKV without heads (version 4)" end
    p.heads = c:count "num_attention_heads"
    if p.hidden % p.heads ~= 0 then error(p.hidden .. " channels in " .. p.heads .. " heads") end
    return p
  end,

  state = function(p)
    local size = p.hidden // p.heads
    return { mixer = fixed { time = { p.hidden }, channel = { p.hidden }, s = { p.heads, size, size } } }
  end,

  forward = function(p, w, batch)
    local first = w:scope "blocks.0"
    if first:has "att.time_maa_x" or first:has "att.x_r" then unsupported "RWKV 6 and 7" end
    if not first:has "att.gate.weight" then unsupported "RWKV 5 and 5.1" end
    local x = normed(gather_rows(w("emb.weight", { p.vocab, p.hidden }), batch.tokens), first, "ln0")
    for i = 0, p.layers - 1 do
      local l, state = w:scope("blocks." .. i), batch.state.mixer[i]
      x = x + time_mix(normed(x, l, "ln1"), l:scope "att", p, state)
      x = x + channel_mix(normed(x, l, "ln2"), l:scope "ffn", p, state)
    end
    return { logits = project(normed(gather_rows(x, batch.output_rows), w, "ln_out"), w, "head", p.vocab) }
  end,
}
