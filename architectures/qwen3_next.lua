-- SPDX-License-Identifier: Apache-2.0
-- Qwen3-Next: three layers of the gated delta rule to one of gated attention, experts beside a gated shared one, norms
-- stored as weight - 1.
local std = require "std"

return architecture {
  matches = { model_type = { "qwen3_next" }, architectures = { "Qwen3NextForCausalLM" } },

  parameters = function(c)
    local p = std.qwen_next.parameters(c)
    p.delta.fused = true
    p.tied = c:bool("tie_word_embeddings", false)
    std.qwen_next.read_experts(c, p)
    p.norm_topk = c:bool("norm_topk_prob", true)
    p.is_sparse = std.moe.sparse_layers(c, p)
    c:expect("use_sliding_window", false)
    return p
  end,

  state = std.qwen_next.state,
  predict = std.qwen_next.predict,

  forward = function(p, w, batch)
    std.qwen_next.skip_prediction_layers(w, 1, p.layers)
    return { logits = std.qwen_next.logits(p, w, w:scope "model", batch) }
  end,
}
