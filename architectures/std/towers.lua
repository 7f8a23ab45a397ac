-- SPDX-License-Identifier: Apache-2.0
-- Towers of other media beside a text model. They are not run: their tensors are waived, each by its name.
local towers = {}

-- Under `prefix`: the layers `stack`.0 to count - 1, and single tensors.
function towers.waive(w, prefix, stack, count, names)
  local reason = "the towers of other media are not run"
  if stack then w:waive_layers(prefix .. stack, 0, count - 1, reason) end
  for _, name in ipairs(names) do w:waive(prefix .. name, reason) end
end

return towers
