-- SPDX-License-Identifier: Apache-2.0
-- Which layers are of which kind, as functions of the layer.
local kinds = {}

-- Every entry of list `key` for `layers` layers must be one of `known`; where(kind) tells the layers of a kind.
function kinds.from_list(list, layers, known, key)
  if #list ~= layers then error(key .. " has " .. #list .. " entries for " .. layers .. " layers") end
  local valid = {}
  for _, kind in ipairs(known) do valid[kind] = true end
  for i = 0, layers - 1 do
    if not valid[list[i]] then unsupported(key .. "[" .. i .. "]: found " .. tostring(list[i])) end
  end
  return function(kind)
    return function(i) return list[i] == kind end
  end
end

-- A list of two words per layer under `words` (new releases), or of 0 and 1 under `numbers` of the object `old` (c, without
-- it; nil with `default`: every layer is as default says), as a list from 0 of whether a layer is of the second kind.
function kinds.marks(c, words, zero, one, numbers, layers, old, default)
  local listed, named = c:list(words, nil), words
  if listed then (old or c):waive(numbers, words .. " states the kind of each layer") end
  if not listed then
    listed, named, zero, one = (old or c):list(numbers, nil), numbers, 0, 1
    if not listed and default == nil then error("neither " .. words .. " nor " .. numbers .. " is there") end
  end
  local out = {}
  for i = 0, listed and -1 or layers - 1 do out[i] = default end
  if listed and #listed < layers then error(named .. ": " .. #listed .. " entries for " .. layers .. " layers") end
  for i = 0, listed and #listed - 1 or -1 do
    if listed[i] ~= zero and listed[i] ~= one then unsupported(named .. "[" .. i .. "]: found " .. tostring(listed[i])) end
    out[i] = listed[i] == one
  end
  return out
end

-- Whether a layer is in this list, whose layers count from `first`; with `layers`, the list of `key` names none beyond them.
function kinds.listed(list, first, layers, key)
  local set = {}
  for i = 0, #list - 1 do
    if layers and (math.type(list[i]) ~= "integer" or list[i] < first or list[i] >= first + layers) then
      error(key .. " names layer " .. tostring(list[i]) .. " of " .. layers)
    end
    set[list[i] - first] = true
  end
  return function(i) return set[i] == true end
end

-- Whether any of `layers` layers is of this kind.
function kinds.any(layers, is)
  for i = 0, layers - 1 do
    if is(i) then return true end
  end
  return false
end

-- Qwen: layer_types, else each full_attention_interval-th layer is full; the first result tells the full layers.
function kinds.interval(c, layers)
  if not c:has "layer_types" then
    local every = c:count("full_attention_interval", 4)
    return function(i) return (i + 1) % every == 0 end, function(i) return (i + 1) % every ~= 0 end
  end
  c:waive("full_attention_interval", "layer_types states the kind of each layer")
  local where = kinds.from_list(c:list "layer_types", layers, { "linear_attention", "full_attention" }, "layer_types")
  return where "full_attention", where "linear_attention"
end

return kinds
