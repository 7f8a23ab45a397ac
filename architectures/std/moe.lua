-- SPDX-License-Identifier: Apache-2.0
-- Mixtures of experts: routers give indices and weights [T, k], experts apply them.
local kinds, mlp = require "std.kinds", require "std.mlp"
local moe = {}

-- Into p what DeepSeek V3 and its followers state about sigmoid routing in groups, the experts and the dense layers before
-- them. Keys that a family lacks have their neutral value.
function moe.read_grouped(c, p)
  c:expect("scoring_func", "sigmoid")
  c:expect("topk_method", "noaux_tc")
  p.experts, p.top_k = c:any { "n_routed_experts", "num_local_experts" }, c:count "num_experts_per_tok"
  p.groups, p.top_groups = c:count("n_group", 1), c:count("topk_group", 1)
  if p.experts % p.groups ~= 0 or p.top_groups > p.groups then
    error(p.experts .. " experts in " .. p.groups .. " groups, of which " .. p.top_groups .. " stay")
  end
  p.route_scale, p.norm_topk = c:number("routed_scaling_factor", 1.0), c:bool("norm_topk_prob", true)
  p.expert_width, p.shared = c:count "moe_intermediate_size", c:int("n_shared_experts", 0)
  p.intermediate = c:count "intermediate_size"
end

-- Which layers have experts (Qwen): those that mlp_only_layers does not list, and only every decoder_sparse_step-th. Into p the
-- width of the dense ones. default: the dense layers where the config lists none.
function moe.sparse_layers(c, p, default)
  local step, dense = c:count("decoder_sparse_step", 1), {}
  local listed = c:list("mlp_only_layers", nil)
  for _, i in ipairs(not listed and default or {}) do dense[i] = true end
  local is_listed = listed and kinds.listed(listed, 0, p.layers, "mlp_only_layers") or function(i) return dense[i] end
  local function is_sparse(i) return not is_listed(i) and (i + 1) % step == 0 end
  local any_dense = kinds.any(p.layers, function(i) return not is_sparse(i) end)
  p.intermediate = c:count("intermediate_size", nil)
  if not any_dense then c:waive("intermediate_size", "every layer has experts") end
  if any_dense and not p.intermediate then error "a layer is dense, but intermediate_size is missing" end
  return is_sparse
end

-- softmax over all experts, the k best; renormalised to sum to one when p.norm_topk is set. p.router: the name of the
-- matrix, if it is not gate.weight.
function moe.softmax_router(x, w, p)
  local scores = softmax(linear(x, w(p.router or "gate.weight", { p.experts, p.hidden })))
  local weight, idx = top_k(scores, { k = p.top_k })
  if p.norm_topk then weight = weight / reduce(weight, { op = "sum" }) end
  return idx, weight
end

-- The scores of these experts, renormalised and scaled where the family does so.
local function weights_of(scores, idx, p)
  local weight = gather_last(scores, idx)
  if p.norm_topk then weight = weight / (reduce(weight, { op = "sum" }) + 1e-20) end
  return p.route_scale and weight * p.route_scale or weight
end

-- Sigmoid scores (or p.route_score of the products); a correction bias (p.route_bias: its name, if it is not under gate; false:
-- there is none) takes part in the choice alone. Experts lie in p.groups groups, of which the p.top_groups with the largest sum
-- of their two best choices stay. chosen: the experts of each token, where they are settled already.
function moe.sigmoid_router(x, w, p, chosen)
  local scores = map(p.route_score or sigmoid, linear(x, w(p.router or "gate.weight", { p.experts, p.hidden })))
  if chosen then return chosen, weights_of(scores, chosen, p) end
  local choice = scores
  if p.route_bias ~= false then choice = scores + w(p.route_bias or "gate.e_score_correction_bias", { p.experts }) end
  if (p.groups or 1) > 1 then
    local grouped = reshape(choice, "T", p.groups, p.experts // p.groups)
    local best = top_k(grouped, { k = 2 })
    local _, kept = top_k(reduce(best, { op = "sum", keep = false }), { k = p.top_groups })
    local mask = reshape(index_mask(kept, { size = p.groups }), "T", p.groups, 1)
    choice = reshape(map(function(m, s) return where(m, s, -3e38) end, mask, grouped), "T", p.experts)
  end
  local _, idx = top_k(choice, { k = p.top_k })
  return idx, weights_of(scores, idx, p)
end

-- Gated experts stored one by one: down(act(gate(x)) * up(x)) of width p.expert_width. p.expert_names: gate, up and down by
-- other names; columns: the width of what goes in, if it is not p.hidden; weight_on: "input", where the weight of an expert
-- multiplies what goes in.
function moe.glu(x, w, p, idx, weight, columns, weight_on)
  local names, width = p.expert_names or { "gate_proj", "up_proj", "down_proj" }, p.expert_width
  columns = columns or p.hidden
  local function weights(name, rows, columns)
    return w:stack("experts.{}." .. name .. ".weight", p.experts, { rows, columns })
  end
  return experts {
    x = x, idx = idx, weight = weight, num_experts = p.experts, weight_on = weight_on,
    stacked = {
      weights(names[1], width, columns), weights(names[2], width, columns), weights(names[3], columns, width),
    },
    body = function(rows, gate, up, down)
      return linear(mlp.gated(p, linear(rows, gate), linear(rows, up)), down)
    end,
  }
end

-- Experts without a gate, stored one by one: down(act(up(x))). `width`: of what goes in, if it is not p.hidden.
function moe.plain(x, w, p, idx, weight, width)
  width = width or p.hidden
  local function weights(name, rows, columns)
    return w:stack("experts.{}." .. name .. ".weight", p.experts, { rows, columns })
  end
  return experts {
    x = x, idx = idx, weight = weight, num_experts = p.experts,
    stacked = { weights("up_proj", p.expert_width, width), weights("down_proj", width, p.expert_width) },
    body = function(rows, up, down) return linear(map(p.act, linear(rows, up)), down) end,
  }
end

-- Experts beside a shared one of width p.shared_width, which a sigmoid of one row weighs (Qwen). The experts may be stored as
-- one tensor or one by one.
function moe.with_gated_shared(x, w, p)
  local idx, weight = moe.softmax_router(x, w, p)
  local packed = w:has "experts.gate_up_proj"
  local y = packed and moe.packed_glu(x, w, p, idx, weight, "experts.gate_up_proj", "experts.down_proj", {})
    or moe.glu(x, w, p, idx, weight)
  local shared = mlp.glu(x, w:scope "shared_expert", p, p.shared_width)
  return y + shared * sigmoid(linear(x, w("shared_expert_gate.weight", { 1, p.hidden })))
end

-- Gated experts stored as two tensors, gate_up [experts, 2 width, hidden] with the rows of gate first, and down [experts,
-- hidden, width]. options.transposed: both are [experts, columns, rows]; options.weight_on: "input", where the weight of an
-- expert multiplies what goes in.
function moe.packed_glu(x, w, p, idx, weight, gate_up, down, options)
  local width = p.expert_width
  local function weights(name, rows, columns)
    if not options.transposed then return w(name, { p.experts, rows, columns }) end
    return transpose(w(name, { p.experts, columns, rows }), 0, 2, 1)
  end
  return experts {
    x = x, idx = idx, weight = weight, num_experts = p.experts, weight_on = options.weight_on,
    stacked = { weights(gate_up, 2 * width, p.hidden), weights(down, p.hidden, width) },
    body = function(rows, both, last)
      local y = linear(rows, both)
      local gate = slice(y, { axis = 1, start = 0, stop = width })
      local up = slice(y, { axis = 1, start = width, stop = 2 * width })
      return linear(mlp.gated(p, gate, up), last)
    end,
  }
end

return moe
