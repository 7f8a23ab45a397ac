-- SPDX-License-Identifier: Apache-2.0
-- Feed-forward blocks.
local mlp = {}

-- down(act(gate(x)) * up(x)); p.intermediate unless another width is given.
function mlp.glu(x, w, p, width)
  width = width or p.intermediate
  local function project(name, input, rows, columns)
    local bias = p.mlp_bias and w(name .. ".bias", { rows }) or nil
    return linear(input, w(name .. ".weight", { rows, columns }), bias)
  end
  local gate = project("gate_proj", x, width, p.hidden)
  local up = project("up_proj", x, width, p.hidden)
  local act = p.act
  return project("down_proj", map(function(g, u) return act(g) * u end, gate, up), p.hidden, width)
end

return mlp
