-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V3, R1 and V3.1, Kimi K2: latent attention, sigmoid routing in groups, a shared expert, first layers dense.
local std = require "std"

return architecture {
  matches = {
    model_type = { "deepseek_v3", "kimi_k2" },
    architectures = { "DeepseekV3ForCausalLM", "KimiK2ForCausalLM" },
  },
  parameters = function(c) return std.deepseek.parameters(c, { default_dense = 0 }) end,
  state = function(p) return { kv = std.deepseek.state(p) } end,
  forward = std.deepseek.forward,
  predict = std.deepseek.predicts(),
}
