-- SPDX-License-Identifier: Apache-2.0
-- gpt-oss: attention with sinks, every other layer windowed; experts with biases and a clamped gate.
local std = require "std"

-- MXFP4 files hold matrices rows first, plain ones [columns, rows].
local function matrices(w, name, p, rows, columns)
  if w:has(name .. "_blocks") then return w(name, { p.experts, rows, columns }) end
  return transpose(w(name, { p.experts, columns, rows }), 0, 2, 1)
end

-- gate and up stand interleaved in one matrix; GGUF files hold them apart, rows first.
local function expert_block(x, w, p, idx, weight)
  local function run(stacked, body)
    return experts { x = x, idx = idx, weight = weight, num_experts = p.experts, stacked = stacked, body = body }
  end
  local width, act = p.width, std.mlp.gpt_oss(p.alpha, p.limit)
  local down_bias = w("down_proj_bias", { p.experts, p.hidden })
  if w:has "gate_proj" then
    local function half(name) return w(name, { p.experts, width, p.hidden }), w(name .. "_bias", { p.experts, width }) end
    local gate, gate_bias = half "gate_proj"
    local up, up_bias = half "up_proj"
    return run({ gate, gate_bias, up, up_bias, w("down_proj", { p.experts, p.hidden, width }), down_bias },
      function(rows, g, gb, u, ub, d, db) return linear(map(act, linear(rows, g, gb), linear(rows, u, ub)), d, db) end)
  end
  local both = matrices(w, "gate_up_proj", p, 2 * width, p.hidden)
  local both_bias = w("gate_up_proj_bias", { p.experts, 2 * width })
  return run({ both, both_bias, matrices(w, "down_proj", p, p.hidden, width), down_bias }, function(rows, m, b, d, db)
    local y = linear(rows, m, b)
    local g = slice(y, { axis = 1, start = 0, stop = 2 * width, step = 2 })
    local u = slice(y, { axis = 1, start = 1, stop = 2 * width, step = 2 })
    return linear(map(act, g, u), d, db)
  end)
end

-- The k best logits, and softmax among them.
local function route(x, w, p)
  local logits = linear(x, w("weight", { p.experts, p.hidden }), w("bias", { p.experts }))
  local best, idx = top_k(logits, { k = p.top_k })
  return idx, softmax(best)
end

return architecture {
  matches = { model_type = { "gpt_oss" }, architectures = { "GptOssForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c)
    p.tied, p.sinks = c:bool("tie_word_embeddings", false), true
    p.qkv_bias = c:bool("attention_bias", true)
    p.o_bias = p.qkv_bias
    local rotary
    p.rope, rotary = std.rope.from_config(c, { dim = p.head_dim })
    c:expect("initial_context_length", rotary.original, "it repeats original_max_position_embeddings")
    p.window = std.window.from_config(c, p.layers, { every = 2 })
    p.experts, p.top_k = c:count "num_local_experts", c:any { "num_experts_per_tok", "experts_per_token" }
    p.width = c:count "intermediate_size"
    c:expect("hidden_act", "silu")
    p.limit, p.alpha = c:number("swiglu_limit", 7.0), c:number("swiglu_alpha", 1.702)
    return p
  end,

  state = function(p)
    return { kv = append { window = p.window, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = x + expert_block(h, l:scope "mlp.experts", p, route(h, l:scope "mlp.router", p))
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,

  render = function(chat, write) return require "std.chat_harmony" (chat, write) end,
}
