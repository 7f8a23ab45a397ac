-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V4: one key head that is its value too, seen through a window and, in most layers, as rows compressed from groups of
-- tokens, few of them chosen by an indexer (CSA) or all (HCA); hyper-connections; first layers routed by token id.
local std = require "std"

local SLIDING, CHOSEN, HEAVY = table.unpack(std.compressor.kinds)

local function has_kind(p, kind)
  return std.kinds.any(p.layers, function(i) return p.kind(i) == kind end)
end

-- The kind of each layer and the tokens per compressed row. Releases list the latter, also for prediction layers behind.
local function read_kinds(c, p)
  local types, ratios, rates = c:list("layer_types", nil), c:list("compress_ratios", nil), c:object("compress_rates", nil)
  p.rates = { [CHOSEN] = rates and rates:count(CHOSEN, 4) or 4, [HEAVY] = rates and rates:count(HEAVY, 128) or 128 }
  local kinds, names = {}, { [0] = SLIDING, [4] = CHOSEN, [128] = HEAVY }
  if types and ratios then c:waive("compress_ratios", "layer_types states the kind of each layer") end
  local given = types or ratios
  if given and #given < p.layers then error("the kinds of " .. #given .. " layers are given, " .. p.layers .. " wanted") end
  for i = 0, given and #given - 1 or p.layers - 1 do
    local kind = types and types[i] or not given and ((i < 2 or i % 2 == 0) and HEAVY or CHOSEN) or names[ratios[i]]
    if kind ~= SLIDING and not p.rates[kind] then unsupported("layer " .. i .. ": compression " .. tostring(given[i])) end
    kinds[i] = kind
  end
  p.kind = function(i) return kinds[i] end
  for kind in pairs(p.rates) do
    if rates and not has_kind(p, kind) then rates:waive(kind, "no layer compresses so") end
  end
end

local function read_hashed(c, p)
  local types = c:list("mlp_layer_types", nil)
  if types then
    c:waive("num_hash_layers", "mlp_layer_types is given")
    return std.kinds.from_list(types, p.layers, { "hash_moe", "moe" }, "mlp_layer_types") "hash_moe"
  end
  local first = c:int("num_hash_layers", 3)
  return function(i) return i < first end
end

-- The last columns of a head turn: one table for layers that see a window alone, another for the others. p.turn(kind, width).
local function read_ropes(c, p)
  local stated, share = c:count("qk_rope_head_dim", nil), c:number("partial_rotary_factor", nil)
  share = share or stated and stated / p.head_dim or 64 / 512
  local function table_of(name, theta, scaled)
    return (std.rope.from_config(c, {
      dim = p.head_dim, style = "interleaved", layer_type = name, theta = theta, unscaled = not scaled, share = share,
      attention_factor = 1.0,
    }))
  end
  local alone, main = has_kind(p, SLIDING), nil
  if alone then main = table_of("main", c:number("rope_theta", 1e4), false) end
  local other = table_of("compress", c:number("compress_rope_theta", 160000.0), true)
  if not alone then
    local both = c:object("rope_parameters", nil)
    c:waive("rope_theta", "no layer sees a window alone")
    if both then both:waive("main", "no layer sees a window alone") end
  end
  p.rope_dim = math.floor(p.head_dim * share)
  for _, length in ipairs { other.length, stated or p.rope_dim, alone and main.length or nil } do
    if length ~= p.rope_dim then error("the parts of a head that turn contradict: " .. length .. " and " .. p.rope_dim) end
  end
  p.turn = function(kind, width, inverse)
    local at = {}
    for key, value in pairs(kind == SLIDING and main or other) do at[key] = value end
    at.offset, at.inverse = width - p.rope_dim, inverse
    return at
  end
end

local function check_variant(c)
  c:expect("num_key_value_heads", 1)
  c:expect("scoring_func", "sqrtsoftplus")
  c:expect("topk_method", "noaux_tc")
  c:expect("norm_topk_prob", true)
  c:expect("n_shared_experts", 1)
  c:expect("attention_bias", false)
  c:expect("mlp_bias", false)
  c:waive("expert_dtype", "the tensors state their own type")
end

local function feed_forward(x, w, p, batch, i)
  local chosen = p.hashed(i) and cast(gather_rows(w("gate.tid2eid", { p.vocab, p.top_k }), batch.tokens), "i32") or nil
  local idx, weight = std.moe.sigmoid_router(x, w, p, chosen)
  return std.moe.glu(x, w, p, idx, weight) + std.mlp.glu(x, w:scope "shared_experts", p, p.expert_width)
end

return architecture {
  matches = { model_type = { "deepseek_v4" }, architectures = { "DeepseekV4ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    check_variant(c)
    p.tied, p.head, p.window = c:bool("tie_word_embeddings", false), "head", c:count("sliding_window", 128)
    p.q_rank, p.o_groups, p.o_rank = c:count "q_lora_rank", c:count("o_groups", 8), c:count("o_lora_rank", 1024)
    read_kinds(c, p)
    read_ropes(c, p)
    p.index = { heads = c:count("index_n_heads", 64), dim = c:count("index_head_dim", 128), top = c:count("index_topk", 512) }
    std.hyper.parameters(c, p)
    p.combine = std.mlp.clamped(std.activation(c:string("hidden_act", "silu")), c:number("swiglu_limit", 10.0))
    p.experts, p.top_k, p.groups = c:any { "n_routed_experts", "num_local_experts" }, c:count "num_experts_per_tok", 1
    p.norm_topk, p.route_scale, p.route_bias = true, c:number("routed_scaling_factor", 1.5), "gate.bias"
    p.route_score = function(y) return sqrt(max(y, 0) + log1p(exp(-abs(y)))) end
    p.expert_width, p.expert_names = c:count "moe_intermediate_size", { "w1", "w3", "w2" }
    p.mlp_names = { gate_proj = "w1", up_proj = "w3", down_proj = "w2" }
    p.hashed = read_hashed(c, p)
    p.prediction_layers = c:int("num_nextn_predict_layers", 1)
    c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
    return p
  end,

  state = std.compressor.state,

  forward = function(p, w, batch)
    local model = w:has "model.norm.weight" and w:scope "model" or w  -- the library puts the layers under model
    local embedding = model(model:has "embed_tokens.weight" and "embed_tokens.weight" or "embed.weight", { p.vocab, p.hidden })
    local streams = std.hyper.spread(gather_rows(embedding, batch.tokens), p)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      streams = std.hyper.apply(streams, l, "hc_attn", p, function(x)
        return std.compressor.attention(std.norm.rms(x, l, "attn_norm", p), l:scope "attn", p, batch, i)
      end)
      streams = std.hyper.apply(streams, l, "hc_ffn", p, function(x)
        return feed_forward(std.norm.rms(x, l, "ffn_norm", p), l:scope "ffn", p, batch, i)
      end)
    end
    if p.prediction_layers > 0 then
      w:waive_layers("mtp", 0, p.prediction_layers - 1, "extra prediction layers are not run")
    end
    local x = std.hyper.collapse(streams, model, model:has "hc_head.hc_fn" and "hc_head.hc_" or "hc_head_", p)
    return { logits = std.head.logits(x, w, p, batch, embedding, model) }
  end,

  render = function(chat, write) return require "std.chat_dsml_v4" (chat, write) end,
}
