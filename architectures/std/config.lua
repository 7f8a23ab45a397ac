-- SPDX-License-Identifier: Apache-2.0
-- What decoders read from their configs alike, and the keys that say nothing about the computation.
local config = {}

local idle = {
  _name_or_path = "where the config came from",
  attention_dropout = "training only",
  auto_map = "remote code, which is never run",
  dtype = "the tensors state their own type",
  initializer_range = "training only",
  output_router_logits = "training only",
  pretraining_tp = "how training was split; the tensors are whole",
  router_aux_loss_coef = "training only",
  router_jitter_noise = "training only",
  torch_dtype = "the tensors state their own type",
  transformers_version = "the version that wrote the config",
  use_cache = "a setting of another program",
}

function config.idle(c)
  for key, reason in pairs(idle) do c:waive(key, reason) end
end

-- The text model inside a multimodal config: its text_config, or c itself. `keys`: others that images alone need.
function config.text_of(c, model_type, keys)
  local t = c:object("text_config", nil)
  if not t then return c end
  config.idle(c)
  for _, key in ipairs { "vision_config", "audio_config" } do c:waive(key, "the towers of other media are not run") end
  for _, key in ipairs(keys) do c:waive(key, "images and sounds are not computed") end
  t:expect("model_type", model_type)
  return t
end

-- The token ids under `key` in these configs, each once.
local function token_ids(key, configs)
  local ids, seen = {}, {}
  local function add(id)
    if not seen[id] then
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
  for _, c in ipairs(configs) do
    local value = c[key]
    if type(value) == "number" then
      add(value)
    elseif value ~= nil and value ~= null then
      for i = 0, #value - 1 do add(value[i]) end
    end
  end
  return ids
end

-- Facts of the model that are not computation. `outer`: the config that holds this one, if any.
function config.facts(c, outer, default_positions)
  fact("max_positions", c:count("max_position_embeddings", default_positions))
  for _, key in ipairs { "bos_token_id", "eos_token_id", "pad_token_id" } do
    local ids = token_ids(key, { c, outer ~= c and outer or nil })
    fact(key, #ids > 1 and ids or ids[1])
  end
end

-- A flag that may stand in several configs, which must agree.
function config.agreed_bool(key, default, ...)
  local value
  for _, c in ipairs { ... } do
    local found = c:bool(key, nil)
    if found ~= nil and value ~= nil and found ~= value then error(key .. " stands twice and differs") end
    if found ~= nil then value = found end
  end
  if value == nil then return default end
  return value
end

-- Null, absent and 0 head sizes mean hidden / heads.
local function head_size(c, hidden, heads)
  local size = c:count("head_dim", nil)
  if size then return size end
  if hidden % heads ~= 0 then
    error("no head_dim, and hidden_size " .. hidden .. " is not a multiple of " .. heads .. " heads")
  end
  return hidden // heads
end

-- A flag under one of several names, which must agree.
function config.either(c, keys, default)
  local value
  for _, key in ipairs(keys) do
    local found = c:bool(key, nil)
    if found ~= nil and value ~= nil and found ~= value then error(table.concat(keys, " and ") .. " contradict") end
    if found ~= nil then value = found end
  end
  if value == nil then return default end
  return value
end

-- head_dim: where the config has its own words for the size of a head. outer: the config that holds this one, if any. eps: the
-- key of the norms' epsilon, if it is another than in most.
function config.decoder(c, head_dim, outer, eps)
  config.idle(c)
  config.facts(c, outer)
  local hidden, heads = c:count "hidden_size", c:count "num_attention_heads"
  head_dim = head_dim or head_size(c, hidden, heads)
  return {
    layers = c:count "num_hidden_layers", hidden = hidden, heads = heads,
    kv_heads = c:count("num_key_value_heads", nil) or heads,
    head_dim = head_dim, scale = head_dim ^ -0.5,
    eps = c:number(eps or c:has "layernorm_epsilon" and "layernorm_epsilon" or "rms_norm_eps"), vocab = c:count "vocab_size",
  }
end

return config
