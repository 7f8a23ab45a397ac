-- SPDX-License-Identifier: Apache-2.0
-- Indexers: small attentions of their own that choose which keys the main attention sees.
local norm = require "std.norm"
local indexer = {}

-- p.index from the config: heads, dim, top, and the rope of the indexer (its first rope_dim columns).
-- options: style (of the rope, where the config has no indexer_rope_interleave).
function indexer.parameters(c, p, options)
  local interleaved = c:bool("indexer_rope_interleave", options.style == "interleaved")
  local turn = {}
  for key, value in pairs(p.rope) do turn[key] = value end
  turn.style, turn.offset = interleaved and "interleaved" or "half", 0
  p.index = { heads = c:count "index_n_heads", dim = c:count "index_head_dim", top = c:count "index_topk", rope = turn }
  if p.index.dim < p.rope_dim then error("index_head_dim " .. p.index.dim .. " is below qk_rope_head_dim") end
end

-- Which layers choose for themselves ("full"); the others take the choice of the last one that did. A list, or its
-- pattern ("FSSS…"), or every freq-th layer from offset - 1 on.
function indexer.full_layers(c, layers)
  local full = {}
  local types, pattern = c:list("indexer_types", nil), nil
  if types then
    c:waive("index_topk_pattern", "indexer_types is given")
  else
    pattern = c:string("index_topk_pattern", nil)
  end
  if types or pattern then
    c:waive("index_topk_freq", "the layers are listed")
    c:waive("index_skip_topk_offset", "the layers are listed")
    local count = types and #types or #pattern
    if count ~= layers then error("indexers of " .. count .. " layers, " .. layers .. " wanted") end
  end
  local words = { full = true, shared = false, F = true, S = false }
  local freq, offset
  if not types and not pattern then
    freq, offset = c:count("index_topk_freq", 1), c:int("index_skip_topk_offset", 2)
  end
  for i = 0, layers - 1 do
    local word = types and types[i] or pattern and pattern:sub(i + 1, i + 1)
    if word then
      full[i] = words[word]
      if full[i] == nil then error("an indexer of type '" .. word .. "'") end
    else
      full[i] = math.max(i - offset + 1, 0) % freq == 0
    end
  end
  if not full[0] then error "the first layer has no indexer of its own" end
  return full
end

-- The lightning indexer (DeepSeek-V3.2): the p.index.top rows with the largest sum over heads of weight relu(q·k), per
-- query. x: the layer's input; low: the normed low-rank queries; state: batch.state.index[layer].
function indexer.lightning(x, low, w, p, batch, state)
  local index = p.index
  local function turned(y) return rope(y, batch.positions, index.rope) end
  local q = linear(low, w("wq_b.weight", { index.heads * index.dim, p.q_rank }))
  local k = layer_norm(linear(x, w("wk.weight", { index.dim, p.hidden })), w("k_norm.weight", { index.dim }),
    w("k_norm.bias", { index.dim }), { eps = 1e-6 })
  local weights = linear(x, w("weights_proj.weight", { index.heads, p.hidden }), { compute = "f32" })
  return index_scores {
    q = turned(reshape(q, "T", index.heads, index.dim)),
    state = state:append { k = turned(reshape(k, "T", 1, index.dim)) },
    weights = weights * (index.dim * index.heads) ^ -0.5, top = index.top,
  }
end

-- Block selection (MiniMax M3): per head, and so per kv head, the p.index.top blocks of p.index.block rows whose best row has
-- the largest q·k, the first p.index.first and the last p.index.recent among them. `prefix`: what the names of its matrices
-- begin with.
function indexer.blocks(x, w, p, batch, state, prefix)
  local index = p.index
  local function turned(name, heads)
    local y = linear(x, w(prefix .. name .. "_proj.weight", { heads * index.dim, p.hidden }))
    return rope(norm.rms(reshape(y, "T", heads, index.dim), w, prefix .. name .. "_norm", p), batch.positions, p.rope)
  end
  return index_scores {
    q = turned("q", index.heads), state = state:append { k = turned("k", 1) }, top = index.top, block = index.block,
    recent = index.recent, first = index.first, per_head = true, relu = false,
  }
end

-- Segments of attend_segments for a choice among groups of `rate` tokens that are whole (pooled index keys in a log at that
-- rate): the named groups of the log `seen`, and the tokens of the group that is not whole yet (QSA, GLM-5.3's k-pools).
-- seen: { state, key, value }; groups: i32[T, 1 or kv heads, K] from index_scores over the pooled keys.
function indexer.groups_and_tail(seen, groups, rate)
  local named, tail = { select = groups, block = rate }, {
    window = rate, mask = function(qpos, kpos) return le(floor((qpos + 1) / rate) * rate, kpos) end,
  }
  for key, value in pairs(seen) do named[key], tail[key] = value, value end
  return { named, tail }
end

return indexer
