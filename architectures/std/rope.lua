-- SPDX-License-Identifier: Apache-2.0
-- Rotary tables from both spellings of a config: rope_theta beside rope_scaling, or rope_parameters (flat, or one object
-- per layer type). The result is the table of attributes of the operator `rope`. Formulas as in the papers that named
-- them; every one is computed in float64.
local rope = {}

-- Reads one parameter wherever a spelling may put it; two places that disagree are an error.
local function reader(c, layer_type, unscaled)
  local places, named = {}, {}
  local function add(object, name)
    if object then
      places[#places + 1] = object
      named[#named + 1] = name
    end
  end
  local new = c:object("rope_parameters", nil)
  if new and layer_type and new:has(layer_type) then
    add(new:object(layer_type), "rope_parameters." .. layer_type)
  elseif new then
    if layer_type then error("rope_parameters has no " .. layer_type) end
    add(new, "rope_parameters")
  end
  if not unscaled then add(c:object("rope_scaling", nil), "rope_scaling") end

  local get = {}
  -- get.one(kind, key, …): the value of the first of these keys anywhere, or nil.
  function get.one(kind, ...)
    local value, where
    for i, object in ipairs(places) do
      for _, key in ipairs { ... } do
        local found = object[kind](object, key, nil)
        if found ~= nil and value ~= nil and found ~= value then
          error(where .. " and " .. named[i] .. "." .. key .. " contradict: " .. tostring(value) .. " and " .. tostring(found))
        end
        if found ~= nil and value == nil then value, where = found, named[i] .. "." .. key end
      end
    end
    return value
  end
  function get.list(key)
    for _, object in ipairs(places) do
      local found = object:list(key, nil)
      if found then return found end
    end
    error("rope: no " .. key)
  end
  function get.waive(key, reason)
    for _, object in ipairs(places) do object:waive(key, reason) end
  end
  return get
end

local function plain_frequencies(theta, dim)
  local freqs = {}
  for i = 0, dim // 2 - 1 do freqs[i + 1] = theta ^ (-2 * i / dim) end
  return freqs
end

local function need(value, key)
  if value == nil then error("rope: no " .. key) end
  return value
end

-- The length before stretching: beside the factor, or at the top of the config.
local function original_length(get, c)
  local length = get.one("count", "original_max_position_embeddings")
  local top = c:count("original_max_position_embeddings", nil)
  if length and top and length ~= top then error("original_max_position_embeddings stands twice and differs") end
  length = length or top
  fact("original_max_positions", length)
  return length
end

local function yarn_mscale(factor, mscale)
  return factor <= 1 and 1.0 or 0.1 * mscale * math.log(factor) + 1.0
end

local kinds = {}

function kinds.default(get, c, t) return {} end

function kinds.linear(get, c, t)
  local factor = need(get.one("number", "factor"), "factor")
  for i, f in ipairs(t.freqs) do t.freqs[i] = f / factor end
end

-- Only the first part of the head turns; the other pairs keep frequency 0, at the full head's spacing.
function kinds.proportional(get, c, t)
  local factor = get.one("number", "factor") or 1.0
  local share = get.one("number", "partial_rotary_factor") or 1.0
  t.freqs = plain_frequencies(t.theta, t.head_dim)
  t.length = t.head_dim
  for i, f in ipairs(t.freqs) do
    t.freqs[i] = i <= math.tointeger(share * t.head_dim // 2) and f / factor or 0.0
  end
end

-- HunYuan calls this dynamic too: a base stretched once, whatever the length.
local function fixed_base(get, t, alpha)
  for _, key in ipairs { "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim" } do
    get.waive(key, "alpha is given")
  end
  t.theta = t.theta * alpha ^ (t.length / (t.length - 2))
  t.freqs = plain_frequencies(t.theta, t.length)
end

function kinds.dynamic(get, c, t)
  local alpha = get.one("number", "alpha")
  if alpha and alpha ~= 0 then return fixed_base(get, t, alpha) end
  t.dynamic_base, t.dynamic_factor = t.theta, need(get.one("number", "factor"), "factor")
  t.dynamic_max = c:count "max_position_embeddings" + 0.0
  get.waive("original_max_position_embeddings", "dynamic scaling counts from max_position_embeddings")
end

function kinds.llama3(get, c, t)
  local factor = need(get.one("number", "factor"), "factor")
  local low = need(get.one("number", "low_freq_factor"), "low_freq_factor")
  local high = need(get.one("number", "high_freq_factor"), "high_freq_factor")
  local original = need(original_length(get, c), "original_max_position_embeddings")
  for i, f in ipairs(t.freqs) do
    local turns = original * f / (2 * math.pi)
    if turns < low then
      t.freqs[i] = f / factor
    elseif turns <= high then
      local smooth = (turns - low) / (high - low)
      t.freqs[i] = (1 - smooth) * f / factor + smooth * f
    end
  end
end

function kinds.yarn(get, c, t)
  local original = original_length(get, c) or c:count "max_position_embeddings"
  local factor = get.one("number", "factor") or c:count "max_position_embeddings" / original
  local explicit = get.one("number", "attention_factor") or t.attention_factor
  local mscale, all_dim = get.one("number", "mscale"), get.one("number", "mscale_all_dim")
  if explicit then
    t.scale = explicit
    if not t.uses_mscale_all_dim then get.waive("mscale_all_dim", "attention_factor is given") end
    get.waive("mscale", "attention_factor is given")
  elseif mscale and all_dim and mscale ~= 0 and all_dim ~= 0 then
    t.scale = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim)
  else
    t.scale = yarn_mscale(factor, 1)
    if not all_dim then get.waive("mscale", "without mscale_all_dim it has no effect") end
    if not mscale and not t.uses_mscale_all_dim then get.waive("mscale_all_dim", "without mscale it has no effect") end
  end
  t.mscale_all_dim, t.factor, t.original = all_dim, factor, original

  local fast, slow = get.one("number", "beta_fast") or 32, get.one("number", "beta_slow") or 1
  local truncate = get.one("bool", "truncate")
  local function correction(turns)
    return t.length * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(t.theta))
  end
  local first, last = correction(fast), correction(slow)
  if truncate == nil or truncate then first, last = math.floor(first), math.ceil(last) end
  first, last = math.max(first, 0), math.min(last, t.length - 1)
  if first == last then last = last + 0.001 end
  for i, f in ipairs(t.freqs) do
    local ramp = math.min(math.max((i - 1 - first) / (last - first), 0), 1)
    t.freqs[i] = f / factor * ramp + f * (1 - ramp)
  end
end

function kinds.longrope(get, c, t)
  local limit = c:count "max_position_embeddings"
  local original = original_length(get, c) or limit
  local factor = get.one("number", "factor") or limit / original
  local scale = get.one("number", "attention_factor")
  if not scale then
    scale = factor <= 1 and 1.0 or math.sqrt(1 + math.log(factor) / math.log(original))
  else
    get.waive("factor", "attention_factor is given")
  end
  local function divided(key)
    local factors, freqs = get.list(key), {}
    if #factors ~= #t.freqs then error("rope: " .. key .. " has " .. #factors .. " entries, wanted " .. #t.freqs) end
    for i, f in ipairs(t.freqs) do freqs[i] = f / factors[i - 1] end
    return freqs
  end
  local short, long = divided "short_factor", divided "long_factor"
  t.freqs, t.long_freqs, t.switch_length, t.original = short, long, original, original
  t.scale, t.long_scale = scale, scale
end
kinds.su = kinds.longrope

-- One divisor per pair, as GGUF files store what llama3 scaling amounts to.
function kinds.divisors(get, c, t)
  local divisors = get.list "divisors"
  if #divisors ~= #t.freqs then error("rope: " .. #divisors .. " divisors for " .. #t.freqs .. " frequencies") end
  for i, f in ipairs(t.freqs) do t.freqs[i] = f / divisors[i - 1] end
end

-- Which share of a head turns: stated with the rope's parameters, beside them, or both alike.
local function partial_share(get, c, options)
  local own, top = get.one("number", "partial_rotary_factor"), nil
  if not own or not options.layer_type then top = c:number("partial_rotary_factor", nil) end
  if own and top and own ~= top then
    error("partial_rotary_factor and rope_parameters contradict: " .. top .. " and " .. own)
  end
  return own or top or options.share or 1.0
end

-- options: dim (of the head), style, mla (the softmax scale takes mscale_all_dim too). For models with a table per layer
-- type: layer_type (which object of rope_parameters), theta (what the old spelling states for it), default_theta, and
-- unscaled (rope_scaling is not for this type), attention_factor (of yarn, where the config has none). share: the part of a head that turns where the config does not say. The second
-- result has the parameters that others need.
function rope.from_config(c, options)
  local get = reader(c, options.layer_type, options.unscaled)
  local theta = get.one("number", "rope_theta")
  local top = options.theta
  if not options.layer_type then top = c:number("rope_theta", nil) end
  if theta and top and theta ~= top then
    error("rope_theta and rope_parameters contradict: " .. top .. " and " .. theta)
  end
  theta = theta or top or options.default_theta or error "rope_theta is missing, and its default is not known"
  if theta <= 0 then error("rope_theta is " .. theta .. ", above 0 wanted") end
  local kind = get.one("string", "rope_type", "type") or "default"
  if not kinds[kind] then unsupported("rope type '" .. kind .. "' is not known") end
  local share = kind == "proportional" and 1.0 or partial_share(get, c, options)
  local dim = math.floor(options.dim * share)
  if dim < 2 or dim % 2 ~= 0 then error("rope over " .. dim .. " columns of a head") end
  local t = {
    theta = theta, length = dim, head_dim = options.dim, freqs = plain_frequencies(theta, dim),
    uses_mscale_all_dim = options.mla, attention_factor = options.attention_factor,
  }
  kinds[kind](get, c, t)
  return {
    style = options.style or "half", length = t.length, freqs = t.freqs,
    scale = t.scale or 1.0, long_freqs = t.long_freqs, switch_length = t.switch_length, long_scale = t.long_scale,
    dynamic_base = t.dynamic_base, dynamic_factor = t.dynamic_factor, dynamic_max = t.dynamic_max,
  }, t
end

-- The same for configs that may state how many columns of a head turn, rotary_dim, beside their share or in its place.
function rope.with_columns(c, options)
  local columns = c:count("rotary_dim", nil)
  options.share = columns and columns / options.dim
  local attributes, rest = rope.from_config(c, options)
  if columns and columns ~= attributes.length then
    error("rotary_dim " .. columns .. " and partial_rotary_factor contradict: " .. attributes.length .. " columns")
  end
  return attributes, rest
end

-- Which layers turn q and k: a function of the layer. no_rope_layers has a 1 for those that do; without it, every
-- no_rope_layer_interval-th does not.
function rope.turning_layers(c, layers)
  local listed = c:list("no_rope_layers", nil)
  if not listed or #listed == 0 then
    local interval = c:count("no_rope_layer_interval", 4)
    return function(i) return (i + 1) % interval ~= 0 end
  end
  c:waive("no_rope_layer_interval", "no_rope_layers states each layer")
  if #listed < layers then error("no_rope_layers has " .. #listed .. " entries for " .. layers .. " layers") end
  local turns = {}
  for i = 0, #listed - 1 do
    if listed[i] ~= 0 and listed[i] ~= 1 then error("no_rope_layers[" .. i .. "]: found " .. tostring(listed[i]) .. ", wanted 0 or 1") end
    turns[i] = listed[i] == 1
  end
  return function(i) return turns[i] end
end

rope.yarn_mscale = yarn_mscale

return rope
