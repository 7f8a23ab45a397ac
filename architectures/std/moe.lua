-- SPDX-License-Identifier: Apache-2.0
-- Mixtures of experts: routers give indices and weights [T, k], experts apply them.
local moe = {}

-- softmax over all experts, the k best; renormalised to sum to one when p.norm_topk is set.
function moe.softmax_router(x, w, p)
  local scores = softmax(linear(x, w("gate.weight", { p.experts, p.hidden })))
  local weight, idx = top_k(scores, { k = p.top_k })
  if p.norm_topk then weight = weight / reduce(weight, { op = "sum" }) end
  return idx, weight
end

-- Sigmoid scores; a correction bias takes part in the choice alone. Experts lie in p.groups groups, of which the p.top_groups
-- with the largest sum of their two best choices stay.
function moe.sigmoid_router(x, w, p)
  local scores = sigmoid(linear(x, w("gate.weight", { p.experts, p.hidden })))
  local choice = scores + w("gate.e_score_correction_bias", { p.experts })
  if p.groups > 1 then
    local grouped = reshape(choice, "T", p.groups, p.experts // p.groups)
    local best = top_k(grouped, { k = 2 })
    local _, kept = top_k(reduce(best, { op = "sum", keep = false }), { k = p.top_groups })
    local mask = reshape(index_mask(kept, { size = p.groups }), "T", p.groups, 1)
    choice = reshape(map(function(m, s) return where(m, s, -3e38) end, mask, grouped), "T", p.experts)
  end
  local _, idx = top_k(choice, { k = p.top_k })
  local weight = gather_last(scores, idx)
  if p.norm_topk then weight = weight / (reduce(weight, { op = "sum" }) + 1e-20) end
  return idx, weight * p.route_scale
end

-- Gated experts stored one by one: down(act(gate(x)) * up(x)) of width p.expert_width.
function moe.glu(x, w, p, idx, weight)
  local act = p.act
  local function weights(name, rows, columns)
    return w:stack("experts.{}." .. name .. ".weight", p.experts, { rows, columns })
  end
  return experts {
    x = x, idx = idx, weight = weight, num_experts = p.experts,
    stacked = {
      weights("gate_proj", p.expert_width, p.hidden), weights("up_proj", p.expert_width, p.hidden),
      weights("down_proj", p.hidden, p.expert_width),
    },
    body = function(rows, gate, up, down)
      return linear(map(function(g, u) return act(g) * u end, linear(rows, gate), linear(rows, up)), down)
    end,
  }
end

return moe
