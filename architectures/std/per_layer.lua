-- SPDX-License-Identifier: Apache-2.0
-- Embeddings per layer (Gemma): every layer is given a few numbers of its own about each token.
local embedding, norm = require "std.embedding", require "std.norm"
local per_layer = {}

-- p.per_layer: how many, 0 for none; p.per_layer_vocab: rows of their table.
function per_layer.read(c, p)
  p.per_layer = c:int("hidden_size_per_layer_input", 256)
  p.per_layer_vocab = c:count("vocab_size_per_layer_input", 262144)
  if p.per_layer == 0 then c:waive("vocab_size_per_layer_input", "there are no embeddings per layer") end
end

-- [T, layers, p.per_layer]: what the table has for the token, and what the model makes of its embedding x; nil without any.
function per_layer.inputs(x, model, p, batch)
  if p.per_layer == 0 then return nil end
  local columns = p.layers * p.per_layer
  local tokens = model("embed_tokens_per_layer.weight", { p.per_layer_vocab, columns })
  local own = gather_rows(tokens, batch.tokens) * embedding.factor(tokens, math.sqrt(p.per_layer))
  local made = linear(x, model("per_layer_model_projection.weight", { columns, p.hidden })) * p.hidden ^ -0.5
  made = norm.rms(reshape(made, "T", p.layers, p.per_layer), model, "per_layer_projection_norm", p)
  return (made + reshape(own, "T", p.layers, p.per_layer)) * 2 ^ -0.5
end

-- x and what layer i makes of its own numbers, under a gate.
function per_layer.add(x, l, p, inputs, i)
  if not inputs then return x end
  local own = reshape(slice(inputs, { axis = 1, start = i, stop = i + 1 }), "T", p.per_layer)
  local gate, act = linear(x, l("per_layer_input_gate.weight", { p.per_layer, p.hidden })), p.act
  local h = map(function(g, e) return act(g) * e end, gate, own)
  return x + norm.rms(linear(h, l("per_layer_projection.weight", { p.hidden, p.per_layer })), l, "post_per_layer_input_norm", p)
end

return per_layer
