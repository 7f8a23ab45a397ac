-- SPDX-License-Identifier: Apache-2.0
-- GGUF files of families with attention and experts (gguf.lua): their metadata in the words of Hugging Face, names that are
-- their own, and what writers change in their tensors.
local tools = require "std.gguf_tools"
local head_size, dense = tools.head_size, require "std.gguf_attention".families
local families, models = {}, {}

function families.qwen3moe(g, key, c)
  c.model_type = "qwen3_moe"
  head_size(key, c)
  c.num_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.moe_intermediate_size = key.int "expert_feed_forward_length"
  key.waive("feed_forward_length", "every layer has experts")
  c.norm_topk_prob, c.mlp_only_layers, c.decoder_sparse_step = true, nil, 1
end

families["gpt-oss"] = function(g, key, c)
  c.model_type = "gpt_oss"
  head_size(key, c)
  c.num_local_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.intermediate_size = key.int "expert_feed_forward_length"
  key.waive("feed_forward_length", "expert_feed_forward_length is the width of every block")
  c.sliding_window, c.swiglu_limit, c.attention_bias = key.int "attention.sliding_window", 7.0, true
  c.rope_parameters.truncate = false
end

function families.deepseek2(g, key, c)
  c.model_type = "deepseek_v3"
  c.q_lora_rank, c.kv_lora_rank = key.int("attention.q_lora_rank", nil) or null, key.int "attention.kv_lora_rank"
  c.qk_rope_head_dim = key.int "rope.dimension_count"
  -- Files with one latent key head state its width, and the sizes of the expanded heads beside it.
  local wide, value = key.int("attention.key_length_mla", nil), key.int("attention.value_length_mla", nil)
  if wide then
    key.waive("attention.head_count_kv", "the one latent row; every head reads it")
    key.waive("attention.key_length", "the latent row; key_length_mla states the heads")
    key.waive("attention.value_length", "the latent row; value_length_mla states the heads")
    c.num_key_value_heads = c.num_attention_heads
  end
  c.qk_nope_head_dim = (wide or key.int "attention.key_length") - c.qk_rope_head_dim
  c.v_head_dim = value or key.int "attention.value_length"
  c.n_routed_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.n_shared_experts, c.moe_intermediate_size = key.int "expert_shared_count", key.int "expert_feed_forward_length"
  c.first_k_dense_replace = key.int "leading_dense_block_count"
  c.n_group, c.topk_group = key.int("expert_group_count", 1), key.int("expert_group_used_count", 1)
  c.routed_scaling_factor = key.number("expert_weights_scale", 1.0)
  c.norm_topk_prob = key.bool("expert_weights_norm", false)
  local gating = key.int("expert_gating_func", 1)
  c.scoring_func = gating == 2 and "sigmoid" or gating == 1 and "softmax" or unsupported("GGUF: expert_gating_func " .. gating)
  local log_multiplier = key.number("rope.scaling.yarn_log_multiplier", nil)
  if log_multiplier then
    -- The writer stores 0.1 * mscale_all_dim.
    c.rope_parameters.mscale, c.rope_parameters.mscale_all_dim = log_multiplier / 0.1, log_multiplier / 0.1
  end
end

-- Latent attention as in deepseek2; layers without an indexer of their own take the choice of another.
families["glm-dsa"] = function(g, key, c)
  local predicted = tools.without_prediction_layers(key, c)
  families.deepseek2(g, key, c)
  c.model_type, c.num_nextn_predict_layers = "glm_moe_dsa", predicted
  c.index_n_heads, c.index_head_dim = key.int "attention.indexer.head_count", key.int "attention.indexer.key_length"
  c.index_topk, c.indexer_types = key.int "attention.indexer.top_k", {}
  for i = 0, c.num_hidden_layers - 1 do
    c.indexer_types[i + 1] = tools.has(i, "indexer.attn_k.weight") and "full" or "shared"
  end
end

-- block_count counts the prediction layers as well.
function families.glm4moe(g, key, c)
  c.model_type = "glm4_moe"
  head_size(key, c)
  c.num_nextn_predict_layers = key.int("nextn_predict_layers", 0)
  c.num_hidden_layers = c.num_hidden_layers - c.num_nextn_predict_layers
  c.attention_bias, c.use_qk_norm = gguf_shape "blk.0.attn_q.bias" ~= nil, gguf_shape "blk.0.attn_q_norm.weight" ~= nil
  c.n_routed_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.n_shared_experts, c.moe_intermediate_size = key.int("expert_shared_count", 0), key.int "expert_feed_forward_length"
  c.first_k_dense_replace = key.int("leading_dense_block_count", 0)
  c.n_group, c.topk_group = key.int("expert_group_count", 1), key.int("expert_group_used_count", 1)
  c.routed_scaling_factor, c.norm_topk_prob = key.number("expert_weights_scale", 1.0), key.bool("expert_weights_norm", false)
  if key.int("expert_gating_func", 2) ~= 2 then unsupported "GGUF: a glm4moe whose experts are not chosen by sigmoid" end
end

families["minimax-m2"] = function(g, key, c)
  c.model_type = "minimax_m2"
  head_size(key, c)
  tools.read_experts(key, c, { count = "num_local_experts", top = "num_experts_per_tok" })
  c.intermediate_size = key.int "expert_feed_forward_length"
  key.waive("feed_forward_length", "every layer has experts")
  if key.int("expert_gating_func", 2) ~= 2 then unsupported "GGUF: a minimax-m2 whose experts are not chosen by sigmoid" end
end

families["ernie4_5-moe"] = function(g, key, c)
  dense.ernie4_5(g, key, c)
  c.model_type = "ernie4_5_moe"
  tools.read_experts(key, c, { count = "moe_num_experts", top = "moe_k" })
  c.moe_layer_start_index = key.int "leading_dense_block_count"
  c.moe_layer_interval = key.int("interleave_moe_layer_step", 1)
  c.moe_intermediate_size = key.int "expert_feed_forward_length"
  c.moe_num_shared_experts = key.int("expert_shared_count", 0)
  key.waive("expert_shared_feed_forward_length", "expert_shared_count states it")
end

families["hunyuan-moe"] = function(g, key, c)
  dense["hunyuan-dense"](g, key, c)
  c.model_type = "hunyuan_v1_moe"
  tools.read_experts(key, c, { count = "num_experts", top = "moe_topk" })
  c.moe_intermediate_size, c.num_shared_expert = key.int "expert_feed_forward_length", key.int "expert_shared_count"
  key.waive("expert_shared_feed_forward_length", "expert_feed_forward_length is the width of every block")
end

function families.granitemoe(g, key, c)
  dense.granite(g, key, c)
  c.model_type, c.mlp_bias = "granitemoe", nil
  tools.read_experts(key, c, { count = "num_local_experts", top = "num_experts_per_tok" })
  if gguf_shape "blk.0.ffn_gate_shexp.weight" then unsupported "GGUF: a granitemoe with a shared expert" end
end

-- Windowed layers and full ones have heads, kv heads and ropes of their own; the divisors of the full ones' are 1 for what
-- turns and huge for what does not.
function families.gemma4(g, key, c)
  c.model_type, c.hidden_activation, c.hidden_act = "gemma4_text", "gelu_pytorch_tanh", nil
  local pattern, layers = key.list "attention.sliding_window_pattern", c.num_hidden_layers
  c.sliding_window, c.layer_types = key.int "attention.sliding_window", {}
  for i = 0, layers - 1 do c.layer_types[i + 1] = pattern[i] and "sliding_attention" or "full_attention" end
  c.head_dim, c.global_head_dim = key.int "attention.key_length_swa", key.int "attention.key_length"
  for _, name in ipairs { "value_length", "value_length_swa" } do
    key.waive("attention." .. name, "the length of keys is that of values")
  end
  for _, name in ipairs { "dimension_count", "dimension_count_swa" } do
    key.waive("rope." .. name, "all columns turn, some of them by nothing")
  end
  local function of_kind(name, sliding)  -- of the first layer of the kind, where layers differ
    local value = key.raw(name)
    if type(value) == "number" then return value end
    for i = 0, layers - 1 do
      if pattern[i] == sliding then return value[i] end
    end
  end
  c.num_key_value_heads = of_kind("attention.head_count_kv", true)
  c.num_global_key_value_heads = of_kind("attention.head_count_kv", false)
  c.attention_k_eq_v = false
  for i = 0, layers - 1 do
    local owns = i < layers - key.int("attention.shared_kv_layers", 0)
    if owns and not pattern[i] and not tools.has(i, "attn_v.weight") then c.attention_k_eq_v = true end
  end
  if not c.attention_k_eq_v then c.num_global_key_value_heads = nil end
  local turned, divisors = 0, c.rope_parameters.divisors
  for _, divisor in ipairs(divisors) do turned = turned + (divisor < 1e20 and 1 or 0) end
  c.rope_parameters = {
    full_attention = {
      rope_type = "proportional", rope_theta = c.rope_parameters.rope_theta, partial_rotary_factor = turned / #divisors,
    },
    sliding_attention = { rope_type = "default", rope_theta = key.number("rope.freq_base_swa", 10000.0) },
  }
  c.num_kv_shared_layers = key.int("attention.shared_kv_layers", 0)
  c.hidden_size_per_layer_input = key.int("embedding_length_per_layer_input", 0)
  c.vocab_size_per_layer_input = (gguf_shape "per_layer_token_embd.weight" or { 1 })[1]
  local widths = key.raw "feed_forward_length"
  local listed = type(widths) ~= "number"
  c.intermediate_size, c.use_double_wide_mlp = listed and widths[0] or widths, listed and widths[layers - 1] == 2 * widths[0]
  c.enable_moe_block = gguf_shape "blk.0.ffn_gate_inp.weight" ~= nil
  if c.enable_moe_block then
    tools.read_experts(key, c, { count = "num_experts", top = "top_k_experts" })
    c.moe_intermediate_size = key.int "expert_feed_forward_length"
  end
  c.final_logit_softcapping = key.number("final_logit_softcapping", nil)
  c.attention_bias = gguf_shape "blk.0.attn_q.bias" ~= nil
end

-- What the metadata has no keys for is the same in both released models, but for the norms of q and k.
function families.llama4(g, key, c)
  c.model_type = "llama4_text"
  head_size(key, c)
  tools.read_experts(key, c, { count = "num_local_experts", top = "num_experts_per_tok" })
  c.intermediate_size_mlp, c.intermediate_size = c.intermediate_size, key.int "expert_feed_forward_length"
  c.interleave_moe_layer_step, c.no_rope_layer_interval = key.int "interleave_moe_layer_step", 4
  c.attention_chunk_size, c.attn_temperature_tuning, c.floor_scale, c.attn_scale = 8192, true, 8192, 0.1
  if c.num_local_experts ~= 16 and c.num_local_experts ~= 128 then
    unsupported("GGUF: a llama4 of " .. c.num_local_experts .. " experts; those of 16 and of 128 are known")
  end
  c.use_qk_norm = c.num_local_experts == 16
end

local model, names, blocks = tools.models(models), tools.names, tools.blocks
local own_post_norm = { ["post_attention_layernorm"] = "post_attention_norm" }
model("qwen3_moe", "Qwen3MoeForCausalLM")
model("glm4_moe", "Glm4MoeForCausalLM", own_post_norm)
model("gpt_oss", "GptOssForCausalLM", own_post_norm)
model("deepseek_v3", "DeepseekV3ForCausalLM")
model("minimax_m2", "MiniMaxM2ForCausalLM", tools.mixtral)
model("granitemoe", "GraniteMoeForCausalLM", names(
  { ["block_sparse_moe.router.layer"] = "ffn_gate_inp" }, blocks("block_sparse_moe.experts.{}", "_exps")
), tools.permuted_rows)
model("llama4_text", "Llama4ForCausalLM", names(
  { ["feed_forward.router"] = "ffn_gate_inp" }, blocks("feed_forward", ""), blocks("feed_forward.experts.{}", "_exps"),
  blocks("feed_forward.shared_expert", "_shexp")
))
model("glm_moe_dsa", "GlmMoeDsaForCausalLM", {
  ["self_attn.indexer.wq_b"] = "indexer.attn_q_b", ["self_attn.indexer.wk"] = "indexer.attn_k",
  ["self_attn.indexer.k_norm"] = "indexer.k_norm", ["self_attn.indexer.weights_proj"] = "indexer.proj",
})
local function undo_ernie()
  local function as_row(v) return reshape(v, 1, v:dim(-1)) end
  return function(_, mapped) return mapped == "exp_probs_b.bias" and as_row or nil end
end
local ernie_names = { ["mlp.moe_statics.e_score_correction_bias"] = "exp_probs_b.bias" }
model("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", ernie_names, undo_ernie)
model("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", names({
  ["self_attn.query_layernorm"] = "attn_q_norm", ["self_attn.key_layernorm"] = "attn_k_norm", ["mlp.gate.wg"] = "ffn_gate_inp",
}, blocks("mlp.shared_mlp", "_shexp")))
model("gemma4_text", "Gemma4ForCausalLM", names(tools.sandwich, {
  ["pre_feedforward_layernorm_2"] = "pre_ffw_norm_2", ["post_feedforward_layernorm_1"] = "post_ffw_norm_1",
  ["post_feedforward_layernorm_2"] = "post_ffw_norm_2", ["layer_scalar"] = "layer_output_scale.weight",
  ["router.proj"] = "ffn_gate_inp", ["router.scale"] = "ffn_gate_inp.scale",
  ["router.per_expert_scale"] = "ffn_down_exps.scale", ["experts.gate_up_proj"] = "ffn_gate_up_exps.weight",
  ["experts.down_proj"] = "ffn_down_exps.weight", ["per_layer_input_gate"] = "inp_gate", ["per_layer_projection"] = "proj",
  ["post_per_layer_input_norm"] = "post_norm",
}))
models.gemma4_text.top = {
  ["model.embed_tokens_per_layer.weight"] = "per_layer_token_embd.weight",
  ["model.per_layer_model_projection.weight"] = "per_layer_model_proj.weight",
  ["model.per_layer_projection_norm.weight"] = "per_layer_proj_norm.weight",
}

return { families = families, models = models }
