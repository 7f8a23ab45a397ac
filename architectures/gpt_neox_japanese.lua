-- SPDX-License-Identifier: Apache-2.0
-- GPT-NeoX Japanese: layer norms, q, k and v of each head beside each other in one matrix, a plain feed-forward, and one
-- bias in the whole model: on the attention of the last layer.
local std = require "std"

local function attention(x, w, p, batch, i)
  for _, name in ipairs { "bias", "masked_bias", "rotary_emb.inv_freq" } do
    w:waive(name, "a buffer of old files; masks and the rope table are made")
  end
  local heads, d = p.heads, p.head_dim
  local qkv = reshape(linear(x, w("query_key_value.weight", { 3 * p.hidden, p.hidden })), "T", heads, 3 * d)
  local function third(n) return slice(qkv, { axis = 2, start = n * d, stop = (n + 1) * d }) end
  local k = rope(third(1), batch.positions, p.rope)
  local y = attend {
    q = rope(third(0), batch.positions, p.rope), state = batch.state.kv[i]:append { k = k, v = third(2) }, scale = p.scale,
  }
  local bias = i == p.layers - 1 and w("dense_bias", { p.hidden }) or nil
  return linear(reshape(y, "T", p.hidden), w("dense.weight", { p.hidden, p.hidden }), bias)
end

local function mlp(x, w, p)
  local h = map(p.act, linear(x, w("dense_h_to_4h.weight", { p.intermediate, p.hidden })))
  return linear(h, w("dense_4h_to_h.weight", { p.hidden, p.intermediate }))
end

return architecture {
  matches = { model_type = { "gpt_neox_japanese" }, architectures = { "GPTNeoXJapaneseForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c, nil, nil, "layer_norm_eps")
    p.tied, p.act = c:bool("tie_word_embeddings", true), std.activation(c:string "hidden_act")
    p.intermediate = p.hidden * c:count "intermediate_multiple_size"
    p.norm, p.last_norm, p.head = std.norm.layer, "final_layer_norm", "embed_out"
    p.rope = std.rope.from_config(c, {
      dim = p.head_dim, default_theta = c:number("rotary_emb_base", 10000.0), share = c:number("rotary_pct", 1.0),
    })
    for _, key in ipairs { "hidden_dropout", "is_decoder" } do c:waive(key, "training only") end
    return p
  end,

  state = function(p) return { kv = append { k = { p.heads, p.head_dim }, v = { p.heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local model = w:scope "gpt_neox_japanese"
    local embedding = model("embed_in.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      x = x + attention(p.norm(x, l, "input_layernorm", p), l:scope "attention", p, batch, i)
      x = x + mlp(p.norm(x, l, "post_attention_layernorm", p), l:scope "mlp", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding, model) }
  end,
}
