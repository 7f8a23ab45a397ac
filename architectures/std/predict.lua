-- SPDX-License-Identifier: Apache-2.0
-- Heads that predict further tokens (multi-token prediction), which speculation drafts with. They take batch.tokens, the
-- token behind each row, and batch.hidden, what the model's output head saw at the row, and give the logits of the token
-- after that one, and the hidden state to go on from.
local norm = require "std.norm"
local predict = {}

-- A layer behind the model's own, as DeepSeek-V3 has it: norms of the embedding and of the hidden state, side by side
-- through eh_proj, then one layer, a last norm, and the output head. Embedding and head are the model's unless the file
-- holds the layer's own. state(p): the declaration of one layer's state; layer(x, l, p, batch): x after the layer whose scope
-- is l, its state batch.state.kv[0].
function predict.nextn(state, layer)
  local function forward(p, w, batch)
    if p.prediction_layers < 1 then unsupported "the config has no layers that predict further tokens" end
    local l = w:scope("model.layers." .. p.layers)
    local function own_or(name, scope, shared)
      if l:has(name) then return l(name, { p.vocab, p.hidden }) end
      return scope(shared, { p.vocab, p.hidden })
    end
    local embedding = own_or("embed_tokens.weight", w, "model.embed_tokens.weight")
    local e = norm.rms(gather_rows(embedding, batch.tokens), l, "enorm", p)
    local h = norm.rms(batch.hidden, l, "hnorm", p)
    local x = linear(concat(e, h, { axis = 1 }), l("eh_proj.weight", { p.hidden, 2 * p.hidden }))
    local own = { tokens = batch.tokens, positions = batch.positions, state = { kv = batch.state.predict } }
    x = gather_rows(layer(x, l, p, own), batch.output_rows)
    local head = own_or("shared_head.head.weight", w, p.tied and "model.embed_tokens.weight" or "lm_head.weight")
    return { logits = linear(norm.rms(x, l, "shared_head.norm", p), head), hidden = x }
  end
  local function states(p)
    local declared = state(p)
    declared.layers = 1
    return { predict = declared }
  end
  return { state = states, forward = forward }
end

return predict
