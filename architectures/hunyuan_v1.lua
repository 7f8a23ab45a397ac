-- SPDX-License-Identifier: Apache-2.0
-- HunYuan V1, dense and with experts: Llama's blocks with a norm on each head of q and k after the rope, whose base is
-- stretched once; softmax routing and one shared expert. The release with experts comes with a config of its own (hunyuan).
local std = require "std"

-- One number, or the same in each layer of a list.
local function uniform(c, key, layers)
  local value = c[key]
  if value == nil or type(value) == "number" then return c:count(key, nil) end
  local listed = c:list(key)
  if #listed ~= layers then error(key .. " has " .. #listed .. " entries for " .. layers .. " layers") end
  for i = 1, layers - 1 do
    if listed[i] ~= listed[0] then unsupported(key .. "[" .. i .. "]: found " .. listed[i] .. ", wanted " .. listed[0]) end
  end
  return listed[0]
end

-- Switches of the release's own code that the other classes do not have.
local function check_released(c, p)
  local width, shared = uniform(c, "moe_intermediate_size", p.layers), uniform(c, "num_shared_expert", p.layers)
  if width and width ~= p.expert_width then unsupported("moe_intermediate_size: found " .. width .. ", wanted intermediate_size") end
  if shared and shared ~= 1 then unsupported("num_shared_expert: found " .. shared .. ", wanted 1") end
  for key, value in pairs {
    use_mla = false, use_cla = false, position_embedding_xdrope = false, norm_type = "rms", use_qk_norm = true,
    use_rotary_pos_emb = true, use_mixed_mlp_moe = true, group_limited_greedy = false, norm_topk_prob = true,
    routed_scaling_factor = 1.0, moe_layer_num_skipped = 0, add_classification_head = false, mlp_bias = false,
    n_group = null, topk_group = null, q_lora_rank = null, kv_lora_rank = null, qk_nope_head_dim = null,
    qk_rope_head_dim = null, v_head_dim = null, xdrope_section = null,
  } do
    c:expect(key, value)
  end
  c:waive("cla_share_factor", "use_cla is off")
  for _, key in ipairs { "moe_drop_tokens", "moe_random_routing_dropped_token" } do
    c:waive(key, "training only; no token is dropped")
  end
  for _, key in ipairs { "class_num", "dense_list", "pool_type" } do c:waive(key, "of a classifier, which this is not") end
  for _, key in ipairs(c:keys()) do
    if key:match "^vit_" or key:match "^anyres_" then c:waive(key, "images are not computed") end
  end
  for _, key in ipairs { "num_media_embeds", "skip_cls_token" } do c:waive(key, "images are not computed") end
  for _, key in ipairs {
    "eod_token_id", "sep_token_id", "im_end_id", "im_newline_id", "im_start_id", "image_token_id", "mask_init_id", "pad_id",
    "text_end_id", "text_start_id", "video_end_id", "video_start_id", "org_vocab_size",
  } do
    c:waive(key, "a token's number, of no part in the computation")
  end
end

return architecture {
  matches = {
    model_type = { "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan" },
    architectures = { "HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM" },
  },

  parameters = function(c)
    local p = std.config.decoder(c, c:any { "head_dim", "attention_head_dim" })
    p.tied, p.qkv_bias = c:bool("tie_word_embeddings", false), c:bool("attention_bias", false)
    p.o_bias, p.qk_norm, p.q_norm, p.k_norm = p.qkv_bias, "turned", "query_layernorm", "key_layernorm"
    p.intermediate = c:count "intermediate_size"
    p.act = std.activation(c:string "hidden_act")
    p.rope = std.rope.from_config(c, { dim = p.head_dim })
    p.expert_width, p.norm_topk, p.router = p.intermediate, true, "gate.wg.weight"
    if c.model_type ~= "hunyuan_v1_dense" then
      p.experts, p.top_k = c:count "num_experts", uniform(c, "moe_topk", p.layers)
    end
    check_released(c, p)
    return p
  end,

  state = function(p) return { kv = append { k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } } end,

  forward = function(p, w, batch)
    local embedding = w("model.embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = w:scope("model.layers." .. i)
      local mlp = l:scope "mlp"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if p.experts then
        x = x + std.moe.glu(h, mlp, p, std.moe.softmax_router(h, mlp, p)) + std.mlp.glu(h, mlp:scope "shared_mlp", p)
      else
        x = x + std.mlp.glu(h, mlp, p)
      end
    end
    return { logits = std.head.logits(x, w, p, batch, embedding) }
  end,
}
