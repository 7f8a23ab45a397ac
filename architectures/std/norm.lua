-- SPDX-License-Identifier: Apache-2.0
-- Norms with a weight named after their role.
local norm = {}

-- x / rms(x) * (weight + offset) over the last axis; p.norm_offset is 1 where files store the weight minus one.
function norm.rms(x, w, name, p, eps)
  local weight = w(name .. ".weight", { x:dim(-1) })
  return rms_norm(x, weight, { eps = eps or p.eps, offset = p.norm_offset or 0.0 })
end

return norm
