-- SPDX-License-Identifier: Apache-2.0
-- Heads that predict further tokens (multi-token prediction), which speculation drafts with. They take batch.tokens, the
-- token behind each row, and batch.hidden, what the model's output head saw at the row, and give the logits of the token
-- after that one, and the hidden state to go on from.
local norm = require "std.norm"
local predict = {}

-- As DeepSeek-V3 and all its followers have it: norms of the embedding and of the hidden state, side by side through one
-- matrix, a layer or several, a last norm, and the output head. Embedding and head are the model's unless the head's scope
-- holds its own.
--   scope(p, w)      the scope that holds the head
--   enorm, hnorm, join, last    names in it: the two norms, the matrix, the last norm (or a function of p)
--   state(p)         declarations of the layers' states by the names which they use, of one layer each unless they say more
--   layer(x, l, p, batch)       x after the layers, where l is the scope; their states are batch.state.NAME[0]
--   embedding(p, w), output(p, w)    the model's own, where they are not under std's usual names
--   goes_on_normed   the last norm is on the hidden state that the head goes on from
function predict.head(o)
  local function forward(p, w, batch)
    local l = o.scope(p, w)
    local join = o.join .. ".weight"
    if not l:has(join) then unsupported("the checkpoint has no layers that predict further tokens: no " .. join) end
    local function own_or(name, shared, usual)
      if l:has(name) then return l(name, { p.vocab, p.hidden }) end
      return shared and shared(p, w) or w(usual, { p.vocab, p.hidden })
    end
    local embedding = own_or("embed_tokens.weight", o.embedding, "model.embed_tokens.weight")
    local e = norm.rms(gather_rows(embedding, batch.tokens), l, o.enorm, p)
    local h = norm.rms(batch.hidden, l, o.hnorm, p)
    local x = linear(concat(e, h, { axis = 1 }), l(join, { p.hidden, 2 * p.hidden }))
    local own = { tokens = batch.tokens, positions = batch.positions, state = {} }
    for name in pairs(o.state(p)) do own.state[name] = batch.state["predict_" .. name] end
    x = gather_rows(o.layer(x, l, p, own), batch.output_rows)
    local normed = norm.rms(x, l, type(o.last) == "function" and o.last(p) or o.last, p)
    local head = own_or("shared_head.head.weight", not p.tied and o.output or p.tied and o.embedding or nil,
      p.tied and "model.embed_tokens.weight" or "lm_head.weight")
    return { logits = linear(normed, head), hidden = o.goes_on_normed and normed or x }
  end
  local function states(p)
    local declared = {}
    for name, state in pairs(o.state(p)) do
      state.layers = state.layers or 1
      declared["predict_" .. name] = state
    end
    return declared
  end
  return { state = states, forward = forward }
end

-- A layer behind the model's own, as DeepSeek-V3 has it. state and layer: as above.
function predict.nextn(state, layer)
  local function scope(p, w)
    if p.prediction_layers < 1 then unsupported "the config has no layers that predict further tokens" end
    return w:scope("model.layers." .. p.layers)
  end
  return predict.head {
    scope = scope, enorm = "enorm", hnorm = "hnorm", join = "eh_proj", last = "shared_head.norm", state = state, layer = layer,
  }
end

return predict
