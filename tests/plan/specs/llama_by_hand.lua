-- SPDX-License-Identifier: Apache-2.0
-- A Llama as somebody writes it who knows no template and no composite operator: norms, rotary embedding and silu in
-- primitives, the wanted rows taken of the logits of all tokens. The compiler must make the same plan of it as of architectures/llama.lua.
local idle = {
  "attention_dropout", "dtype", "initializer_range", "pretraining_tp", "transformers_version", "use_cache", "hidden_act",
  "attention_bias", "mlp_bias", "rope_parameters.rope_type",
}

local function norm(x, weight, eps)
  local mean = reduce(x * x, { op = "mean" })
  return weight * (x / sqrt(mean + eps))
end

local function silu(x) return x / (1 + exp(-x)) end

-- Halves of each head of x [T, heads, width] turned by the angles whose cosines and sines are given.
local function turned(x, cosines, sines, width)
  local a = slice(x, { axis = 2, start = 0, stop = width // 2 })
  local b = slice(x, { axis = 2, start = width // 2, stop = width })
  return concat(a * cosines - b * sines, b * cosines + a * sines, { axis = 2 })
end

return architecture {
  matches = { model_type = { "llama" }, architectures = { "LlamaForCausalLM" } },

  parameters = function(c)
    for _, key in ipairs(idle) do
      if not key:find(".", 1, true) then c:waive(key, "the same in every checkpoint of the test") end
    end
    c:object("rope_parameters"):waive("rope_type", "the same in every checkpoint of the test")
    for _, key in ipairs { "bos_token_id", "eos_token_id", "pad_token_id" } do fact(key, c:int(key, nil)) end
    fact("max_positions", c:int "max_position_embeddings")
    return {
      layers = c:int "num_hidden_layers", hidden = c:int "hidden_size", heads = c:int "num_attention_heads",
      kv_heads = c:int "num_key_value_heads", width = c:int "head_dim", inner = c:int "intermediate_size",
      vocab = c:int "vocab_size", eps = c:number "rms_norm_eps", theta = c:object("rope_parameters"):number "rope_theta",
      tied = c:bool "tie_word_embeddings",
    }
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.width }, v = { p.kv_heads, p.width } } } end,

  forward = function(p, w, batch)
    local freqs = {}
    for i = 0, p.width // 2 - 1 do freqs[i + 1] = p.theta ^ (-2 * i / p.width) end
    local angles = reshape(batch.positions, "T", 1, 1) * constant(freqs)
    local cosines, sines = cos(angles), sin(angles)

    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = norm(x, l("input_layernorm.weight", { p.hidden }), p.eps)
      local attention = l:scope "self_attn"
      local function heads(name, count)
        local rows = count * p.width
        return reshape(linear(h, attention(name .. "_proj.weight", { rows, p.hidden })), "T", count, p.width)
      end
      local q = turned(heads("q", p.heads), cosines, sines, p.width)
      local k = turned(heads("k", p.kv_heads), cosines, sines, p.width)
      local y = attend {
        q = q, state = batch.state.kv[i]:append { k = k, v = heads("v", p.kv_heads) }, scale = p.width ^ -0.5,
      }
      local width = p.heads * p.width
      x = x + linear(reshape(y, "T", width), attention("o_proj.weight", { p.hidden, width }))

      local m = norm(x, l("post_attention_layernorm.weight", { p.hidden }), p.eps)
      local mlp = l:scope "mlp"
      local gate = linear(m, mlp("gate_proj.weight", { p.inner, p.hidden }))
      local up = linear(m, mlp("up_proj.weight", { p.inner, p.hidden }))
      x = x + linear(silu(gate) * up, mlp("down_proj.weight", { p.hidden, p.inner }))
    end
    local model = w:scope "model"
    x = norm(x, model("norm.weight", { p.hidden }), p.eps)
    local logits = linear(x, p.tied and embedding or w("lm_head.weight", { p.vocab, p.hidden }))
    return { logits = gather_rows(logits, batch.output_rows) }
  end,
}
