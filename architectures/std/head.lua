-- SPDX-License-Identifier: Apache-2.0
-- From the last residual stream to logits, for the rows that are wanted.
local norm = require "std.norm"
local head = {}

local function project(x, w, p, embedding)
  local name = (p.head or "lm_head") .. ".weight"
  if not p.tied then return linear(x, w(name, { p.vocab, p.hidden })) end
  if w:has(name) then
    w:waive(name, "redundant: the config ties the head to the embedding", embedding)
    warn(name .. " is in the file although the config ties the head to the embedding; the embedding is used")
  end
  return linear(x, embedding)
end

-- p.tied: the embedding is the head; a redundant head in the file is ignored, and said so. p.logit_softcap: c tanh(y / c) of
-- each logit; without a head (a base model, batch.headless) what would enter it; p.last_norm, p.head: other names of the last norm and of the head; p.norm: another norm than norm.rms. `w` and `model` are the scopes of the head and of the last norm where they are not "" and "model".
function head.logits(x, w, p, batch, embedding, model)
  x = (p.norm or norm.rms)(gather_rows(x, batch.output_rows), model or w:scope "model", p.last_norm or "norm", p)
  if batch.headless then
    fact("vocabulary", p.vocab)
    return x
  end
  local logits, cap = project(x, w, p, embedding), p.logit_softcap
  if not cap then return logits end
  return map(function(y) return cap * tanh(y / cap) end, logits)
end

-- The scopes of a text model, which may stand inside a multimodal one: that of the layers, and that of lm_head.
function head.scopes(w)
  local model, top = w:scope "model", w
  for _, scope in ipairs { "language_model.model", "model.language_model" } do
    if w:has(scope .. ".embed_tokens.weight") then model = w:scope(scope) end
  end
  if w:has "language_model.lm_head.weight" then top = w:scope "language_model" end
  return model, top
end

-- Layers after the last one predict further tokens and are not run: waived, also where the config is silent about them.
-- `under`: their prefix, if they do not stand behind the model's own layers.
function head.skip_prediction_layers(w, layers, stated, under)
  local count, prefix = stated, under or "model.layers"
  while count < 16 and w:has(prefix .. "." .. layers + count .. ".input_layernorm.weight") do count = count + 1 end
  if count == 0 then return end
  for _, name in ipairs { prefix, "blk" } do  -- blk: in GGUF files
    w:waive_layers(name, layers, layers + count - 1, "extra prediction layers are not run")
  end
  if stated == 0 and not under then
    warn(count .. " layers after the last one are in the file although the config has none; left out")
  end
end

return head
