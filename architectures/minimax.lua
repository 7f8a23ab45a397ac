-- SPDX-License-Identifier: Apache-2.0
-- MiniMax-Text-01 and M1: seven layers of lightning attention to one of softmax, experts everywhere, and a scaled sum with the
-- normed input in the residual's place.
local std = require "std"

-- Which layers are softmax: layer_types, or a 1 in attn_type_list.
local function layer_kinds(c, layers)
  local numbers = c:list("attn_type_list", nil)
  if not numbers then
    local where = std.kinds.from_list(c:list "layer_types", layers, { "linear_attention", "full_attention" }, "layer_types")
    return where "full_attention", where "linear_attention"
  end
  c:waive("layer_types", "attn_type_list states the kind of each layer")
  local where = std.kinds.from_list(numbers, layers, { 0, 1 }, "attn_type_list")
  return where(1), where(0)
end

-- The factor of the input and of the block's result, under the library's name or the release's.
local function factors(c, kind, released)
  local function factor(letter)
    local word = letter == "a" and "alpha" or "beta"
    local ours, theirs = c:number(kind .. "_" .. word .. "_factor", nil), c:number("layernorm_" .. released .. "_" .. word, nil)
    if ours and theirs and ours ~= theirs then error("the " .. word .. " of " .. kind .. " stands twice and differs") end
    return ours or theirs or 1.0
  end
  return { input = factor "a", result = factor "b" }
end

local function rotary_share(c, head_dim)
  local columns = c:count("rotary_dim", nil)
  return columns and columns / head_dim or 1.0
end

return architecture {
  matches = {
    model_type = { "minimax", "minimax_m1", "minimax_text_01" },
    architectures = { "MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM" },
  },

  parameters = function(c)
    c:waive("block_size", "how another program cuts sequences")
    c:waive("shared_moe_mode", "there is no shared expert")
    c:expect("shared_intermediate_size", 0, "a shared expert")
    c:expect("postnorm", true)
    c:expect("sliding_window", null)
    local p = std.config.decoder(c)
    p.tied, p.act = c:bool("tie_word_embeddings", false), std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim, share = rotary_share(c, p.head_dim), default_theta = 1e6 })
    p.is_full, p.is_linear = layer_kinds(c, p.layers)
    p.full, p.linear = factors(c, "full_attn", "full_attention"), factors(c, "linear_attn", "linear_attention")
    p.after = factors(c, "mlp", "mlp")
    p.experts, p.top_k = c:any { "num_local_experts", "num_experts" }, c:count "num_experts_per_tok"
    p.expert_width, p.expert_names, p.norm_topk = c:count "intermediate_size", { "w1", "w3", "w2" }, true
    return p
  end,

  state = function(p)
    return {
      kv = append { layers = p.is_full, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } },
      mixer = std.mixer.lightning_state(p, p.is_linear),
    }
  end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local m, is_full = l:scope "block_sparse_moe", p.is_full(i)
      local mix, f = is_full and std.attention.gqa or std.mixer.lightning, is_full and p.full or p.linear
      local h = std.norm.rms(x, l, "input_layernorm", p)
      x = h * f.input + mix(h, l:scope "self_attn", p, batch, i) * f.result
      h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = h * p.after.input + std.moe.glu(h, m, p, std.moe.softmax_router(h, m, p)) * p.after.result
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
