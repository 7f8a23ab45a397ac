-- SPDX-License-Identifier: Apache-2.0
-- Compression of keys: each group of `rate` tokens gives one row, a softmax over the group's gates weighing its values, column
-- by column. With overlap a token has two series of values and gates, the first for the group after its own.
local norm = require "std.norm"
local compressor = {}

local SLIDING, CHOSEN, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
compressor.kinds = { SLIDING, CHOSEN, HEAVY }  -- a window alone; and rows that an indexer names; and all rows

-- The components that a group waits in, for a fixed state; `prefix` tells several compressors of a layer apart.
function compressor.waiting(state, prefix, rate, width, overlap)
  local size = overlap and { 2 * rate, 2 * width } or { rate, width }
  state[prefix .. "kv"], state[prefix .. "gate"] = size, size
  return state
end

-- Of [G, 2 rate, 2 width]: the first series of the group before, then the second of the group itself.
local function two_series(y, rate, width)
  local function part(row, column)
    local rows = slice(y, { axis = 1, start = row, stop = row + rate })
    return slice(rows, { axis = 2, start = column, stop = column + width })
  end
  return concat(part(0, 0), part(rate, width), { axis = 1 })
end

-- Rows [G<rate>, 1, width] of the groups that the batch completes, normed and turned at their first token. options: state
-- (the fixed one), prefix, rate, width, overlap, rope.
function compressor.rows(x, w, p, options)
  local rate, width, overlap = options.rate, options.width, options.overlap or false
  local total = overlap and 2 * width or width
  local function groups(name, component, fill)
    return window_emit {
      x = linear(x, w(name .. ".weight", { total, p.hidden })), state = options.state, component = options.prefix .. component,
      rate = rate, overlap = overlap, fill = fill,
    }
  end
  local values, positions = groups("wkv", "kv", 0.0)
  local bias = w("ape", { rate, total })
  if overlap then bias = concat(bias, bias, { axis = 0 }) end
  local gates = groups("wgate", "gate", -math.huge) + bias
  if overlap then values, gates = two_series(values, rate, width), two_series(gates, rate, width) end
  local weights = softmax(transpose(gates, 0, 2, 1))
  local row = norm.rms(reduce(weights * transpose(values, 0, 2, 1), { op = "sum", keep = false }), w, "norm", p)
  return rope(reshape(row, row:dim(0), 1, width), positions, options.rope)
end

-- Compressed rows of a layer as a second segment, all of them or those that the indexer names.
local function compressed(x, low, w, p, batch, i)
  local kind = p.kind(i)
  local chosen, rate = kind == CHOSEN, p.rates[kind]
  local state = chosen and batch.state.waiting[i] or batch.state.heavy_waiting[i]
  local log = chosen and batch.state.chosen[i] or batch.state.heavy[i]
  local function rows(scope, prefix, width)
    return compressor.rows(x, scope, p, {
      state = state, prefix = prefix, rate = rate, width = width, overlap = chosen, rope = p.turn(kind, width),
    })
  end
  log = log:append { kv = rows(w:scope "compressor", "", p.head_dim) }
  if not chosen then return { state = log, key = "kv", value = "kv" } end
  local own, heads, dim = w:scope "indexer", p.index.heads, p.index.dim
  local q = reshape(linear(low, own("wq_b.weight", { heads * dim, p.q_rank })), "T", heads, dim)
  local weights = linear(x, own("weights_proj.weight", { heads, p.hidden }), { compute = "f32" })
  return { state = log, key = "kv", value = "kv", select = index_scores {
    q = rope(q, batch.positions, p.turn(kind, dim)), top = p.index.top, weights = weights * (heads * dim) ^ -0.5,
    state = batch.state.index[i]:append { k = rows(own:scope "compressor", "index_", dim) },
  } }
end

-- The attention of DeepSeek V4: one key head whose rows are values too, in a window of their own and compressed. p: heads,
-- head_dim, hidden, q_rank, scale, window, o_groups and o_rank (heads in groups are narrowed apart, then joined), index (heads, dim, top),
-- rates by kind, kind(layer), turn(kind, width, inverse): attributes of rope over the last columns.
function compressor.attention(x, w, p, batch, i)
  local kind, heads, dim = p.kind(i), p.heads, p.head_dim
  local function project(name, y, rows) return linear(y, w(name .. ".weight", { rows, y:dim(-1) })) end
  local low = norm.rms(project("wq_a", x, p.q_rank), w, "q_norm", p)
  local q = rms_norm(reshape(project("wq_b", low, heads * dim), "T", heads, dim), { eps = p.eps })
  local kv_norm = w:has "norm.weight" and "norm" or "kv_norm"  -- the library writes the former
  local kv = reshape(norm.rms(project("wkv", x, dim), w, kv_norm, p), "T", 1, dim)
  local log = batch.state.kv[i]:append { kv = rope(kv, batch.positions, p.turn(kind, dim)) }
  local segments = { { state = log, key = "kv", value = "kv", window = p.window } }
  if kind ~= SLIDING then segments[2] = compressed(x, low, w, p, batch, i) end
  local y = attend_segments {
    q = rope(q, batch.positions, p.turn(kind, dim)), scale = p.scale, sinks = w("attn_sink", { heads }), segments = segments,
  }
  y = rope(y, batch.positions, p.turn(kind, dim, true))  -- values were turned as keys are
  local width = heads * dim // p.o_groups
  local into = reshape(w("wo_a.weight", { p.o_groups * p.o_rank, width }), p.o_groups, p.o_rank, width)
  y = batched_linear(reshape(y, "T", p.o_groups, width), into)
  return project("wo_b", reshape(y, "T", p.o_groups * p.o_rank), p.hidden)
end

-- The states of that attention.
function compressor.state(p)
  local function is(kind) return function(i) return p.kind(i) == kind end end
  local chosen, heavy = is(CHOSEN), is(HEAVY)
  local kv, near, far = { 1, p.head_dim }, p.rates[CHOSEN], p.rates[HEAVY]
  local waiting = compressor.waiting({ layers = chosen }, "", near, p.head_dim, true)
  return {
    kv = append { window = p.window, kv = kv },
    chosen = rate_log { layers = chosen, rate = near, kv = kv },
    index = rate_log { layers = chosen, rate = near, k = { 1, p.index.dim } },
    waiting = fixed(compressor.waiting(waiting, "index_", near, p.index.dim, true)),
    heavy = rate_log { layers = heavy, rate = far, kv = kv },
    heavy_waiting = fixed(compressor.waiting({ layers = heavy }, "", far, p.head_dim)),
  }
end

return compressor
