-- SPDX-License-Identifier: Apache-2.0
-- From the last residual stream to logits, for the rows that are wanted.
local norm = require "std.norm"
local head = {}

-- p.tied: the embedding is the head; a redundant head in the file is ignored, and said so. `model` and `top` are the
-- scopes of the last norm and of the head where they are not "model" and "".
function head.logits(x, w, p, batch, embedding, model)
  x = norm.rms(gather_rows(x, batch.output_rows), model or w:scope "model", "norm", p)
  if not p.tied then return linear(x, w("lm_head.weight", { p.vocab, p.hidden })) end
  if w:has "lm_head.weight" then
    w:waive("lm_head.weight", "redundant: the config ties the head to the embedding", embedding)
    warn "lm_head.weight is in the file although the config ties the head to the embedding; the embedding is used"
  end
  return linear(x, embedding)
end

-- Layers after the last one predict further tokens and are not run: waived, also where the config is silent about them.
function head.skip_prediction_layers(w, layers, stated)
  local count = stated
  while count < 16 and w:has("model.layers." .. layers + count .. ".input_layernorm.weight") do count = count + 1 end
  if count == 0 then return end
  w:waive_layers("model.layers", layers, layers + count - 1, "extra prediction layers are not run")
  if stated == 0 then warn(count .. " layers after the last one are in the file although the config has none; left out") end
end

return head
