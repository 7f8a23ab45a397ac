-- SPDX-License-Identifier: Apache-2.0
-- Feed-forward blocks.
local mlp, plain_names = {}, {}

-- act(gate) * up, or what p.combine makes of both.
function mlp.gated(p, gate, up)
  local act = p.act
  return map(p.combine or function(g, u) return act(g) * u end, gate, up)
end

-- Forms of p.combine. gpt-oss: min(g, limit) sigmoid(alpha g) (clamp(u) + 1); clamped: act(min(g, limit)) clamp(u), where clamp
-- bounds to -limit .. limit.
function mlp.gpt_oss(alpha, limit)
  return function(g, u)
    g = min(g, limit)
    return g * sigmoid(alpha * g) * (max(min(u, limit), -limit) + 1)
  end
end

function mlp.clamped(act, limit)
  return function(g, u) return act(min(g, limit)) * max(min(u, limit), -limit) end
end

-- down(act(up(x))), without a gate.
function mlp.plain(x, w, p, width)
  local function project(name, input, rows, columns)
    return linear(input, w(name .. ".weight", { rows, columns }), p.mlp_bias and w(name .. ".bias", { rows }) or nil)
  end
  return project("down_proj", map(p.act, project("up_proj", x, width, p.hidden)), p.hidden, width)
end

-- down(act(gate(x)) * up(x)); p.intermediate unless another width is given. p.mlp_bias: all three have one;
-- p.fused_gate_up: gate and up are the two halves of the rows of gate_up_proj; p.mlp_names: other names of the matrices.
function mlp.glu(x, w, p, width)
  width = width or p.intermediate
  local names = p.mlp_names or plain_names
  local function project(name, input, rows, columns)
    name = names[name] or name
    local bias = p.mlp_bias and w(name .. ".bias", { rows }) or nil
    return linear(input, w(name .. ".weight", { rows, columns }), bias)
  end
  local gate, up
  if p.fused_gate_up then
    local both = project("gate_up_proj", x, 2 * width, p.hidden)
    gate = slice(both, { axis = 1, start = 0, stop = width })
    up = slice(both, { axis = 1, start = width, stop = 2 * width })
  else
    gate, up = project("gate_proj", x, width, p.hidden), project("up_proj", x, width, p.hidden)
  end
  return project("down_proj", mlp.gated(p, gate, up), p.hidden, width)
end

return mlp
