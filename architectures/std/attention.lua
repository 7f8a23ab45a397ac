-- SPDX-License-Identifier: Apache-2.0
-- Attention templates. Each appends to the cache of its layer and attends to it.
local norm = require "std.norm"
local attention = {}

-- Columns start .. start + width - 1 of [T, n].
local function columns(y, start, width) return slice(y, { axis = 1, start = start, stop = start + width }) end

-- q, k and v before they are split into heads.
local function projections(x, w, p)
  local q, k, v = p.heads * p.head_dim, p.kv_heads * p.head_dim, p.kv_heads * (p.v_dim or p.head_dim)
  if p.gated then q = 2 * q end
  local function project(name, rows)
    local bias = p.qkv_bias and w(name .. ".bias", { rows }) or nil
    return linear(x, w(name .. ".weight", { rows, p.hidden }), bias)
  end
  if not p.fused_qkv then return project("q_proj", q), project("k_proj", k), project("v_proj", v) end
  local y = project("qkv_proj", q + k + v)
  return columns(y, 0, q), columns(y, q, k), columns(y, q + k, v)
end

-- Grouped-query attention. p: heads, kv_heads, head_dim, scale, and where the family has it
--   v_dim            the width of a value head, if it is not head_dim
--   gated            each head of q_proj has twice its rows: q, then a gate; sigmoid(gate) multiplies what attention gives
--   o_proj           another name of the last matrix
--   qkv_bias, o_bias, fused_qkv (one matrix qkv_proj, the rows of q, k and v in this order)
--   qk_norm          "head": a norm on each head of q and k; "whole": one over all heads of q, and one of k; "turned": on each
--                    head after the rope; q_norm, k_norm: other names of theirs
--   rope             attributes of rope, or a function of the layer; nil: no positions
--   adjust           function(y, name, layer): what else is done to "q", "k" and "v" [T, heads, width], last
--   window, chunk    functions of the layer; 0: none
--   state            the name of the state, if it is not kv
--   select           function(x, w, layer): i32[T, kv_heads, k], the only blocks of p.select_block rows that each query sees, or
--                    nil for all rows
--   sinks (true, or the name of the tensor)
--   score            function(s, q, k, head): what becomes of the score s of key position k for query position q, traced
function attention.gqa(x, w, p, batch, layer)
  w:waive("rotary_emb.inv_freq", "a buffer of old files; the rope table comes from the config")
  local rope_of = p.rope
  if type(rope_of) == "function" then rope_of = rope_of(layer) end

  local function turned(y, heads, norm_name)
    if p.qk_norm == "whole" then y = norm.rms(y, w, norm_name, p) end
    y = reshape(y, "T", heads, p.head_dim)
    if p.qk_norm == "head" then y = norm.rms(y, w, norm_name, p) end
    if rope_of then y = rope(y, batch.positions, rope_of) end
    if p.qk_norm == "turned" then y = norm.rms(y, w, norm_name, p) end
    return y
  end
  local v_dim, adjust = p.v_dim or p.head_dim, p.adjust or function(y) return y end
  local q, k, v = projections(x, w, p)
  local gate
  if p.gated then
    local both = reshape(q, "T", p.heads, 2 * p.head_dim)
    q = slice(both, { axis = 2, start = 0, stop = p.head_dim })
    gate = slice(both, { axis = 2, start = p.head_dim, stop = 2 * p.head_dim })
  end
  q = adjust(turned(q, p.heads, p.q_norm or "q_norm"), "q", layer)
  k = adjust(turned(k, p.kv_heads, p.k_norm or "k_norm"), "k", layer)
  v = adjust(reshape(v, "T", p.kv_heads, v_dim), "v", layer)

  local seen = {
    state = batch.state[p.state or "kv"][layer]:append { k = k, v = v },
    window = p.window and p.window(layer) or 0, chunk = p.chunk and p.chunk(layer) or nil,
    select = p.select and p.select(x, w, layer) or nil,
  }
  local how = {
    q = q, scale = p.scale, sinks = p.sinks and w(p.sinks == true and "sinks" or p.sinks, { p.heads }) or nil,
    score = p.score,
  }
  local y
  if seen.select then
    seen.block, how.segments = p.select_block, { seen }
    y = attend_segments(how)
  else
    for key, value in pairs(seen) do how[key] = value end
    y = attend(how)
  end
  local width, last = p.heads * v_dim, p.o_proj or "o_proj"
  local bias = p.o_bias and w(last .. ".bias", { p.hidden }) or nil
  y = reshape(y, "T", width)
  if gate then y = y * sigmoid(reshape(gate, "T", width)) end
  return linear(y, w(last .. ".weight", { p.hidden, width }), bias)
end

-- A score function that keeps scores between -cap and cap; none where there is no cap.
function attention.softcap(cap) return cap and function(s) return cap * tanh(s / cap) end or nil end

-- Latent attention (MLA), absorbed: the cache holds one row per token, the normed latent and the rotary key, and queries
-- are carried into the latent space by the key part of kv_b_proj; its value part carries the result back out.
-- p: heads, hidden, q_rank (nil: no low rank for queries), kv_rank, nope, rope_dim, v_dim, scale, bias, rope (attributes
-- over a slice of rope_dim columns; nil: no positions), gate (the name of a matrix whose sigmoid multiplies the heads' result).
-- The two inner norms have an eps of their own. select(x, low, w, layer), if given: i32[T, 1, k], the rows that each query
-- sees, from the layer's input and its normed low-rank queries.
function attention.mla(x, w, p, batch, layer, select)
  w:waive("rotary_emb.inv_freq", "a buffer of old files; the rope table comes from the config")
  local function project(name, input, rows, columns, with_bias)
    local bias = with_bias and p.bias and w(name .. ".bias", { rows }) or nil
    return linear(input, w(name .. ".weight", { rows, columns }), bias)
  end
  local function turned(y, offset)
    if not p.rope then return y end
    local at = {}
    for key, value in pairs(p.rope) do at[key] = value end
    at.offset = offset
    return rope(y, batch.positions, at)
  end

  local q_width = p.heads * (p.nope + p.rope_dim)
  local q, low
  if p.q_rank then
    low = norm.rms(project("q_a_proj", x, p.q_rank, p.hidden, true), w, "q_a_layernorm", p, p.inner_eps)
    q = project("q_b_proj", low, q_width, p.q_rank)
  else
    q = project("q_proj", x, q_width, p.hidden)
  end
  q = turned(reshape(q, "T", p.heads, p.nope + p.rope_dim), p.nope)

  local row = p.kv_rank + p.rope_dim
  local kv = project("kv_a_proj_with_mqa", x, row, p.hidden, true)
  local latent = norm.rms(slice(kv, { axis = 1, start = 0, stop = p.kv_rank }), w, "kv_a_layernorm", p, p.inner_eps)
  local k_rope = turned(reshape(slice(kv, { axis = 1, start = p.kv_rank, stop = row }), "T", 1, p.rope_dim), 0)
  local cache = batch.state.kv[layer]:append {
    latent = concat(reshape(latent, "T", 1, p.kv_rank), k_rope, { axis = 2 }),
  }

  local into, out = attention.split_kv_b(w, p)
  local q_latent = batched_linear(slice(q, { axis = 2, start = 0, stop = p.nope }), into)
  local q_rope = slice(q, { axis = 2, start = p.nope, stop = p.nope + p.rope_dim })
  q = concat(q_latent, q_rope, { axis = 2 })
  local y
  if select then
    y = attend_segments {
      q = q, scale = p.scale, value_width = p.kv_rank,
      segments = { { state = cache, key = "latent", value = "latent", select = select(x, low, w, layer) } },
    }
  else
    y = attend { q = q, state = cache, scale = p.scale, key = "latent", value = "latent", value_width = p.kv_rank }
  end
  y = reshape(batched_linear(y, out), "T", p.heads * p.v_dim)
  if p.gate then y = y * sigmoid(project(p.gate, x, p.heads * p.v_dim, p.hidden)) end
  return project("o_proj", y, p.hidden, p.heads * p.v_dim, true)
end

-- The key part [heads, kv_rank, nope] and the value part [heads, v_dim, kv_rank] of kv_b_proj. GGUF files may hold the two
-- apart, the key part transposed already.
function attention.split_kv_b(w, p)
  if w:has "k_b_proj.weight" then
    return w("k_b_proj.weight", { p.heads, p.kv_rank, p.nope }), w("v_b_proj.weight", { p.heads, p.v_dim, p.kv_rank })
  end
  local rows = p.nope + p.v_dim
  local both = reshape(w("kv_b_proj.weight", { p.heads * rows, p.kv_rank }), p.heads, rows, p.kv_rank)
  local keys = slice(both, { axis = 1, start = 0, stop = p.nope })
  return transpose(keys, 0, 2, 1), slice(both, { axis = 1, start = p.nope, stop = rows })
end

return attention
