-- SPDX-License-Identifier: Apache-2.0
-- Hyper-connections held to doubly stochastic matrices (mHC, arXiv 2512.24880): p.hyper.streams residual streams [T, streams,
-- hidden]. A block reads one weighted sum of them; what it gives is added to each by a weight, onto a mixture of all.
local hyper = {}

-- p.hyper from the config.
function hyper.parameters(c, p)
  p.hyper = { streams = c:count("hc_mult", 4), turns = c:count("hc_sinkhorn_iters", 20), eps = c:number("hc_eps", 1e-6) }
end

-- The same row in every stream.
function hyper.spread(x, p)
  local rows = {}
  for i = 1, p.hyper.streams do rows[i] = x end
  rows[#rows + 1] = { axis = 1 }
  return stack(table.unpack(rows))
end

local function columns(y, start, stop) return slice(y, { axis = y:rank() - 1, start = start, stop = stop }) end

local function projected(streams, w, name, p, rows)
  local all = p.hyper.streams * p.hidden
  local flat = rms_norm(reshape(streams, "T", all), { eps = p.eps })
  return linear(flat, w(name, { rows, all }), { compute = "f32" })
end

local function collapse(streams, weight, p)
  return reduce(reshape(weight, "T", p.hyper.streams, 1) * streams, { op = "sum", axis = 1, keep = false })
end

-- A matrix per token [T, n, n] whose rows and columns sum to one, by Sinkhorn's iteration.
local function balanced(m, turns, eps)
  local function normed(y, axis) return y / (reduce(y, { op = "sum", axis = axis }) + eps) end
  return loop(turns - 1, function(y) return normed(normed(y, 2), 1) end, normed(m, 1))
end

-- The streams after block(x), where x is their weighted sum. name .. "_fn", "_base" and "_scale": its tensors.
function hyper.apply(streams, w, name, p, block)
  local n, eps = p.hyper.streams, p.hyper.eps
  local count = n * (n + 2)
  local mixes, base = projected(streams, w, name .. "_fn", p, count), w(name .. "_base", { count })
  local scale = w(name .. "_scale", { 3 })
  local function part(i, start, stop)
    return columns(mixes, start, stop) * columns(scale, i, i + 1) + columns(base, start, stop)
  end
  local before, after = sigmoid(part(0, 0, n)) + eps, 2 * sigmoid(part(1, n, 2 * n))
  local mixture = balanced(softmax(reshape(part(2, 2 * n, count), "T", n, n)) + eps, p.hyper.turns, eps)
  local y = block(collapse(streams, before, p))
  return reshape(after, "T", n, 1) * reshape(y, "T", 1, p.hidden) + einsum(mixture, streams, { equation = "tij,tid->tjd" })
end

-- One row from the streams, for the head. name .. "fn", "base" and "scale": its tensors.
function hyper.collapse(streams, w, name, p)
  local n = p.hyper.streams
  local mixes = projected(streams, w, name .. "fn", p, n)
  local weight = sigmoid(mixes * w(name .. "scale", { 1 }) + w(name .. "base", { n })) + p.hyper.eps
  return collapse(streams, weight, p)
end

return hyper
