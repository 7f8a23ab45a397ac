-- SPDX-License-Identifier: Apache-2.0
-- The block of DeepSeek V3 and its descendants: latent attention, sigmoid routing in groups, shared experts, first layers
-- dense.
local activation = require "std.activation"
local attention = require "std.attention"
local config = require "std.config"
local head = require "std.head"
local mlp = require "std.mlp"
local moe = require "std.moe"
local norm = require "std.norm"
local predict = require "std.predict"
local rope_tables = require "std.rope"
local deepseek = {}

-- Sizes of a head under the names that different writers use; all must agree with the two parts.
local function check_head_sizes(c, nope, rope_dim)
  local size = c:count("head_dim", nil)
  if size and size ~= rope_dim and size ~= nope and size ~= nope + rope_dim then
    error("head_dim: found " .. size .. ", wanted qk_rope_head_dim (" .. rope_dim .. ")")
  end
  local qk = c:count("qk_head_dim", nil)
  if qk and qk ~= nope + rope_dim then error("qk_head_dim: found " .. qk .. ", wanted " .. nope + rope_dim) end
end

local function waive_training(c)
  for _, key in ipairs { "aux_loss_alpha", "seq_aux" } do c:waive(key, "training only") end
  c:waive("ep_size", "how another program spread the experts")
  c:waive("num_nextn_predict_layers", "extra prediction layers are not run")
  c:waive("index_share_for_mtp_iteration", "extra prediction layers are not run")
end

-- p.sparse[i]: whether layer i has experts. mlp_layer_types lists it, else the first first_k_dense_replace are dense.
local function sparse_layers(c, p, default_dense)
  local types = c:list("mlp_layer_types", nil)
  if types then
    c:waive("first_k_dense_replace", "mlp_layer_types is given")
    if #types ~= p.layers then error("mlp_layer_types has " .. #types .. " layers, " .. p.layers .. " wanted") end
  end
  local first = types and 0 or c:int("first_k_dense_replace", default_dense)
  local sparse, any_dense = {}, false
  for i = 0, p.layers - 1 do
    sparse[i] = i >= first
    if types then sparse[i] = types[i] == "sparse" end
    if types and not sparse[i] and types[i] ~= "dense" then error("mlp_layer_types: '" .. types[i] .. "'") end
    any_dense = any_dense or not sparse[i]
  end
  p.sparse = sparse
  if not any_dense then c:waive("intermediate_size", "no layer is dense") end
end

-- options: default_dense (first_k_dense_replace where the config has none), needs_low_queries (q_lora_rank may not be null).
function deepseek.parameters(c, options)
  local nope, rope_dim = c:count "qk_nope_head_dim", c:count "qk_rope_head_dim"
  check_head_sizes(c, nope, rope_dim)
  waive_training(c)
  local p = config.decoder(c, nope + rope_dim)
  if p.kv_heads ~= p.heads then unsupported("latent attention with " .. p.kv_heads .. " of " .. p.heads .. " kv heads") end
  p.tied, p.bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
  p.act, p.mlp_bias = activation(c:string "hidden_act"), c:bool("mlp_bias", false)
  p.nope, p.rope_dim, p.v_dim = nope, rope_dim, c:count "v_head_dim"
  p.q_rank, p.kv_rank, p.inner_eps = c:count("q_lora_rank", nil), c:count "kv_lora_rank", 1e-6
  if options.needs_low_queries and not p.q_rank then error "q_lora_rank: the indexer needs it" end
  local rotary
  p.rope, rotary = rope_tables.from_config(c, {
    dim = rope_dim, style = c:bool("rope_interleave", true) and "interleaved" or "half", mla = true,
  })
  if rotary.mscale_all_dim then p.scale = p.scale * rope_tables.yarn_mscale(rotary.factor, rotary.mscale_all_dim) ^ 2 end

  moe.read_grouped(c, p)
  c:expect("moe_layer_freq", 1)
  c:expect("moe_router_dtype", "float32")
  sparse_layers(c, p, options.default_dense)
  p.prediction_layers = c:int("num_nextn_predict_layers", 0)
  return p
end

-- x after a layer whose scope is l. sparse: whether it has experts; i: its place in batch.state.kv.
local function through_layer(x, l, p, batch, i, sparse, select)
  local block = l:scope "mlp"
  x = x + attention.mla(norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i, select)
  local h = norm.rms(x, l, "post_attention_layernorm", p)
  if not sparse then return x + mlp.glu(h, block, p) end
  x = x + moe.glu(h, block, p, moe.sigmoid_router(h, block, p))
  if p.shared > 0 then x = x + mlp.glu(h, block:scope "shared_experts", p, p.expert_width * p.shared) end
  return x
end

-- select(x, low, scope, layer): the rows that layer's queries see (std.attention.mla), or nil for all.
function deepseek.forward(p, w, batch, select)
  local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
  local x = gather_rows(embedding, batch.tokens)
  for i = 0, p.layers - 1 do
    x = through_layer(x, w:scope("model.layers." .. i), p, batch, i, p.sparse[i], select)
  end
  head.skip_prediction_layers(w, p.layers, p.prediction_layers)
  return { logits = head.logits(x, w, p, batch, embedding) }
end

function deepseek.state(p) return append { latent = { 1, p.kv_rank + p.rope_dim } } end

-- The layer behind the last, which predicts: sparse as that is. more(p): what it has of states beside deepseek.state;
-- select_of(p, batch): as forward's select.
function deepseek.predicts(more, select_of)
  local function state(p)
    local states = more and more(p) or {}
    states.kv = deepseek.state(p)
    return states
  end
  return predict.nextn(state, function(x, l, p, batch)
    return through_layer(x, l, p, batch, 0, p.sparse[p.layers - 1], select_of and select_of(p, batch))
  end)
end

return deepseek
