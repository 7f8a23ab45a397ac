-- SPDX-License-Identifier: Apache-2.0
-- GGUF files in the words of Hugging Face: config(g) turns metadata into a config, mapper(c) gives the function from a
-- tensor's Hugging Face name to its name in the file and, where the file's writer changed the tensor, to a function that
-- undoes the change. Keys "tokenizer.*" are not seen here. A key that nothing reads stops the load like any other.
local gguf = {}

local idle = {
  "architecture", "type", "name", "author", "version", "organization", "description", "finetune", "basename", "size_label",
  "license", "license.name", "license.link", "url", "repo_url", "doi", "uuid", "source.url", "source.repo_url", "tags",
  "languages", "datasets", "file_type", "quantization_version", "quantized_by", "alignment",
  "source.huggingface.repository", "base_model.count", "dataset.count", "sampling.temp", "sampling.top_k",
  "sampling.top_p",
}

local function waive_descriptions(g)
  for _, key in ipairs(idle) do
    if key ~= "architecture" then g:waive("general." .. key, "describes the file, not the computation") end
  end
  for _, list in ipairs { "base_model", "dataset" } do
    for i = 0, g:int("general." .. list .. ".count", 0) - 1 do
      for _, field in ipairs { "name", "author", "version", "organization", "url", "doi", "uuid", "repo_url" } do
        g:waive("general." .. list .. "." .. i .. "." .. field, "describes the file's origin")
      end
    end
  end
end

local function vocabulary(key)
  return key.int("vocab_size", nil) or (gguf_shape "token_embd.weight" or { 0 })[1]
end

-- Rope scaling as the metadata states it; a tensor of divisors (Llama 3) takes its place.
local function rope_parameters(key)
  local r = { rope_theta = key.number("rope.freq_base", nil), rope_type = "default" }
  local kind = key.string("rope.scaling.type", nil)
  if gguf_shape "rope_freqs.weight" then
    r.rope_type, r.divisors = "divisors", gguf_floats "rope_freqs.weight"
  elseif kind and kind ~= "none" then
    r.rope_type, r.factor = kind, key.number("rope.scaling.factor", nil)
    r.original_max_position_embeddings = key.int("rope.scaling.original_context_length", nil)
    r.attention_factor = key.number("rope.scaling.attn_factor", nil)
    r.beta_fast = key.number("rope.scaling.yarn_beta_fast", nil)
    r.beta_slow = key.number("rope.scaling.yarn_beta_slow", nil)
  end
  key.waive("rope.scaling.finetuned", "says how the model was trained")
  return r
end

local function common(g, key)
  return {
    num_hidden_layers = key.int "block_count", hidden_size = key.int "embedding_length",
    intermediate_size = key.int("feed_forward_length", nil),
    num_attention_heads = key.int "attention.head_count", num_key_value_heads = key.int("attention.head_count_kv", nil),
    rms_norm_eps = key.number "attention.layer_norm_rms_epsilon",
    max_position_embeddings = key.int("context_length", nil), vocab_size = vocabulary(key),
    tie_word_embeddings = not gguf_shape "output.weight", rope_parameters = rope_parameters(key), hidden_act = "silu",
  }
end

-- key_length and value_length where they are stated, and the width that turns; all three are the head size.
local function head_size(key, c)
  local size = key.int("attention.key_length", nil)
  local turned = key.int("rope.dimension_count", nil)
  c.head_dim = size or turned
  local value = key.int("attention.value_length", nil)
  if value and value ~= (c.head_dim or c.hidden_size // c.num_attention_heads) then
    unsupported("GGUF: value heads of " .. value .. " columns beside key heads of " .. tostring(c.head_dim))
  end
  if size and turned and turned ~= size then c.rope_parameters.partial_rotary_factor = turned / size end
end

local families = {}

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

-- The class that released configs name, by model type.
local classes = {
  llama = "LlamaForCausalLM", qwen2 = "Qwen2ForCausalLM", qwen3 = "Qwen3ForCausalLM", qwen3_moe = "Qwen3MoeForCausalLM",
  gemma2 = "Gemma2ForCausalLM", olmo2 = "Olmo2ForCausalLM", smollm3 = "SmolLM3ForCausalLM", granite = "GraniteForCausalLM",
  phi3 = "Phi3ForCausalLM", glm4_moe = "Glm4MoeForCausalLM", mixtral = "MixtralForCausalLM",
  gemma3_text = "Gemma3ForCausalLM", gpt_oss = "GptOssForCausalLM", deepseek_v3 = "DeepseekV3ForCausalLM",
}

function gguf.config(g)
  local architecture = g:string "general.architecture"
  local family = families[architecture]
  if not family then unsupported("GGUF architecture '" .. architecture .. "' has no mapping") end
  waive_descriptions(g)
  local key = {}
  for _, kind in ipairs { "int", "number", "string", "bool", "list" } do
    key[kind] = function(name, ...) return g[kind](g, architecture .. "." .. name, ...) end
  end
  function key.waive(name, reason) g:waive(architecture .. "." .. name, reason) end
  local c = common(g, key)
  family(g, key, c)
  c.architectures = { classes[c.model_type] }
  return c
end

-- Names inside a layer: by Hugging Face module, the GGUF module.
local layer_names = {
  ["input_layernorm"] = "attn_norm", ["post_attention_layernorm"] = "ffn_norm",
  ["self_attn.q_proj"] = "attn_q", ["self_attn.k_proj"] = "attn_k", ["self_attn.v_proj"] = "attn_v",
  ["self_attn.o_proj"] = "attn_output", ["self_attn.q_norm"] = "attn_q_norm", ["self_attn.k_norm"] = "attn_k_norm",
  ["self_attn.sinks"] = "attn_sinks.weight",
  ["self_attn.q_a_proj"] = "attn_q_a", ["self_attn.q_a_layernorm"] = "attn_q_a_norm", ["self_attn.q_b_proj"] = "attn_q_b",
  ["self_attn.kv_a_proj_with_mqa"] = "attn_kv_a_mqa", ["self_attn.kv_a_layernorm"] = "attn_kv_a_norm",
  ["self_attn.kv_b_proj"] = "attn_kv_b", ["self_attn.k_b_proj"] = "attn_k_b", ["self_attn.v_b_proj"] = "attn_v_b",
  ["mlp.gate_proj"] = "ffn_gate", ["mlp.up_proj"] = "ffn_up", ["mlp.down_proj"] = "ffn_down",
  ["mlp.gate"] = "ffn_gate_inp", ["mlp.router"] = "ffn_gate_inp",
  ["mlp.gate.e_score_correction_bias"] = "exp_probs_b.bias",
  ["mlp.experts.{}.gate_proj"] = "ffn_gate_exps", ["mlp.experts.{}.up_proj"] = "ffn_up_exps",
  ["mlp.experts.{}.down_proj"] = "ffn_down_exps",
  ["mlp.experts.gate_proj"] = "ffn_gate_exps.weight", ["mlp.experts.up_proj"] = "ffn_up_exps.weight",
  ["mlp.experts.down_proj"] = "ffn_down_exps.weight", ["mlp.experts.gate_proj_bias"] = "ffn_gate_exps.bias",
  ["mlp.experts.up_proj_bias"] = "ffn_up_exps.bias", ["mlp.experts.down_proj_bias"] = "ffn_down_exps.bias",
  ["mlp.shared_experts.gate_proj"] = "ffn_gate_shexp", ["mlp.shared_experts.up_proj"] = "ffn_up_shexp",
  ["mlp.shared_experts.down_proj"] = "ffn_down_shexp",
}
local sandwich = {
  ["post_attention_layernorm"] = "post_attention_norm", ["pre_feedforward_layernorm"] = "ffn_norm",
  ["post_feedforward_layernorm"] = "post_ffw_norm",
}
local other_names = {
  gemma2 = sandwich, gemma3_text = sandwich, olmo2 = sandwich,
  glm4_moe = { ["post_attention_layernorm"] = "post_attention_norm" },
  phi3 = { ["self_attn.qkv_proj"] = "attn_qkv", ["mlp.gate_up_proj"] = "ffn_up" },
  mixtral = {
    ["block_sparse_moe.gate"] = "ffn_gate_inp", ["block_sparse_moe.experts.{}.w1"] = "ffn_gate_exps",
    ["block_sparse_moe.experts.{}.w3"] = "ffn_up_exps", ["block_sparse_moe.experts.{}.w2"] = "ffn_down_exps",
  },
  gpt_oss = { ["post_attention_layernorm"] = "post_attention_norm" },
}
local top_names = {
  ["model.embed_tokens.weight"] = "token_embd.weight", ["model.norm.weight"] = "output_norm.weight",
  ["lm_head.weight"] = "output.weight",
}

-- Families whose q and k rows the writer permutes, and those whose norms it stores as 1 + w.
local permuted = { llama = true, mixtral = true, granite = true, smollm3 = true }
local plus_one = { gemma2 = true, gemma3_text = true }

-- Writers of llama files put the two halves of each q and k head in turn, row by row; this puts them back.
local function unpermute(heads, head_dim)
  return function(v)
    local columns = v:rank() == 2 and v:dim(1) or nil
    if not columns then
      return reshape(transpose(reshape(v, heads, head_dim // 2, 2), 0, 2, 1), heads * head_dim)
    end
    local turned = transpose(reshape(v, heads, head_dim // 2, 2, columns), 0, 2, 1, 3)
    return reshape(turned, heads * head_dim, columns)
  end
end

local function minus_one(v) return v - 1 end

function gguf.mapper(c)
  local model_type = c.model_type
  local names = other_names[model_type] or {}
  local undo = {}
  if permuted[model_type] then
    local head_dim = c:int("head_dim", nil) or c:int "hidden_size" // c:int "num_attention_heads"
    undo.attn_q = unpermute(c:int "num_attention_heads", head_dim)
    undo.attn_k = unpermute(c:int("num_key_value_heads", nil) or c:int "num_attention_heads", head_dim)
  end
  local is_gemma = plus_one[model_type]
  return function(name)
    local top = top_names[name]
    if top then return top, is_gemma and top == "output_norm.weight" and minus_one or nil end
    local layer, rest = name:match "^model%.layers%.(%d+)%.(.+)$"
    if not layer then return nil end
    local module, ending = rest, ""
    local mapped = names[module] or layer_names[module]
    if not mapped then
      module, ending = rest:match "^(.+)(%.%a+)$"
      mapped = module and (names[module] or layer_names[module])
    end
    if not mapped then return nil end
    local fix = undo[mapped]
    if is_gemma and module:sub(-4) == "norm" then fix = minus_one end
    return "blk." .. layer .. "." .. mapped .. ending, fix
  end
end

-- gate and up rows in turn, as columns; all matrices [columns, rows].
local function join_experts(w, at)
  local function take(name)
    local v = w[at .. name]
    w[at .. name] = nil
    return cast(v, "f32")
  end
  local gate, up = take "gate_proj", take "up_proj"
  local count, width, columns = gate:dim(0), gate:dim(1), gate:dim(2)
  w[at .. "gate_up_proj"] = reshape(transpose(stack(gate, up, { axis = 3 }), 0, 2, 1, 3), count, columns, 2 * width)
  local both = stack(take "gate_proj_bias", take "up_proj_bias", { axis = 2 })
  w[at .. "gate_up_proj_bias"] = reshape(both, count, 2 * width)
  w[at .. "down_proj"] = transpose(take "down_proj", 0, 2, 1)
end

local function join_kv_b(w, at)
  local key, value = w[at .. "k_b_proj.weight"], w[at .. "v_b_proj.weight"]
  if not key then return end
  w[at .. "k_b_proj.weight"], w[at .. "v_b_proj.weight"] = nil, nil
  local both = concat(transpose(cast(key, "f32"), 0, 2, 1), cast(value, "f32"), { axis = 1 })
  w[at .. "kv_b_proj.weight"] = reshape(both, both:dim(0) * both:dim(1), both:dim(2))
end

-- w: the tensors by the names that a spec asked for.
function gguf.released(c, w)
  for i = 0, c:int "num_hidden_layers" - 1 do
    local layer = "model.layers." .. i .. "."
    if c.model_type == "gpt_oss" then join_experts(w, layer .. "mlp.experts.") end
    if c.model_type == "deepseek_v3" then join_kv_b(w, layer .. "self_attn.") end
  end
  return w
end

return gguf
