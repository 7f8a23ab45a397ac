-- SPDX-License-Identifier: Apache-2.0
-- What the mappings of GGUF families (gguf_attention.lua, gguf_recurrent.lua) have in common.
local tools = {}

-- key_length and value_length where they are stated, and the width that turns; all three are the head size.
function tools.head_size(key, c)
  local size = key.int("attention.key_length", nil)
  local turned = key.int("rope.dimension_count", nil)
  c.head_dim = size or turned
  local value = key.int("attention.value_length", nil)
  if value and value ~= (c.head_dim or c.hidden_size // c.num_attention_heads) then
    unsupported("GGUF: value heads of " .. value .. " columns beside key heads of " .. tostring(c.head_dim))
  end
  if size and turned and turned ~= size then c.rope_parameters.partial_rotary_factor = turned / size end
end

-- The tensor `name` of a layer.
function tools.has(layer, name) return gguf_shape("blk." .. layer .. "." .. name) ~= nil end

-- The shape of a tensor in the first layer that has it.
function tools.find(c, name)
  for i = 0, c.num_hidden_layers - 1 do
    local shape = gguf_shape("blk." .. i .. "." .. name)
    if shape then return shape end
  end
end

-- A word for each layer: the first of these pairs of a tensor's name and a word whose tensor is there.
function tools.kinds(c, pairs_of)
  local list = {}
  for i = 0, c.num_hidden_layers - 1 do
    for _, pair in ipairs(pairs_of) do
      list[i + 1] = list[i + 1] or tools.has(i, pair[1]) and pair[2] or nil
    end
    if not list[i + 1] then unsupported("GGUF: a layer of no known kind: " .. i) end
  end
  return list
end

-- A number that may stand once for each layer, 0 where a layer has no use for it; `tensor`: what the other layers have.
function tools.per_layer(key, name, tensor)
  local value = key.raw(name)
  if value == nil or type(value) == "number" then return value end
  local found
  for i = 0, #value - 1 do
    local n = value[i]
    if n ~= 0 and found and n ~= found then unsupported("GGUF: " .. name .. " is " .. found .. " here and " .. n .. " there") end
    if tensor and (n ~= 0) ~= tools.has(i, tensor) then error(name .. " of layer " .. i .. " contradicts its tensors") end
    found = found or n ~= 0 and n or nil
  end
  return found
end

function tools.read_experts(key, c, names)
  c[names.count], c[names.top] = key.int "expert_count", key.int "expert_used_count"
end

-- The last prediction layers are counted among the blocks.
function tools.without_prediction_layers(key, c)
  local count = key.int("nextn_predict_layers", 0)
  c.num_hidden_layers = c.num_hidden_layers - count
  return count
end

-- Adds a model type to the list: the class that configs name, names of its own, and what undoes changes (below).
function tools.models(list)
  return function(model_type, class, names, undo) list[model_type] = { class = class, names = names, undo = undo } end
end

-- Names in files: of several tables at once; of the matrices of a feed-forward block under `at`.
function tools.names(...)
  local all = {}
  for _, names in ipairs { ... } do
    for module, name in pairs(names) do all[module] = name end
  end
  return all
end
function tools.blocks(at, ending, words)
  words = words or { "gate_proj", "up_proj", "down_proj" }
  return {
    [at .. "." .. words[1]] = "ffn_gate" .. ending, [at .. "." .. words[2]] = "ffn_up" .. ending,
    [at .. "." .. words[3]] = "ffn_down" .. ending,
  }
end
tools.sandwich = {
  ["post_attention_layernorm"] = "post_attention_norm", ["pre_feedforward_layernorm"] = "ffn_norm",
  ["post_feedforward_layernorm"] = "post_ffw_norm",
}
tools.mixtral = tools.names({
  ["block_sparse_moe.gate"] = "ffn_gate_inp", ["block_sparse_moe.e_score_correction_bias"] = "exp_probs_b.bias",
}, tools.blocks("block_sparse_moe.experts.{}", "_exps", { "w1", "w3", "w2" }))

-- How writers change tensors, as functions that undo it. Each takes the config and gives a function of the module of a tensor
-- and of its name in the file.
function tools.minus_one(v) return v - 1 end
function tools.norms_plus_one()
  return function(module) return module:sub(-4) == "norm" and tools.minus_one or nil end
end

-- Writers of llama files put the two halves of each q and k head in turn, row by row; this puts them back.
local function unpermute(heads, head_dim)
  return function(v)
    local columns = v:rank() == 2 and v:dim(1) or nil
    if not columns then
      return reshape(transpose(reshape(v, heads, head_dim // 2, 2), 0, 2, 1), heads * head_dim)
    end
    local turned = transpose(reshape(v, heads, head_dim // 2, 2, columns), 0, 2, 1, 3)
    return reshape(turned, heads * head_dim, columns)
  end
end

function tools.permuted_rows(c)
  local head_dim = c:int("head_dim", nil) or c:int "hidden_size" // c:int "num_attention_heads"
  local undo = {
    attn_q = unpermute(c:int "num_attention_heads", head_dim),
    attn_k = unpermute(c:int("num_key_value_heads", nil) or c:int "num_attention_heads", head_dim),
  }
  return function(_, mapped) return undo[mapped] end
end

-- Recurrent layers: names of the module `at`, and these.
function tools.ssm_names(at, ...)
  local names = {}
  for module, name in pairs {
    conv1d = "ssm_conv1d", in_proj = "ssm_in", out_proj = "ssm_out", A_log = "ssm_a", D = "ssm_d", norm = "ssm_norm",
  } do
    names[at .. "." .. module] = name
  end
  return tools.names(names, ...)
end

-- -exp(x) is stored for x, convolutions without their middle axis, vectors with an axis more.
function tools.log_rates(v) return log(-cast(v, "f32")) end
function tools.with_middle_axis(v)
  if v:rank() < 2 then return v end
  return reshape(v, v:dim(v:rank() == 2 and 0 or -3), 1, v:dim(-1))
end
function tools.flat(v)
  local count = 1
  for axis = 0, v:rank() - 1 do count = count * v:dim(axis) end
  return v:rank() > 1 and reshape(v, count) or v
end

-- vectors: rates, skips and the norm's weight are vectors.
function tools.undo_ssm(vectors)
  local undo = { ssm_conv1d = tools.with_middle_axis, ssm_a = tools.log_rates }
  if vectors then
    undo.ssm_a, undo.ssm_d, undo.ssm_norm = function(v) return tools.log_rates(tools.flat(v)) end, tools.flat, tools.flat
  end
  return function()
    return function(_, mapped) return undo[mapped] end
  end
end

return tools
