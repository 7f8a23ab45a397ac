-- SPDX-License-Identifier: Apache-2.0
-- GGUF files in the words of Hugging Face: config(g) turns metadata into a config, mapper(c) gives the function from a
-- tensor's Hugging Face name to its name in the file and, where the file's writer changed the tensor, to a function that
-- undoes the change. Keys "tokenizer.*" are not seen here. A key that nothing reads stops the load like any other. What is a
-- family's own stands in the modules below: families, by the architecture that a file names, fill in the config; models, by model
-- type, tell the class that released configs name, names of tensors and what writers changed.
local tools = require "std.gguf_tools"
local gguf, families, models, own_sizes = {}, {}, {}, { gemma4 = true }
for _, kin in ipairs { "attention", "experts", "recurrent", "qwen_next" } do
  local module = require("std.gguf_" .. kin)
  for name, family in pairs(module.families) do families[name] = family end
  for name, model in pairs(module.models) do models[name] = model end
end

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

-- own_sizes: the family reads those that may differ from layer to layer.
local function common(key, own_sizes)
  local function size(name) return not own_sizes and tools.per_layer(key, name) or nil end
  return {
    num_hidden_layers = key.int "block_count", hidden_size = key.int "embedding_length",
    intermediate_size = size "feed_forward_length", num_attention_heads = key.int "attention.head_count",
    num_key_value_heads = size "attention.head_count_kv",
    rms_norm_eps = key.number "attention.layer_norm_rms_epsilon",
    max_position_embeddings = key.int("context_length", nil), vocab_size = vocabulary(key),
    tie_word_embeddings = not gguf_shape "output.weight", rope_parameters = rope_parameters(key), hidden_act = "silu",
  }
end

function gguf.config(g)
  local architecture = g:string "general.architecture"
  local family = families[architecture]
  if not family then unsupported("GGUF architecture '" .. architecture .. "' has no mapping") end
  waive_descriptions(g)
  local key = {}
  for _, kind in ipairs { "int", "number", "string", "bool", "list" } do
    key[kind] = function(name, ...) return g[kind](g, architecture .. "." .. name, ...) end
  end
  function key.raw(name) return g[architecture .. "." .. name] end
  function key.waive(name, reason) g:waive(architecture .. "." .. name, reason) end
  local c = common(key, own_sizes[architecture])
  family(g, key, c)
  c.architectures = { models[c.model_type].class }
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
local top_names = {
  ["model.embed_tokens.weight"] = "token_embd.weight", ["model.norm.weight"] = "output_norm.weight",
  ["lm_head.weight"] = "output.weight",
}

function gguf.mapper(c)
  local model = models[c.model_type]
  local names, own_tops = model.names or {}, model.top or {}
  local undo = model.undo and model.undo(c) or function() end
  local in_layer = "^" .. (model.prefix or "model") .. "%.layers%.(%d+)%.(.+)$"
  return function(name)
    local top = own_tops[name] or top_names[name]
    if top then return top, undo(name:sub(1, -8), top) end
    local layer, rest = name:match(in_layer)
    if not layer then return nil end
    local module, ending = rest, ""
    local mapped = names[module] or layer_names[module]
    if not mapped then
      module, ending = rest:match "^(.+)(%.%a+)$"
      mapped = module and (names[module] or layer_names[module])
    end
    if not mapped then return nil end
    return "blk." .. layer .. "." .. mapped .. ending, undo(module, mapped)
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

-- Experts that are stored apart as two tensors: gate above up [experts, 2 width, hidden], and down [experts, hidden, width]; or
-- both with rows for columns.
local function join_gate_up(w, at, gate_up, down, transposed)
  if not w[at .. "experts.{}.gate_proj.weight"] then return end
  local function take(name)
    local v = w[at .. "experts.{}." .. name .. ".weight"]
    w[at .. "experts.{}." .. name .. ".weight"] = nil
    return cast(v, "f32")
  end
  local function put(name, v) w[at .. name] = transposed and transpose(v, 0, 2, 1) or v end
  put(gate_up, concat(take "gate_proj", take "up_proj", { axis = 1 }))
  put(down, take "down_proj")
end

-- w: the tensors by the names that a spec asked for.
function gguf.released(c, w)
  local kind = c.model_type
  for i = 0, c:int "num_hidden_layers" - 1 do
    local layer = "model.layers." .. i .. "."
    if kind == "gpt_oss" then join_experts(w, layer .. "mlp.experts.") end
    if kind == "deepseek_v3" or kind == "kimi_linear" or kind == "glm_moe_dsa" then join_kv_b(w, layer .. "self_attn.") end
    if kind == "granitemoe" then
      join_gate_up(w, layer .. "block_sparse_moe.", "input_linear.weight", "output_linear.weight", false)
    end
    if kind == "llama4_text" then
      join_gate_up(w, layer .. "feed_forward.", "experts.gate_up_proj", "experts.down_proj", true)
    end
    if models[kind].released then models[kind].released(c, w, layer) end
  end
  return w
end

return gguf
