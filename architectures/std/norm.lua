-- SPDX-License-Identifier: Apache-2.0
-- Norms with a weight named after their role.
local norm = {}

-- x / rms(x) * (weight + offset) over the last axis; p.norm_offset is 1 where files store the weight minus one.
function norm.rms(x, w, name, p, eps)
  local weight = w(name .. ".weight", { x:dim(-1) })
  return rms_norm(x, weight, { eps = eps or p.eps, offset = p.norm_offset or 0.0 })
end

-- (x - mean) / sqrt(variance + eps) * weight + bias over the last axis. p.norm_bias = false: without one.
function norm.layer(x, w, name, p, eps)
  local width = x:dim(-1)
  local bias = p.norm_bias ~= false and w(name .. ".bias", { width }) or nil
  return layer_norm(x, w(name .. ".weight", { width }), bias, { eps = eps or p.eps })
end

return norm
