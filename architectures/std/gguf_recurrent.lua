-- SPDX-License-Identifier: Apache-2.0
-- GGUF files of families with recurrent layers (gguf.lua): their metadata in the words of Hugging Face, names that are their
-- own, and what writers change in their tensors. Which layers are recurrent is read off the tensors.
local tools = require "std.gguf_tools"
local find, has, ssm, undo_ssm = tools.find, tools.has, tools.ssm_names, tools.undo_ssm
local families, models = {}, {}

local function forget(c, keys)
  for _, key in ipairs(keys) do c[key] = nil end
end

local function no_positions(key, c)
  c.rope_parameters = nil
  for _, name in ipairs { "rope.freq_base", "rope.dimension_count" } do key.waive(name, "this family has no positions") end
end

-- The first layer of these whose tensor is there, and how many layers on the next is; for a kind that one layer has, the
-- number of layers.
local function period(c, name)
  local first, second
  for i = 0, c.num_hidden_layers - 1 do
    if has(i, name) then
      if not first then first = i elseif not second then second = i end
    end
  end
  if not first then unsupported("GGUF: no layer has " .. name) end
  local every = second and second - first or c.num_hidden_layers
  for i = 0, c.num_hidden_layers - 1 do
    if has(i, name) ~= (i % every == first) then unsupported("GGUF: layers with " .. name .. " at no even distance: " .. i) end
  end
  return every, first
end

-- The sizes of Mamba-2 layers.
local function read_mamba2(key, c, heads, dim, size)
  c[heads], c[size] = key.int "ssm.time_step_rank", key.int "ssm.state_size"
  c[dim], c.n_groups = key.int "ssm.inner_size" // c[heads], key.int "ssm.group_count"
  c.conv_kernel, c.use_conv_bias = key.int "ssm.conv_kernel", find(c, "ssm_conv1d.bias") ~= nil
  c.layer_norm_epsilon = key.number("attention.layer_norm_epsilon", nil) or c.rms_norm_eps
end

function families.mamba2(g, key, c)
  c.model_type, c.use_bias = "mamba2", find(c, "ssm_in.bias") ~= nil
  read_mamba2(key, c, "num_heads", "head_dim", "state_size")
  c.expand = key.int "ssm.inner_size" // c.hidden_size
  forget(c, { "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps" })
  for _, name in ipairs { "feed_forward_length", "attention.head_count", "attention.head_count_kv" } do
    key.waive(name, "no layer has such a block")
  end
  no_positions(key, c)
end

function families.jamba(g, key, c)
  c.model_type = "jamba"
  no_positions(key, c)
  c.attn_layer_period, c.attn_layer_offset = period(c, "attn_q.weight")
  tools.per_layer(key, "attention.head_count_kv", "attn_q.weight")
  c.num_experts, c.num_experts_per_tok = key.int "expert_count", key.int "expert_used_count"
  c.expert_layer_period, c.expert_layer_offset = period(c, "ffn_gate_inp.weight")
  c.mamba_expand, c.mamba_d_state = key.int "ssm.inner_size" // c.hidden_size, key.int "ssm.state_size"
  c.mamba_d_conv, c.mamba_dt_rank = key.int "ssm.conv_kernel", key.int "ssm.time_step_rank"
  c.mamba_proj_bias, c.mamba_conv_bias = find(c, "ssm_in.bias") ~= nil, find(c, "ssm_conv1d.bias") ~= nil
end

function families.lfm2(g, key, c)
  c.model_type, c.norm_eps, c.rms_norm_eps = "lfm2", c.rms_norm_eps, nil
  tools.head_size(key, c)
  c.layer_types = tools.kinds(c, { { "shortconv.conv.weight", "conv" }, { "attn_q.weight", "full_attention" } })
  tools.per_layer(key, "attention.head_count_kv", "attn_q.weight")
  c.conv_L_cache, c.conv_bias = key.int "shortconv.l_cache", find(c, "shortconv.conv.bias") ~= nil
  c.block_auto_adjust_ff_dim, c.hidden_act = false, nil
end

families["kimi-linear"] = function(g, key, c)
  c.model_type, c.model_max_length = "kimi_linear", c.max_position_embeddings
  c.num_key_value_heads, c.max_position_embeddings = c.num_attention_heads, nil
  key.waive("attention.head_count_kv", "the one latent row; every head reads it")
  c.layer_types = tools.kinds(c, { { "ssm_a", "linear_attention" }, { "attn_kv_a_mqa.weight", "full_attention" } })
  c.linear_conv_kernel_dim, c.linear_head_dim = key.int "ssm.conv_kernel", key.int "kda.head_dim"
  c.linear_num_heads = find(c, "ssm_beta.weight")[1]
  local rope_dim = key.int "rope.dimension_count"
  c.q_lora_rank, c.kv_lora_rank = key.int("attention.q_lora_rank", nil), key.int "attention.kv_lora_rank"
  c.qk_rope_head_dim, c.qk_nope_head_dim = rope_dim, key.int "attention.key_length_mla" - rope_dim
  c.v_head_dim = key.int "attention.value_length_mla"
  for _, name in ipairs { "attention.key_length", "attention.value_length" } do
    key.waive(name, "the latent row; key_length_mla and value_length_mla state the heads")
  end
  c.rope_parameters = nil
  c.first_k_dense_replace, c.moe_renormalize = key.int "leading_dense_block_count", key.bool("expert_weights_norm", true)
  c.num_experts, c.num_experts_per_token = key.int "expert_count", key.int "expert_used_count"
  c.num_expert_group, c.topk_group = key.int("expert_group_count", 1), key.int("expert_group_used_count", 1)
  c.num_shared_experts, c.moe_intermediate_size = key.int "expert_shared_count", key.int "expert_feed_forward_length"
  c.routed_scaling_factor, c.mla_use_nope = key.number "expert_weights_scale", true
  if key.int("expert_gating_func", 2) ~= 2 then unsupported "GGUF: a kimi-linear whose experts are not chosen by sigmoid" end
end

local function nemotron(g, key, c)
  c.model_type, c.mlp_hidden_act, c.mamba_hidden_act, c.hidden_act = "nemotron_h", "relu2", "silu", nil
  no_positions(key, c)
  c.head_dim = key.int "attention.key_length"
  key.waive("attention.value_length", "key_length is the size of every head")
  c.layers_block_type = tools.kinds(c, {
    { "ssm_a", "mamba" }, { "attn_q.weight", "attention" }, { "ffn_gate_inp.weight", "moe" }, { "ffn_up.weight", "mlp" },
  })
  read_mamba2(key, c, "mamba_num_heads", "mamba_head_dim", "ssm_state_size")
  c.rms_norm_eps = nil
  tools.per_layer(key, "attention.head_count_kv", "attn_q.weight")
  for _, name in ipairs { "feed_forward_length", "attention.layer_norm_rms_epsilon" } do
    key.waive(name, "another key or the tensors state it as well")
  end
end

families.nemotron_h = nemotron
function families.nemotron_h_moe(g, key, c)
  nemotron(g, key, c)
  tools.read_experts(key, c, { count = "n_routed_experts", top = "num_experts_per_tok" })
  c.moe_intermediate_size, c.n_shared_experts = key.int "expert_feed_forward_length", key.int "expert_shared_count"
  c.moe_shared_expert_intermediate_size = key.int "expert_shared_feed_forward_length"
  c.n_group, c.topk_group = key.int("expert_group_count", 1), key.int("expert_group_used_count", 1)
  c.norm_topk_prob, c.routed_scaling_factor = key.bool "expert_weights_norm", key.number "expert_weights_scale"
  c.moe_latent_size = key.int("moe_latent_size", nil)
end

models.mamba2 = {
  class = "Mamba2ForCausalLM", prefix = "backbone", undo = undo_ssm(true),
  top = { ["backbone.embeddings.weight"] = "token_embd.weight", ["backbone.norm_f.weight"] = "output_norm.weight" },
  names = ssm("mixer", { norm = "attn_norm", ["mixer.dt_bias"] = "ssm_dt.bias" }),
}
models.nemotron_h = {
  class = "NemotronHForCausalLM", prefix = "backbone", top = models.mamba2.top, undo = models.mamba2.undo,
  names = ssm("mixer", {
    norm = "attn_norm", ["mixer.dt_bias"] = "ssm_dt.bias", ["mixer.q_proj"] = "attn_q", ["mixer.k_proj"] = "attn_k",
    ["mixer.v_proj"] = "attn_v", ["mixer.o_proj"] = "attn_output", ["mixer.up_proj"] = "ffn_up",
    ["mixer.down_proj"] = "ffn_down", ["mixer.gate"] = "ffn_gate_inp", ["mixer.experts.{}.up_proj"] = "ffn_up_exps",
    ["mixer.experts.{}.down_proj"] = "ffn_down_exps", ["mixer.gate.e_score_correction_bias"] = "exp_probs_b.bias",
    ["mixer.shared_experts.up_proj"] = "ffn_up_shexp", ["mixer.shared_experts.down_proj"] = "ffn_down_shexp",
    ["mixer.fc1_latent_proj"] = "ffn_latent_down", ["mixer.fc2_latent_proj"] = "ffn_latent_up",
  }),
}
models.jamba = {
  class = "JambaForCausalLM", undo = undo_ssm(false), top = { ["model.final_layernorm.weight"] = "output_norm.weight" },
  names = ssm("mamba", {
    ["mamba.x_proj"] = "ssm_x", ["mamba.dt_proj"] = "ssm_dt", ["mamba.dt_layernorm"] = "ssm_dt_norm",
    ["mamba.b_layernorm"] = "ssm_b_norm", ["mamba.c_layernorm"] = "ssm_c_norm", pre_ff_layernorm = "ffn_norm",
    ["feed_forward.router"] = "ffn_gate_inp",
  }, tools.blocks("feed_forward", ""), tools.blocks("feed_forward.experts.{}", "_exps")),
}
models.lfm2 = {
  class = "Lfm2ForCausalLM", top = { ["model.embedding_norm.weight"] = "token_embd_norm.weight" },
  names = tools.names({
    operator_norm = "attn_norm", ffn_norm = "ffn_norm", ["conv.conv"] = "shortconv.conv",
    ["conv.in_proj"] = "shortconv.in_proj", ["conv.out_proj"] = "shortconv.out_proj", ["self_attn.q_layernorm"] = "attn_q_norm",
    ["self_attn.k_layernorm"] = "attn_k_norm", ["self_attn.out_proj"] = "attn_output",
  }, tools.blocks("feed_forward", "", { "w1", "w3", "w2" })),
  undo = function()
    return function(_, mapped) return mapped == "shortconv.conv" and tools.with_middle_axis or nil end
  end,
}

models.kimi_linear = {
  class = "KimiLinearForCausalLM",
  undo = function(c)
    return function(_, mapped)
      if mapped:match "^ssm_conv1d" then return tools.with_middle_axis end
      if mapped ~= "ssm_a" then return nil end
      return function(v) return reshape(tools.log_rates(tools.flat(v)), 1, 1, c:int "linear_num_heads", 1) end
    end
  end,
  names = tools.names({
    ["self_attn.q_conv1d"] = "ssm_conv1d_q", ["self_attn.k_conv1d"] = "ssm_conv1d_k", ["self_attn.v_conv1d"] = "ssm_conv1d_v",
    ["self_attn.f_a_proj"] = "ssm_f_a", ["self_attn.f_b_proj"] = "ssm_f_b", ["self_attn.b_proj"] = "ssm_beta",
    ["self_attn.g_a_proj"] = "ssm_g_a", ["self_attn.g_b_proj"] = "ssm_g_b", ["self_attn.dt_bias"] = "ssm_dt.bias",
    ["self_attn.A_log"] = "ssm_a", ["self_attn.o_norm"] = "ssm_norm",
    ["block_sparse_moe.gate.e_score_correction_bias"] = "exp_probs_b.bias",
  }, tools.mixtral, tools.blocks("block_sparse_moe.shared_experts", "_shexp")),
}

return { families = families, models = models }
