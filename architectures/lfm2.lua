-- SPDX-License-Identifier: Apache-2.0
-- LFM2: short convolutions between two gates, and attention with a norm on each head of q and k.
local std = require "std"

-- The width of the feed-forward blocks, which the stated one may only start.
local function feed_forward_width(c)
  local width = c:any { "block_ff_dim", "intermediate_size" }
  if not c:bool("block_auto_adjust_ff_dim", true) then
    for _, key in ipairs { "block_ffn_dim_multiplier", "block_multiple_of" } do
      c:waive(key, "block_auto_adjust_ff_dim is off")
    end
    return width
  end
  width = 2 * width // 3
  if c.block_ffn_dim_multiplier == null then
    c:waive("block_multiple_of", "without block_ffn_dim_multiplier nothing is rounded")
    return width
  end
  local step = c:count("block_multiple_of", 256)
  width = math.floor(c:number("block_ffn_dim_multiplier", 1.0) * width)
  return step * ((width + step - 1) // step)
end

local function attention_layers(c, layers)
  if c:has "layer_types" then
    c:waive("full_attn_idxs", "layer_types states the kind of each layer")
    local where = std.kinds.from_list(c:list "layer_types", layers, { "conv", "full_attention" }, "layer_types")
    return where "full_attention", where "conv"
  end
  local is_full = std.kinds.listed(c:list "full_attn_idxs", 0)
  return is_full, function(i) return not is_full(i) end
end

-- Keys of the releases that say again what others say, or how the weights began.
local function check_repeated(c, p)
  for _, key in ipairs { "block_dim", "conv_dim", "conv_dim_out" } do c:expect(key, p.hidden) end
  c:expect("num_heads", p.heads)
  c:expect("block_norm_eps", p.eps)
  c:expect("block_use_swiglu", true)
  c:expect("use_pos_enc", true)
  for _, key in ipairs { "block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init" } do
    c:waive(key, "training only")
  end
end

return architecture {
  matches = { model_type = { "lfm2" }, architectures = { "Lfm2ForCausalLM" } },

  parameters = function(c)
    local p = std.config.decoder(c, nil, nil, "norm_eps")
    check_repeated(c, p)
    p.tied = std.config.either(c, { "tie_embedding", "tie_word_embeddings" }, true)
    p.act, p.qk_norm, p.q_norm, p.k_norm, p.o_proj = std.activation "silu", "head", "q_layernorm", "k_layernorm", "out_proj"
    p.rope = std.rope.from_config(c, { dim = p.head_dim, default_theta = 1e6 })
    p.is_full, p.is_conv = attention_layers(c, p.layers)
    p.conv = { kernel = c:count("conv_L_cache", 3), bias = c:bool("conv_bias", false) }
    p.intermediate, p.last_norm = feed_forward_width(c), "embedding_norm"
    p.mlp_names = { gate_proj = "w1", up_proj = "w3", down_proj = "w2" }
    return p
  end,

  state = function(p)
    return {
      kv = append { layers = p.is_full, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } },
      mixer = std.mixer.short_conv_state(p.conv, p.hidden, p.is_conv),
    }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local h = std.norm.rms(x, l, "operator_norm", p)
      x = x + (p.is_full(i) and std.attention.gqa(h, l:scope "self_attn", p, batch, i)
        or std.mixer.short_conv(h, l:scope "conv", p, batch, i))
      x = x + std.mlp.glu(std.norm.rms(x, l, "ffn_norm", p), l:scope "feed_forward", p)
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
