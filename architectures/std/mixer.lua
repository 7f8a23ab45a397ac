-- SPDX-License-Identifier: Apache-2.0
-- Recurrent layers. Each keeps what it remembers in the fixed state batch.state.mixer of its layer: the last inputs of its
-- convolutions and the matrices of its recurrence; mixer.<kind>_state(…) declares it.
local activation = require "std.activation"
local mixer = {}

local function silu(y) return y * sigmoid(y) end
local function softplus(y) return max(y, 0) + log1p(exp(-abs(y))) end
mixer.softplus = softplus

-- The parts of the last axis but one of [T, n] or [T, heads, n] that these widths cut.
local function split(y, widths)
  local parts, start, axis = {}, 0, y:rank() - 1
  for i, width in ipairs(widths) do
    parts[i] = slice(y, { axis = axis, start = start, stop = start + width })
    start = start + width
  end
  return table.unpack(parts)
end
mixer.split = split

local function project(x, w, name, rows, biased)
  return linear(x, w(name .. ".weight", { rows, x:dim(-1) }), biased and w(name .. ".bias", { rows }) or nil)
end

-- Rows of length one, times scale: x / sqrt(sum(x^2) + 1e-6).
local function unit(x, scale)
  local n = x:dim(-1)
  return rms_norm(x, { eps = 1e-6 / n }) * (scale * n ^ -0.5)
end

-- The causal convolution `name` over the last `kernel` tokens, each channel by itself, and an activation after it.
local function conv(x, w, name, kernel, state, component, options)
  local channels = x:dim(-1)
  local y = conv1d {
    x = x, weight = reshape(w(name .. ".weight", { channels, 1, kernel }), channels, kernel),
    bias = options.bias and w(name .. ".bias", { channels }) or nil, state = state, component = component,
  }
  return options.act and map(options.act, y) or y
end

-- A norm over each of `groups` parts of the last axis; the weight runs over all of it.
local function grouped_norm(x, weight, groups, eps)
  local width = x:dim(-1)
  return reshape(rms_norm(reshape(x, "T", groups, width // groups), { eps = eps }), "T", width) * weight
end

-- Gated delta rule. d: key_heads, value_heads, key_dim, value_dim, kernel, fused (how the projections are stored); p: hidden,
-- eps, act.
function mixer.gdn_state(d, layers)
  return fixed {
    layers = layers, conv = { d.kernel - 1, 2 * d.key_heads * d.key_dim + d.value_heads * d.value_dim },
    s = { d.value_heads, d.key_dim, d.value_dim },
  }
end

-- The projections as q, k and v side by side [T, n], z [T, heads, width], b and a [T, heads]. GGUF files have those of
-- Qwen3-Next in two parts.
local function gdn_inputs(x, w, d)
  local keys, values = d.key_heads * d.key_dim, d.value_heads * d.value_dim
  local each = d.value_heads // d.key_heads  -- value heads of one key head, whose rows stand together
  local function step_inputs()
    if not d.fused then return project(x, w, "in_proj_b", d.value_heads), project(x, w, "in_proj_a", d.value_heads) end
    local ba = reshape(project(x, w, "in_proj_ba", 2 * d.value_heads), "T", d.key_heads, 2 * each)
    local b, a = split(ba, { each, each })
    return reshape(b, "T", d.value_heads), reshape(a, "T", d.value_heads)
  end
  if not d.fused or w:has "in_proj_qkv.weight" then
    local z = reshape(project(x, w, "in_proj_z", values), "T", d.value_heads, d.value_dim)
    return project(x, w, "in_proj_qkv", 2 * keys + values), z, step_inputs()
  end
  local width = each * d.value_dim
  local qkvz = reshape(project(x, w, "in_proj_qkvz", 2 * (keys + values)), "T", d.key_heads, 2 * (d.key_dim + width))
  local q, k, v, z = split(qkvz, { d.key_dim, d.key_dim, width, width })
  local mixed = concat(reshape(q, "T", keys), reshape(k, "T", keys), reshape(v, "T", values), { axis = 1 })
  return mixed, reshape(z, "T", d.value_heads, d.value_dim), step_inputs()
end

function mixer.gdn(x, w, p, batch, layer)
  local d, state = p.delta, batch.state.mixer[layer]
  local keys, values = d.key_heads * d.key_dim, d.value_heads * d.value_dim
  local mixed, z, b, a = gdn_inputs(x, w, d)
  local q, k, v = split(conv(mixed, w, "conv1d", d.kernel, state, "conv", { act = p.act }), { keys, keys, values })
  local y = recur {
    form = "delta", state = state, component = "s",
    q = unit(reshape(q, "T", d.key_heads, d.key_dim), d.key_dim ^ -0.5), k = unit(reshape(k, "T", d.key_heads, d.key_dim), 1),
    v = reshape(v, "T", d.value_heads, d.value_dim), beta = sigmoid(b),
    decay = map(function(step, bias, log_rate) return -exp(log_rate) * softplus(step + bias) end, a,
      w("dt_bias", { d.value_heads }), w("A_log", { d.value_heads })),
  }
  y = rms_norm(y, w("norm.weight", { d.value_dim }), { eps = p.eps }) * map(silu, z)
  local last = "out_proj"
  if w:has "out_proj_tiled.weight" then  -- in GGUF files of Qwen3.5: columns by the place of a head under its key head first
    last, y = "out_proj_tiled", transpose(reshape(y, "T", d.key_heads, d.value_heads // d.key_heads, d.value_dim), 0, 2, 1, 3)
  end
  return project(reshape(y, "T", values), w, last, p.hidden)
end

-- Kimi delta attention: the delta rule with a decay per channel. d: heads, dim, kernel, full_gate (the output gate is one
-- matrix, not a product of two), lower_bound (of the log decay, which is then a sigmoid), padded_rates.
function mixer.kda_state(d, layers)
  local tail = { d.kernel - 1, d.heads * d.dim }
  return fixed { layers = layers, q = tail, k = tail, v = tail, s = { d.heads, d.dim, d.dim } }
end

-- One number per head; K3 stores them as a vector that ends in padding.
local function log_rates(w, d)
  if not d.padded_rates then return w("A_log", { 1, 1, d.heads, 1 }) end
  if not w:has "A_log" then return w("A_log", { d.heads }) end
  return slice(w "A_log", { axis = 0, start = 0, stop = d.heads })
end

local function kda_decay(x, w, d)
  local width, bound = d.heads * d.dim, d.lower_bound
  local step = reshape(project(project(x, w, "f_a_proj", d.dim), w, "f_b_proj", width), "T", d.heads, d.dim)
  local bias = reshape(w("dt_bias", { width }), d.heads, d.dim)
  local log_rate = reshape(log_rates(w, d), d.heads, 1)
  if bound then
    return map(function(y, c, rate) return bound * sigmoid(exp(rate) * (y + c)) end, step, bias, log_rate)
  end
  return map(function(y, c, rate) return -exp(rate) * softplus(y + c) end, step, bias, log_rate)
end

function mixer.kda(x, w, p, batch, layer)
  local d, state = p.delta, batch.state.mixer[layer]
  local width = d.heads * d.dim
  local function stream(name)
    local y = conv(project(x, w, name .. "_proj", width), w, name .. "_conv1d", d.kernel, state, name, { act = p.act })
    return reshape(y, "T", d.heads, d.dim)
  end
  local y = recur {
    form = "delta", state = state, component = "s", q = unit(stream "q", d.dim ^ -0.5), k = unit(stream "k", 1),
    v = stream "v", decay = kda_decay(x, w, d), beta = sigmoid(project(x, w, "b_proj", d.heads)),
  }
  local gate = d.full_gate and project(x, w, "g_proj", width)
    or project(project(x, w, "g_a_proj", d.dim), w, "g_b_proj", width)
  y = rms_norm(y, w("o_norm.weight", { d.dim }), { eps = p.eps }) * sigmoid(reshape(gate, "T", d.heads, d.dim))
  return project(reshape(y, "T", width), w, "o_proj", p.hidden)
end

-- A limit of the time step; nil: none. JSON has no word for infinity: writers put Infinity, an object around the word, or
-- a number beyond all float32.
local function step_limit(value)
  if type(value) == "number" then return value > 0 and value < 3.4e38 and value or nil end
  value:expect("__float__", "Infinity")
end

-- Mamba-2. s: heads, dim, groups, size (of the state), kernel, act, bias, conv_bias, step_min, step_max (nil: no limit).
-- keys: under which names the config has the first ones.
function mixer.read_mamba2(c, keys)
  for _, key in ipairs { "time_step_min", "time_step_max", "time_step_floor", "time_step_rank" } do
    c:waive(key, "how the weights of the time step began")
  end
  c:waive("rescale_prenorm_residual", "training only")
  c:waive("residual_in_fp32", "residuals are float32 here")
  c:waive("chunk_size", "how another program cuts sequences")
  local limits = c:list("time_step_limit", nil)
  local s = {
    heads = c:count(keys.heads), dim = c:count(keys.dim), size = c:count(keys.size), groups = c:count("n_groups", 8),
    kernel = c:count("conv_kernel", 4), act = activation(c:string(keys.act)), bias = c:bool("use_bias", false),
    conv_bias = c:bool("use_conv_bias", true), step_min = limits and step_limit(limits[0]), step_max = limits and step_limit(limits[1]),
  }
  if s.heads % s.groups ~= 0 then error(s.heads .. " heads are no multiple of " .. s.groups .. " groups") end
  return s
end

function mixer.mamba2_state(s, layers)
  return fixed {
    layers = layers, conv = { s.kernel - 1, s.heads * s.dim + 2 * s.groups * s.size }, s = { s.heads, s.size, s.dim },
  }
end

local function limited(step, lowest, highest)
  if lowest then step = max(step, lowest) end
  return highest and min(step, highest) or step
end

function mixer.mamba2(x, w, p, batch, layer)
  local s, state = p.ssm, batch.state.mixer[layer]
  local inner, shared = s.heads * s.dim, s.groups * s.size
  local gate, mixed, step = split(project(x, w, "in_proj", 2 * (inner + shared) + s.heads, s.bias),
    { inner, inner + 2 * shared, s.heads })
  local v, k, q = split(conv(mixed, w, "conv1d", s.kernel, state, "conv", { act = s.act, bias = s.conv_bias }),
    { inner, shared, shared })
  step = limited(map(function(y, bias) return softplus(y + bias) end, step, w("dt_bias", { s.heads })), s.step_min, s.step_max)
  v = reshape(v, "T", s.heads, s.dim)
  local y = recur {
    form = "gla", state = state, component = "s", q = reshape(q, "T", s.groups, s.size), k = reshape(k, "T", s.groups, s.size),
    v = v * reshape(step, "T", s.heads, 1),
    decay = map(function(dt, log_rate) return -exp(log_rate) * dt end, step, w("A_log", { s.heads })),
  }
  y = reshape(y + v * reshape(w("D", { s.heads }), s.heads, 1), "T", inner) * map(silu, gate)
  y = grouped_norm(y, w("norm.weight", { inner }), s.groups, p.eps)
  return project(y, w, "out_proj", p.hidden, s.bias)
end

-- Mamba, with norms on the step and on both vectors as in Jamba. s: inner, rank, size, kernel, act, bias, conv_bias.
function mixer.mamba_state(s, layers)
  return fixed { layers = layers, conv = { s.kernel - 1, s.inner }, s = { s.inner, s.size } }
end

function mixer.mamba(x, w, p, batch, layer)
  local s, state = p.ssm, batch.state.mixer[layer]
  local v, gate = split(project(x, w, "in_proj", 2 * s.inner, s.bias), { s.inner, s.inner })
  v = conv(v, w, "conv1d", s.kernel, state, "conv", { act = s.act, bias = s.conv_bias })
  local step, b, c = split(project(v, w, "x_proj", s.rank + 2 * s.size), { s.rank, s.size, s.size })
  local function normed(y, name) return rms_norm(y, w(name .. "_layernorm.weight", { y:dim(-1) }), { eps = p.eps }) end
  step = map(softplus, project(normed(step, "dt"), w, "dt_proj", s.inner, true))
  local y = recur {
    form = "selective", state = state, component = "s", x = v, dt = step, b = normed(b, "b"), c = normed(c, "c"),
    a = map(function(log_rate) return -exp(log_rate) end, w("A_log", { s.inner, s.size })),
  }
  y = map(function(out, skip, input, g) return (out + skip * input) * silu(g) end, y, w("D", { s.inner }), v, gate)
  return project(y, w, "out_proj", p.hidden, s.bias)
end

-- LFM2's convolution between two gates. s: kernel, bias.
function mixer.short_conv_state(s, hidden, layers) return fixed { layers = layers, conv = { s.kernel - 1, hidden } } end

function mixer.short_conv(x, w, p, batch, layer)
  local s = p.conv
  local before, after, v = split(project(x, w, "in_proj", 3 * p.hidden, s.bias), { p.hidden, p.hidden, p.hidden })
  local y = conv(before * v, w, "conv", s.kernel, batch.state.mixer[layer], "conv", { bias = s.bias })
  return project(after * y, w, "out_proj", p.hidden, s.bias)
end

-- Lightning attention: linear attention that forgets at a fixed rate per head, the slower the deeper the layer.
function mixer.lightning_state(p, layers) return fixed { layers = layers, s = { p.heads, p.head_dim, p.head_dim } } end

function mixer.lightning(x, w, p, batch, layer)
  for _, name in ipairs { "slope_rate", "query_decay", "key_decay", "diagonal_decay" } do
    w:waive(name, "follows from the number of heads and the layer, and is computed")
  end
  local width, gain = p.heads * p.head_dim, w("norm.weight", { p.heads * p.head_dim })
  -- The numbers of the heads, from 1: nothing else makes a vector of constants.
  local head = cumsum(map(function(y) return 0 * y + 1 end, slice(gain, { axis = 0, start = 0, stop = p.heads })), { axis = 0 })
  local deeper, step = 1 - layer / (p.layers - 1 + 1e-5) + 1e-5, -8 * math.log(2) / p.heads
  local qkv = reshape(map(p.act, project(x, w, "qkv_proj", 3 * width)), "T", p.heads, 3 * p.head_dim)
  local q, k, v = split(qkv, { p.head_dim, p.head_dim, p.head_dim })
  local y = recur {
    form = "gla", q = q, k = k, v = v, state = batch.state.mixer[layer], component = "s",
    decay = map(function(n) return -deeper * exp(step * n) end, head),
  }
  y = rms_norm(reshape(y, "T", width), gain, { eps = 1e-6 })
  return project(y * sigmoid(project(x, w, "output_gate", width)), w, "out_proj", p.hidden)
end

return mixer
