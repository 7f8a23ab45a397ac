-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V3.2: DeepSeek V3 with an indexer in each layer that names the index_topk keys which a query sees.
local std = require "std"

local function index_state(p) return append { k = { 1, p.index.dim } } end

local function selection(p, batch)
  return function(x, low, scope, layer)
    return std.indexer.lightning(x, low, scope:scope "indexer", p, batch, batch.state.index[layer])
  end
end

return architecture {
  matches = { model_type = { "deepseek_v32" }, architectures = { "DeepseekV32ForCausalLM" } },

  parameters = function(c)
    local p = std.deepseek.parameters(c, { default_dense = 3, needs_low_queries = true })
    std.indexer.parameters(c, p, { style = "half" })
    c:waive("layer_types", "every layer has an indexer")
    return p
  end,

  state = function(p) return { kv = std.deepseek.state(p), index = index_state(p) } end,
  forward = function(p, w, batch) return std.deepseek.forward(p, w, batch, selection(p, batch)) end,
  predict = std.deepseek.predicts(function(p) return { index = index_state(p) } end, selection),
  render = function(chat, write) return require "std.chat_dsml_v32" (chat, write) end,
}
