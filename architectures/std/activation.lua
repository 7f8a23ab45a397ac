-- SPDX-License-Identifier: Apache-2.0
-- Activations by the names that configs use; an unknown name stops the load.
local known = {}

function known.silu(x) return x * sigmoid(x) end
known.swish = known.silu

function known.gelu(x) return 0.5 * x * (1 + erf(x * math.sqrt(0.5))) end

function known.gelu_pytorch_tanh(x) return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))) end
known.gelu_new = known.gelu_pytorch_tanh

function known.relu(x) return max(x, 0) end
function known.relu2(x) return max(x, 0) * max(x, 0) end

return function(name)
  if not known[name] then unsupported("activation '" .. tostring(name) .. "' is not known") end
  return known[name]
end
