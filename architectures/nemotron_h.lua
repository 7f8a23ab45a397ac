-- SPDX-License-Identifier: Apache-2.0
-- Nemotron-H and Nemotron 3: each layer is one block, Mamba-2, attention without positions, a plain feed-forward or experts,
-- which may work in a space of their own width.
local std = require "std"

local words = {
  mamba = "M", linear_attention = "M", attention = "*", full_attention = "*", moe = "E", mlp = "-",
}

-- Kinds of layers, a letter each: from a list of words, or from a string of letters.
local function letters(list, list_key, pattern, pattern_key)
  local kinds = {}
  for i = 0, list and #list - 1 or -1 do
    kinds[i + 1] = words[list[i]] or unsupported(list_key .. "[" .. i .. "]: found " .. tostring(list[i]))
  end
  for letter in (list and "" or pattern):gmatch "." do
    if not letter:match "^[M*E-]$" then unsupported(pattern_key .. ": found " .. letter) end
    kinds[#kinds + 1] = letter
  end
  return kinds
end

-- The number of layers, and where(kind): whether a layer is of that kind.
local function layer_kinds(c)
  local list = c:list("layers_block_type", nil)
  if list then c:waive("hybrid_override_pattern", "layers_block_type states the kind of each layer") end
  local kinds = letters(list, "layers_block_type", not list and c:string "hybrid_override_pattern", "hybrid_override_pattern")
  local stated = c:count("num_hidden_layers", nil)
  if stated and stated ~= #kinds then error("num_hidden_layers: found " .. stated .. " beside " .. #kinds .. " kinds of layers") end
  local function where(kind)
    return function(i) return kinds[i + 1] == kind end
  end
  return #kinds, where
end

-- The layers of the head that predicts: none where the config has no such head.
local function prediction_kinds(c)
  local count, list = c:int("num_nextn_predict_layers", 0), c:list("mtp_layers_block_type", nil)
  local pattern = c:string("mtp_hybrid_override_pattern", "*E")
  for _, key in ipairs { "num_nextn_predict_layers", "mtp_layers_block_type", "mtp_hybrid_override_pattern" } do
    c:waive(key, "extra prediction layers are not run")
  end
  return count > 0 and letters(list, "mtp_layers_block_type", pattern, "mtp_hybrid_override_pattern") or {}
end

local function waive_idle(c)
  std.config.idle(c)
  c:waive("hidden_dropout", "training only")
  for _, key in ipairs { "rope_theta", "partial_rotary_factor" } do c:waive(key, "this family has no positions") end
  for _, key in ipairs { "norm_eps", "rms_norm_eps" } do c:waive(key, "layer_norm_epsilon is the one that is used") end
  for _, key in ipairs { "num_logits_to_keep", "use_mamba_kernels", "moe_shared_expert_overlap" } do
    c:waive(key, "a setting of another program")
  end
  c:waive("mamba_ssm_cache_dtype", "states are float32 here")
  c:waive("expand", "mamba_num_heads and mamba_head_dim state the width")
end

local function read_experts(c, p)
  local keys = { "n_routed_experts", "num_experts_per_tok", "n_group", "topk_group", "routed_scaling_factor", "norm_topk_prob",
    "moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size", "n_shared_experts" }
  if not std.kinds.any(p.layers, p.where "E") then
    for _, key in ipairs(keys) do c:waive(key, "no layer has experts") end
    return
  end
  c:expect("n_shared_experts", 1)
  std.moe.read_grouped(c, p)
  p.shared_width, p.latent = c:count "moe_shared_expert_intermediate_size", c:count("moe_latent_size", nil)
end

local function experts(x, w, p)
  local idx, weight = std.moe.sigmoid_router(x, w, p)
  local function project(name, y, rows)
    local bias = p.mlp_bias and w(name .. ".bias", { rows }) or nil
    return linear(y, w(name .. ".weight", { rows, y:dim(-1) }), bias)
  end
  local y = p.latent and project("fc1_latent_proj", x, p.latent) or x
  y = std.moe.plain(y, w, p, idx, weight, p.latent)
  if p.latent then y = project("fc2_latent_proj", y, p.hidden) end
  return y + std.mlp.plain(x, w:scope "shared_experts", p, p.shared_width)
end

-- x after a layer of that kind whose scope is l; i: its place in the states.
local function through_layer(x, l, p, batch, i, kind)
  local h, m = std.norm.rms(x, l, "norm", p), l:scope "mixer"
  if kind == "M" then return x + std.mixer.mamba2(h, m, p, batch, i) end
  if kind == "*" then return x + std.attention.gqa(h, m, p, batch, i) end
  return x + (kind == "E" and experts(h, m, p) or std.mlp.plain(h, m, p, p.intermediate))
end

local function log(p, layers)
  return append { layers = layers, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } }
end

local prediction = std.predict.head {
  scope = function(p, w)
    if #p.prediction == 0 then unsupported "the config has no layers that predict further tokens" end
    for _, kind in ipairs(p.prediction) do
      if kind == "M" then unsupported "a Mamba layer among those that predict further tokens" end
      if kind == "E" and not p.experts then unsupported "experts in the layers that predict alone" end
    end
    return w:scope "mtp"
  end,
  enorm = "layers.0.enorm", hnorm = "layers.0.hnorm", join = "layers.0.eh_proj", goes_on_normed = true,
  last = function(p) return "layers." .. #p.prediction - 1 .. ".final_layernorm" end,
  state = function(p)
    return { kv = log(p, function(i) return p.prediction[i + 1] == "*" end) }
  end,
  layer = function(x, l, p, batch)
    for i, kind in ipairs(p.prediction) do x = through_layer(x, l:scope("layers." .. i - 1), p, batch, i - 1, kind) end
    return x
  end,
  embedding = function(p, w) return w("backbone.embeddings.weight", { p.vocab, p.hidden }) end,
}

return architecture {
  matches = { model_type = { "nemotron_h" }, architectures = { "NemotronHForCausalLM" } },

  parameters = function(c)
    waive_idle(c)
    std.config.facts(c)
    local layers, where = layer_kinds(c)
    local p = { layers = layers, where = where, hidden = c:count "hidden_size", vocab = c:count "vocab_size" }
    p.heads, p.kv_heads = c:count "num_attention_heads", c:count "num_key_value_heads"
    p.head_dim = c:any { "head_dim", "attention_head_dim" }
    p.scale, p.eps, p.last_norm = p.head_dim ^ -0.5, c:number "layer_norm_epsilon", "norm_f"
    p.tied, p.mlp_bias = c:bool("tie_word_embeddings", false), c:bool("mlp_bias", false)
    p.act = std.activation(c:string "mlp_hidden_act")
    for _, key in ipairs { "attention_bias", "mamba_proj_bias" } do c:expect(key, false) end
    c:expect("sliding_window", null)
    p.ssm = std.mixer.read_mamba2(c, {
      heads = "mamba_num_heads", dim = "mamba_head_dim", size = "ssm_state_size", act = "mamba_hidden_act",
    })
    p.intermediate = c:count "intermediate_size"
    if not std.kinds.any(layers, where "-") then c:waive("intermediate_size", "no layer is a plain feed-forward") end
    read_experts(c, p)
    p.prediction = prediction_kinds(c)
    return p
  end,

  state = function(p)
    return {
      kv = log(p, p.where "*"),
      mixer = std.mixer.mamba2_state(p.ssm, p.where "M"),
    }
  end,

  forward = function(p, w, batch)
    local model = w:scope "backbone"
    local embedding = model("embeddings.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local kind = p.where "M"(i) and "M" or p.where "*"(i) and "*" or p.where "E"(i) and "E" or "-"
      x = through_layer(x, model:scope("layers." .. i), p, batch, i, kind)
    end
    w:waive_layers("mtp.layers", 0, 63, "extra prediction layers are not run")
    return { logits = std.head.logits(x, w, p, batch, embedding, model) }
  end,

  predict = prediction,
}
