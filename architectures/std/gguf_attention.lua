-- SPDX-License-Identifier: Apache-2.0
-- GGUF files of families with attention and one block behind it (gguf.lua): their metadata in the words of Hugging Face, names
-- that are their own, and what writers change in their tensors. Mixtral is here, since its files are called llama.
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

function families.glm4(g, key, c)
  c.model_type = "glm4"
  head_size(key, c)
  c.head_dim = c.head_dim and key.int("attention.key_length", nil) or c.hidden_size // c.num_attention_heads
  local turned = key.int("rope.dimension_count", nil)
  if turned then c.rope_parameters.partial_rotary_factor = turned / c.head_dim end
  c.attention_bias = gguf_shape "blk.0.attn_q.bias" ~= nil
end

local model = tools.models(models)
model("llama", "LlamaForCausalLM", nil, tools.permuted_rows)
model("mixtral", "MixtralForCausalLM", tools.mixtral, tools.permuted_rows)
model("qwen2", "Qwen2ForCausalLM")
model("qwen3", "Qwen3ForCausalLM")
model("gemma2", "Gemma2ForCausalLM", tools.sandwich, tools.norms_plus_one)
model("gemma3_text", "Gemma3ForCausalLM", tools.sandwich, tools.norms_plus_one)
model("olmo2", "Olmo2ForCausalLM", tools.sandwich)
model("exaone4", "Exaone4ForCausalLM", tools.sandwich)
model("smollm3", "SmolLM3ForCausalLM", nil, tools.permuted_rows)
model("granite", "GraniteForCausalLM", nil, tools.permuted_rows)
model("phi3", "Phi3ForCausalLM", { ["self_attn.qkv_proj"] = "attn_qkv", ["mlp.gate_up_proj"] = "ffn_up" })
model("glm4", "Glm4ForCausalLM", {
  ["post_self_attn_layernorm"] = "post_attention_norm", ["post_mlp_layernorm"] = "post_ffw_norm",
  ["mlp.gate_up_proj"] = "ffn_up",
})
model("ernie4_5", "Ernie4_5ForCausalLM")
model("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", {
  ["self_attn.query_layernorm"] = "attn_q_norm", ["self_attn.key_layernorm"] = "attn_k_norm",
})

return { families = families, models = models }
