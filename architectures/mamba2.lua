-- SPDX-License-Identifier: Apache-2.0
-- Mamba-2 alone: no attention, nothing that grows with the length.
local std = require "std"

return architecture {
  matches = { model_type = { "mamba2" }, architectures = { "Mamba2ForCausalLM" } },

  parameters = function(c)
    std.config.idle(c)
    std.config.facts(c)
    local p = {
      layers = c:count "num_hidden_layers", hidden = c:count "hidden_size", vocab = c:count "vocab_size",
      eps = c:number "layer_norm_epsilon", tied = c:bool("tie_word_embeddings", false), last_norm = "norm_f",
      ssm = std.mixer.read_mamba2(c, { heads = "num_heads", dim = "head_dim", size = "state_size", act = "hidden_act" }),
    }
    local inner = c:count("expand", 2) * p.hidden
    if inner ~= p.ssm.heads * p.ssm.dim then
      error("expand makes " .. inner .. " channels, the heads have " .. p.ssm.heads * p.ssm.dim)
    end
    return p
  end,

  state = function(p) return { mixer = std.mixer.mamba2_state(p.ssm) } end,

  forward = function(p, w, batch)
    local model = w:scope "backbone"
    local embedding = model("embeddings.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      x = x + std.mixer.mamba2(std.norm.rms(x, l, "norm", p), l:scope "mixer", p, batch, i)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding, model) }
  end,
}
