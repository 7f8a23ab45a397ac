-- SPDX-License-Identifier: Apache-2.0
-- GGUF files of families with attention alone (gguf.lua): their metadata in the words of Hugging Face, names that are their
-- own, and what writers change in their tensors.
local tools = require "std.gguf_tools"
local head_size = tools.head_size
local families, models = {}, {}

-- Mixtral's files name the architecture llama too.
function families.llama(g, key, c)
  head_size(key, c)
  if (key.int("expert_count", 0) or 0) > 0 then
    c.model_type, c.num_local_experts, c.num_experts_per_tok = "mixtral", key.int "expert_count", key.int "expert_used_count"
    return
  end
  c.model_type = "llama"
  c.attention_bias = gguf_shape "blk.0.attn_q.bias" ~= nil
  c.mlp_bias = gguf_shape "blk.0.ffn_gate.bias" ~= nil
end

function families.qwen2(g, key, c)
  c.model_type = "qwen2"
  head_size(key, c)
end

function families.qwen3(g, key, c)
  c.model_type = "qwen3"
  head_size(key, c)
end

function families.qwen3moe(g, key, c)
  c.model_type = "qwen3_moe"
  head_size(key, c)
  c.num_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.moe_intermediate_size = key.int "expert_feed_forward_length"
  key.waive("feed_forward_length", "every layer has experts")
  c.norm_topk_prob, c.mlp_only_layers, c.decoder_sparse_step = true, nil, 1
end

-- The metadata has neither the softcaps' absence nor the scale of queries; the latter follows from the size of the model,
-- as the file's other readers take it.
function families.gemma3(g, key, c)
  c.model_type = "gemma3_text"
  head_size(key, c)
  c.head_dim = c.head_dim or 256
  c.hidden_activation, c.hidden_act = "gelu_pytorch_tanh", nil
  c.query_pre_attn_scalar = c.num_hidden_layers == 62 and c.hidden_size // c.num_attention_heads or c.head_dim
  c.sliding_window, c.sliding_window_pattern = key.int "attention.sliding_window", 6
  local full = c.rope_parameters
  full.rope_theta = full.rope_theta or 1000000.0
  c.rope_parameters = {
    full_attention = full,
    sliding_attention = { rope_type = "default", rope_theta = key.number("rope.freq_base_swa", nil) or 10000.0 },
  }
  c.final_logit_softcapping = key.number("final_logit_softcapping", nil)
  c.attn_logit_softcapping = key.number("attn_logit_softcapping", nil)
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

-- As for gemma3, the scale of queries follows from the size of the model.
function families.gemma2(g, key, c)
  c.model_type = "gemma2"
  head_size(key, c)
  c.hidden_activation, c.hidden_act = "gelu_pytorch_tanh", nil
  c.query_pre_attn_scalar = c.num_hidden_layers == 46 and c.hidden_size // c.num_attention_heads or c.head_dim
  c.sliding_window = key.int "attention.sliding_window"
  c.final_logit_softcapping = key.number("final_logit_softcapping", nil) or null
  c.attn_logit_softcapping = key.number("attn_logit_softcapping", nil) or null
  c.rope_parameters.rope_theta = c.rope_parameters.rope_theta or 10000.0
end

function families.olmo2(g, key, c)
  c.model_type = "olmo2"
  head_size(key, c)
end

function families.smollm3(g, key, c)
  c.model_type, c.no_rope_layer_interval = "smollm3", 4
  head_size(key, c)
end

function families.granite(g, key, c)
  c.model_type = "granite"
  c.attention_bias, c.mlp_bias = gguf_shape "blk.0.attn_q.bias" ~= nil, gguf_shape "blk.0.ffn_gate.bias" ~= nil
  head_size(key, c)
  c.attention_multiplier = key.number("attention.scale", nil) or (c.head_dim or c.hidden_size // c.num_attention_heads) ^ -0.5
  c.embedding_multiplier, c.residual_multiplier = key.number("embedding_scale", 1.0), key.number("residual_scale", 1.0)
  c.logits_scaling = key.number("logit_scale", 1.0)
end

-- The divisors of longrope stand in two tensors.
function families.phi3(g, key, c)
  c.model_type = "phi3"
  local width, turned = c.hidden_size // c.num_attention_heads, key.int("rope.dimension_count", nil)
  local r = c.rope_parameters
  if turned and turned ~= width then r.partial_rotary_factor = turned / width end
  local original = key.int("rope.scaling.original_context_length", nil)
  local attention_factor = key.number("rope.scaling.attn_factor", nil)
  if gguf_shape "rope_factors_short.weight" then
    r.rope_type, r.original_max_position_embeddings, r.attention_factor = "longrope", original, attention_factor
    r.short_factor, r.long_factor = gguf_floats "rope_factors_short.weight", gguf_floats "rope_factors_long.weight"
  else
    key.waive("rope.scaling.original_context_length", "the rope is not scaled")
    key.waive("rope.scaling.attn_factor", "the rope is not scaled")
  end
  local window = key.int("attention.sliding_window", 0)
  c.sliding_window = window > 0 and window or nil
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

-- A pattern says which layers have the window; files without one have none, or every layer but the fourth.
local function read_windows(key, c)
  c.sliding_window = key.int("attention.sliding_window", nil)
  local pattern = key.list("attention.sliding_window_pattern", nil)
  if not pattern then return end
  c.layer_types = {}
  for i = 0, c.num_hidden_layers - 1 do
    c.layer_types[i + 1] = pattern[i] and "sliding_attention" or "full_attention"
  end
end

function families.exaone4(g, key, c)
  c.model_type = "exaone4"
  head_size(key, c)
  read_windows(key, c)
end

families["ernie4_5"] = function(g, key, c)
  c.model_type, c.use_bias = "ernie4_5", gguf_shape "blk.0.attn_q.bias" ~= nil
  head_size(key, c)
end

families["ernie4_5-moe"] = function(g, key, c)
  families.ernie4_5(g, key, c)
  c.model_type = "ernie4_5_moe"
  tools.read_experts(key, c, { count = "moe_num_experts", top = "moe_k" })
  c.moe_layer_start_index = key.int "leading_dense_block_count"
  c.moe_layer_interval = key.int("interleave_moe_layer_step", 1)
  c.moe_intermediate_size = key.int "expert_feed_forward_length"
  c.moe_num_shared_experts = key.int("expert_shared_count", 0)
  key.waive("expert_shared_feed_forward_length", "expert_shared_count states it")
end

-- The base of the rope is stated as scaled.
local function hunyuan(g, key, c)
  head_size(key, c)
  c.attention_bias = gguf_shape "blk.0.attn_q.bias" ~= nil
  for _, name in ipairs { "rope.scaling.factor", "rope.scaling.original_context_length" } do
    key.waive(name, "the base of the rope has it")
  end
end

families["hunyuan-dense"] = function(g, key, c)
  c.model_type = "hunyuan_v1_dense"
  hunyuan(g, key, c)
end

families["hunyuan-moe"] = function(g, key, c)
  c.model_type = "hunyuan_v1_moe"
  hunyuan(g, key, c)
  tools.read_experts(key, c, { count = "num_experts", top = "moe_topk" })
  c.moe_intermediate_size, c.num_shared_expert = key.int "expert_feed_forward_length", key.int "expert_shared_count"
  key.waive("expert_shared_feed_forward_length", "expert_feed_forward_length is the width of every block")
end

function families.glm4(g, key, c)
  c.model_type = "glm4"
  head_size(key, c)
  c.head_dim = c.head_dim and key.int("attention.key_length", nil) or c.hidden_size // c.num_attention_heads
  local turned = key.int("rope.dimension_count", nil)
  if turned then c.rope_parameters.partial_rotary_factor = turned / c.head_dim end
  c.attention_bias = gguf_shape "blk.0.attn_q.bias" ~= nil
end

function families.granitemoe(g, key, c)
  families.granite(g, key, c)
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
  c.final_logit_softcapping, c.attention_bias = key.number("final_logit_softcapping", nil), gguf_shape "blk.0.attn_q.bias" ~= nil
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

local sandwich = {
  ["post_attention_layernorm"] = "post_attention_norm", ["pre_feedforward_layernorm"] = "ffn_norm",
  ["post_feedforward_layernorm"] = "post_ffw_norm",
}
local mixtral = {
  ["block_sparse_moe.gate"] = "ffn_gate_inp", ["block_sparse_moe.experts.{}.w1"] = "ffn_gate_exps",
  ["block_sparse_moe.experts.{}.w3"] = "ffn_up_exps", ["block_sparse_moe.experts.{}.w2"] = "ffn_down_exps",
  ["block_sparse_moe.e_score_correction_bias"] = "exp_probs_b.bias",
}
local hunyuan_names = {
  ["self_attn.query_layernorm"] = "attn_q_norm", ["self_attn.key_layernorm"] = "attn_k_norm", ["mlp.gate.wg"] = "ffn_gate_inp",
  ["mlp.shared_mlp.gate_proj"] = "ffn_gate_shexp", ["mlp.shared_mlp.up_proj"] = "ffn_up_shexp",
  ["mlp.shared_mlp.down_proj"] = "ffn_down_shexp",
}

local function model(model_type, class, names, undo) models[model_type] = { class = class, names = names, undo = undo } end
model("llama", "LlamaForCausalLM", nil, tools.permuted_rows)
model("mixtral", "MixtralForCausalLM", mixtral, tools.permuted_rows)
model("qwen2", "Qwen2ForCausalLM")
model("qwen3", "Qwen3ForCausalLM")
model("qwen3_moe", "Qwen3MoeForCausalLM")
model("gemma2", "Gemma2ForCausalLM", sandwich, tools.norms_plus_one)
model("gemma3_text", "Gemma3ForCausalLM", sandwich, tools.norms_plus_one)
model("olmo2", "Olmo2ForCausalLM", sandwich)
model("exaone4", "Exaone4ForCausalLM", sandwich)
model("smollm3", "SmolLM3ForCausalLM", nil, tools.permuted_rows)
model("granite", "GraniteForCausalLM", nil, tools.permuted_rows)
model("granitemoe", "GraniteMoeForCausalLM", {
  ["block_sparse_moe.router.layer"] = "ffn_gate_inp", ["block_sparse_moe.experts.{}.gate_proj"] = "ffn_gate_exps",
  ["block_sparse_moe.experts.{}.up_proj"] = "ffn_up_exps", ["block_sparse_moe.experts.{}.down_proj"] = "ffn_down_exps",
}, tools.permuted_rows)
model("phi3", "Phi3ForCausalLM", { ["self_attn.qkv_proj"] = "attn_qkv", ["mlp.gate_up_proj"] = "ffn_up" })
local gemma4 = {
  ["pre_feedforward_layernorm_2"] = "pre_ffw_norm_2", ["post_feedforward_layernorm_1"] = "post_ffw_norm_1",
  ["post_feedforward_layernorm_2"] = "post_ffw_norm_2", ["layer_scalar"] = "layer_output_scale.weight",
  ["router.proj"] = "ffn_gate_inp", ["router.scale"] = "ffn_gate_inp.scale",
  ["router.per_expert_scale"] = "ffn_down_exps.scale", ["experts.gate_up_proj"] = "ffn_gate_up_exps.weight",
  ["experts.down_proj"] = "ffn_down_exps.weight", ["per_layer_input_gate"] = "inp_gate", ["per_layer_projection"] = "proj",
  ["post_per_layer_input_norm"] = "post_norm",
}
for module, name in pairs(sandwich) do gemma4[module] = name end
models.gemma4_text = {
  class = "Gemma4ForCausalLM", names = gemma4,
  top = {
    ["model.embed_tokens_per_layer.weight"] = "per_layer_token_embd.weight",
    ["model.per_layer_model_projection.weight"] = "per_layer_model_proj.weight",
    ["model.per_layer_projection_norm.weight"] = "per_layer_proj_norm.weight",
  },
}
model("glm_moe_dsa", "GlmMoeDsaForCausalLM", {
  ["self_attn.indexer.wq_b"] = "indexer.attn_q_b", ["self_attn.indexer.wk"] = "indexer.attn_k",
  ["self_attn.indexer.k_norm"] = "indexer.k_norm", ["self_attn.indexer.weights_proj"] = "indexer.proj",
})
model("glm4", "Glm4ForCausalLM", {
  ["post_self_attn_layernorm"] = "post_attention_norm", ["post_mlp_layernorm"] = "post_ffw_norm",
  ["mlp.gate_up_proj"] = "ffn_up",
})
model("glm4_moe", "Glm4MoeForCausalLM", { ["post_attention_layernorm"] = "post_attention_norm" })
model("gpt_oss", "GptOssForCausalLM", { ["post_attention_layernorm"] = "post_attention_norm" })
model("deepseek_v3", "DeepseekV3ForCausalLM")
model("minimax_m2", "MiniMaxM2ForCausalLM", mixtral)
model("ernie4_5", "Ernie4_5ForCausalLM")
model("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", { ["mlp.moe_statics.e_score_correction_bias"] = "exp_probs_b.bias" }, function()
  return function(_, mapped)
    return mapped == "exp_probs_b.bias" and function(v) return reshape(v, 1, v:dim(-1)) end or nil
  end
end)
model("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", hunyuan_names)
model("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", hunyuan_names)

return { families = families, models = models }
