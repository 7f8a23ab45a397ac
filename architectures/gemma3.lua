-- SPDX-License-Identifier: Apache-2.0
-- Gemma 3, the text model alone, also inside the config and files of the multimodal one: norms before and after each
-- block stored as weight - 1, a norm on each head of q and k, windowed layers with a rope of their own.
local std = require "std"

-- Released configs leave most of these out and rely on the class's defaults.
local defaults = { vocab = 262208, eps = 1e-6, max_positions = 131072, window = 4096, pattern = 6, full = 1e6, sliding = 1e4 }

local image_keys = { "boi_token_index", "eoi_token_index", "image_token_index", "mm_tokens_per_image" }

local tower_tensors = {
  "embeddings.patch_embedding.weight", "embeddings.patch_embedding.bias", "embeddings.position_embedding.weight",
  "post_layernorm.weight", "post_layernorm.bias", "head.probe", "head.attention.in_proj_weight",
  "head.attention.in_proj_bias", "head.attention.out_proj.weight", "head.attention.out_proj.bias",
  "head.layernorm.weight", "head.layernorm.bias", "head.mlp.fc1.weight", "head.mlp.fc1.bias", "head.mlp.fc2.weight",
  "head.mlp.fc2.bias",
}

local function waive_vision(w, c)
  local vision = c:object("vision_config", nil)
  if not vision then return end
  for _, prefix in ipairs { "vision_tower.vision_model.", "vision_tower." } do
    std.towers.waive(w, prefix, "encoder.layers", vision:count "num_hidden_layers", tower_tensors)
  end
  std.towers.waive(w, "multi_modal_projector.", nil, 0, { "mm_input_projection_weight", "mm_soft_emb_norm.weight" })
end

-- Layer kinds: layer_types, else every pattern-th layer is full.
local function windows(c, layers)
  local pattern = c:any { "sliding_window_pattern", "_sliding_window_pattern" } or defaults.pattern
  if c:has "layer_types" then
    for _, key in ipairs { "sliding_window_pattern", "_sliding_window_pattern" } do
      c:waive(key, "layer_types states the kind of each layer")
    end
  end
  if not c:has "sliding_window" then return function(i) return (i + 1) % pattern == 0 and 0 or defaults.window end end
  return std.window.from_config(c, layers, { every = pattern })
end

return architecture {
  matches = {
    model_type = { "gemma3_text", "gemma3" },
    architectures = { "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration" },
  },

  parameters = function(outer)
    local c = std.config.text_of(outer, "gemma3_text", image_keys)
    std.config.idle(c)
    c:waive("cache_implementation", "a setting of another program")
    std.config.facts(c, outer, defaults.max_positions)
    local p = {
      outer = outer, layers = c:count "num_hidden_layers", hidden = c:count "hidden_size",
      heads = c:count("num_attention_heads", 8), kv_heads = c:count("num_key_value_heads", 4),
      head_dim = c:count("head_dim", 256), eps = c:number("rms_norm_eps", defaults.eps), norm_offset = 1.0,
      vocab = c:count("vocab_size", defaults.vocab), intermediate = c:count "intermediate_size", qk_norm = "head",
      act = std.activation(c:string("hidden_activation", "gelu_pytorch_tanh")),
      scale = c:number("query_pre_attn_scalar", 256) ^ -0.5, qkv_bias = c:bool("attention_bias", false),
      logit_softcap = c:number("final_logit_softcapping", nil),
    }
    p.o_bias, p.tied = p.qkv_bias, std.config.agreed_bool("tie_word_embeddings", true, c, outer)
    c:expect("attn_logit_softcapping", null, "the reference code of Gemma 3 ignores it")
    c:expect("use_bidirectional_attention", false)
    p.window = windows(c, p.layers)
    local full = std.rope.from_config(c, {
      dim = p.head_dim, layer_type = "full_attention", theta = c:number("rope_theta", nil), default_theta = defaults.full,
    })
    local sliding = std.rope.from_config(c, {
      dim = p.head_dim, layer_type = "sliding_attention", theta = c:number("rope_local_base_freq", nil),
      default_theta = defaults.sliding, unscaled = true,
    })
    p.rope = function(i) return p.window and p.window(i) > 0 and sliding or full end
    return p
  end,

  state = function(p)
    return { kv = append { window = p.window, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } }
  end,

  forward = function(p, w, batch)
    local model, top = std.head.scopes(w)
    waive_vision(w, p.outer)

    local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens) * std.embedding.factor(embedding, math.sqrt(p.hidden))
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      local h = std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      x = x + std.norm.rms(h, l, "post_attention_layernorm", p)
      h = std.mlp.glu(std.norm.rms(x, l, "pre_feedforward_layernorm", p), l:scope "mlp", p)
      x = x + std.norm.rms(h, l, "post_feedforward_layernorm", p)
    end
    return { logits = std.head.logits(x, top, p, batch, embedding, model) }
  end,
}
