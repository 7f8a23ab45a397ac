-- SPDX-License-Identifier: Apache-2.0
-- MiniMax M3, the text model, also inside the multimodal one: most layers see, per kv head, the blocks of keys that an indexer
-- names; half of each head turned, norms as 1 + w, sigmoid routing with a bias for the choice, a clamped gate, a shared expert.
local std = require "std"

local media_keys = {
  "image_grid_pinpoints", "image_seq_length", "image_token_index", "video_token_index", "img_token_compression_config",
  "merged_hidden_size", "multimodal_projector_bias", "process_image_mode", "projector_hidden_act", "projector_hidden_size",
  "vision_feature_layer", "vision_feature_select_strategy",
}

local function check_variant(c)
  c:expect("use_gemma_norm", true)
  c:expect("attention_output_gate", false)
  c:expect("use_qk_norm", true)
  c:expect("qk_norm_type", "per_head")
  c:expect("scoring_func", "sigmoid")
  c:expect("use_routing_bias", true)
  c:expect("n_shared_experts", 1)
  c:expect("hidden_act", { "silu", "swigluoai" }, "both words mean the clamped gate")
  for _, key in ipairs { "num_mtp_modules", "num_nextn_predict_layers" } do
    c:waive(key, "extra prediction layers are not run")
  end
end

-- The indexer's sizes: beside the rest, or in sparse_attention_config as releases have it.
local function read_indexer(c, p)
  local old = c:object("sparse_attention_config", nil)
  local function size(key, old_key, default)
    local value, other = c:int(key, nil), old and old:int(old_key, nil)
    if value and other and value ~= other then error(key .. " and " .. old_key .. " contradict") end
    return value or other or default
  end
  p.index = {
    heads = size("index_n_heads", "sparse_num_index_heads", 4), dim = size("index_head_dim", "sparse_index_dim", 128),
    block = size("index_block_size", "sparse_block_size", 128), top = size("index_topk_blocks", "sparse_topk_blocks", 16),
    recent = size("index_local_blocks", "sparse_local_block", 1), first = old and old:int("sparse_init_block", 0) or 0,
  }
  p.select_block = p.index.block
  local chosen = std.kinds.marks(c, "layer_types", "full_attention", "minimax_m3_sparse", "sparse_attention_freq", p.layers,
    old, false)
  p.chooses = function(i) return chosen[i] end
  local without_values = old and old:list("sparse_disable_index_value", nil)
  for i = 0, without_values and p.layers - 1 or -1 do
    if without_values[i] ~= (chosen[i] and 1 or 0) then unsupported("sparse_disable_index_value[" .. i .. "]: an indexer's values") end
  end
  if old then
    old:expect("use_sparse_attention", true)
    old:expect("sparse_score_type", "max")
  end
  if p.index.heads ~= p.kv_heads then unsupported(p.index.heads .. " index heads for " .. p.kv_heads .. " kv heads") end
  if p.index.dim < p.rope.length then error("index_head_dim " .. p.index.dim .. " is below rotary_dim") end
end

-- As released, or as the library writes the text model alone.
local function sparse_block(x, l, p)
  local released = l:has "block_sparse_moe.gate.weight" or not l:has "mlp.gate.weight"
  local w = l:scope(released and "block_sparse_moe" or "mlp")
  p.route_bias = released and "e_score_correction_bias" or "gate.e_score_correction_bias"
  local idx, weight = std.moe.sigmoid_router(x, w, p)
  local routed = released and std.moe.glu(x, w, p, idx, weight)
    or std.moe.packed_glu(x, w, p, idx, weight, "experts.gate_up_proj", "experts.down_proj", {})
  return routed + std.mlp.glu(x, w:scope "shared_experts", p, p.shared_width)
end

local tower_tensors = { "embeddings.patch_embedding.weight", "pre_layrnorm.weight", "pre_layrnorm.bias" }
local joints = { "linear_1.weight", "linear_1.bias", "linear_2.weight", "linear_2.bias" }

local function waive_vision(w, outer)
  local vision = outer:object("vision_config", nil)
  if not vision then return end
  std.towers.waive(w, "vision_tower.vision_model.", "encoder.layers", vision:count "num_hidden_layers", tower_tensors)
  for _, prefix in ipairs { "multi_modal_projector.", "patch_merge_mlp." } do std.towers.waive(w, prefix, nil, 0, joints) end
end

return architecture {
  matches = {
    model_type = { "minimax_m3_vl", "minimax_m3_vl_text" },
    architectures = { "MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3VLForCausalLM" },
  },

  parameters = function(outer)
    local c = std.config.text_of(outer, "minimax_m3_vl_text", media_keys)
    outer:waive("num_reward_heads", "no reward model is run")
    if c ~= outer then c:waive("architectures", "the class of the outer config counts") end
    check_variant(c)
    local p = std.config.decoder(c, nil, outer)
    p.outer, p.tied, p.norm_offset, p.qk_norm = outer, std.config.agreed_bool("tie_word_embeddings", false, c, outer), 1.0, "head"
    p.rope = std.rope.with_columns(c, { dim = p.head_dim, default_theta = 5e6 })
    p.combine = std.mlp.gpt_oss(c:number("swiglu_alpha", 1.702), c:number("swiglu_limit", 7.0))
    p.experts, p.top_k, p.groups = c:count "num_local_experts", c:count "num_experts_per_tok", 1
    p.norm_topk, p.route_scale = true, c:number("routed_scaling_factor", 2.0)
    p.expert_width, p.shared_width = c:count "intermediate_size", c:count "shared_intermediate_size"
    p.intermediate, p.expert_names = c:count "dense_intermediate_size", { "w1", "w3", "w2" }
    p.is_sparse = std.kinds.marks(c, "mlp_layer_types", "dense", "sparse", "moe_layer_freq", p.layers, nil, true)
    read_indexer(c, p)
    return p
  end,

  state = function(p)
    local kv = { p.kv_heads, p.head_dim }
    return { kv = append { k = kv, v = kv }, index = append { layers = p.chooses, k = { 1, p.index.dim } } }
  end,

  forward = function(p, w, batch)
    local model, top = std.head.scopes(w)
    waive_vision(w, p.outer)
    p.fused_gate_up = model:has "layers.0.mlp.gate_up_proj.weight" or model:has "layers.0.mlp.shared_experts.gate_up_proj.weight"
    p.select = function(x, scope, i)
      local prefix = scope:has "indexer.q_proj.weight" and "indexer." or "index_"
      return p.chooses(i) and std.indexer.blocks(x, scope, p, batch, batch.state.index[i], prefix)
    end
    local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      x = x + (p.is_sparse[i] and sparse_block(h, l, p) or std.mlp.glu(h, l:scope "mlp", p))
    end
    return { logits = std.head.logits(x, top, p, batch, embedding, model) }
  end,
}
