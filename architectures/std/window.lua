-- SPDX-License-Identifier: Apache-2.0
-- Sliding windows: a function from the layer to its window, 0 for none. Token i sees i - W + 1 .. i.
local window = {}

-- For models that have none; a config that states one is refused, not ignored.
function window.none(c)
  c:expect("sliding_window", null, "this model type has no sliding window")
  local types = c:list("layer_types", nil)
  for i = 0, types and #types - 1 or -1 do
    if types[i] ~= "full_attention" then unsupported("layer_types[" .. i .. "]: found " .. types[i]) end
  end
  return nil
end

local function by_types(types, layers, size)
  if #types < layers then error("layer_types has " .. #types .. " entries for " .. layers .. " layers") end
  local windows = {}
  for i = 0, #types - 1 do
    if types[i] == "sliding_attention" then
      if not size then error("layer_types[" .. i .. "] is sliding_attention, but no sliding_window is in use") end
      windows[i] = size
    elseif types[i] ~= "full_attention" then
      unsupported("layer_types[" .. i .. "]: found " .. tostring(types[i]))
    end
  end
  return function(i) return windows[i] or 0 end
end

-- options.switch: the window counts only with use_sliding_window, from layer max_window_layers on (Qwen).
-- options.all: with a window, every layer has it. Without layer_types: options.every: layer i is full when (i + 1) % every == 0
-- (Gemma); options.where: a function of the layer says whether it is windowed.
function window.from_config(c, layers, options)
  local size = c:count("sliding_window", nil)
  local types = c:list("layer_types", nil)
  if options.switch and not options.all and not options.where and not types and size and c:int("max_window_layers", layers) >= layers then
    c:waive("use_sliding_window", "max_window_layers leaves no layer windowed")
    c:waive("sliding_window", "max_window_layers leaves no layer windowed")
    if not c:bool("use_sliding_window", false) then c:waive("max_window_layers", "no window is in use") end
    return nil
  end
  if options.switch then
    local on = c:bool("use_sliding_window", false)
    if on and not size then error "use_sliding_window is on, but sliding_window is missing or null" end
    if not on then
      c:waive("sliding_window", "use_sliding_window is off")
      size = nil
    end
  end
  if types or not size then
    c:waive("max_window_layers", types and "layer_types states the kind of each layer" or "no window is in use")
  end
  if types then
    local windows = by_types(types, layers, size)
    local any = false
    for i = 0, layers - 1 do any = any or windows(i) > 0 end
    if not any then
      if size then c:waive("sliding_window", "layer_types has no sliding layer") end
      if c:has "sliding_window" then c:waive("use_sliding_window", "layer_types has no sliding layer") end
    end
    return windows
  end
  if not size then return nil end
  local every, where = options.every, options.where
  if every then where = function(i) return (i + 1) % every ~= 0 end end
  if where then
    c:waive("max_window_layers", "plays no part in this model type")
    return function(i) return where(i) and size or 0 end
  end
  if options.all then c:waive("max_window_layers", "every layer has the window") end
  local first = options.switch and not options.all and c:int "max_window_layers" or 0
  return function(i) return i >= first and size or 0 end
end

return window
