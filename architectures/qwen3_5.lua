-- SPDX-License-Identifier: Apache-2.0
-- Qwen3.5, dense and with experts, the text model alone, also inside the config and files of the multimodal one: the blocks of
-- Qwen3-Next with projections of their own.
local std = require "std"

local media_keys = { "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id" }
local vision_tensors = {
  "merger.linear_fc1.bias", "merger.linear_fc1.weight", "merger.linear_fc2.bias", "merger.linear_fc2.weight",
  "merger.norm.bias", "merger.norm.weight", "patch_embed.proj.bias", "patch_embed.proj.weight", "pos_embed.weight",
}

local function waive_position_axes(c)
  local rope = c:object("rope_parameters", nil)
  for _, key in ipairs { "mrope_section", "mrope_interleaved" } do
    if rope then rope:waive(key, "the positions of text are the same on every axis") end
  end
end

return architecture {
  matches = {
    model_type = { "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text" },
    architectures = {
      "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM",
    },
  },

  parameters = function(outer)
    local sparse = outer.model_type:find "moe" ~= nil
    local c = std.config.text_of(outer, sparse and "qwen3_5_moe_text" or "qwen3_5_text", media_keys)
    waive_position_axes(c)
    local p = std.qwen_next.parameters(c, outer)
    p.outer, p.tied = outer, std.config.agreed_bool("tie_word_embeddings", false, c, outer)
    p.norm_topk, p.is_sparse = true, function() return sparse end
    if sparse then
      std.qwen_next.read_experts(c, p)
      c:waive("intermediate_size", "every layer has experts")
    else
      p.intermediate = c:count "intermediate_size"
    end
    local listed = c:list("mlp_only_layers", nil)
    if listed and #listed > 0 then unsupported "mlp_only_layers in Qwen3.5: its layers are all alike" end
    c:expect("attn_output_gate", true)
    c:waive("mamba_ssm_dtype", "states are float32 here")
    p.prediction_layers = c:int("mtp_num_hidden_layers", 0)
    c:waive("mtp_num_hidden_layers", "extra prediction layers are not run")
    c:waive("mtp_use_dedicated_embeddings", "extra prediction layers are not run")
    return p
  end,

  state = std.qwen_next.state,
  predict = std.qwen_next.predict,

  forward = function(p, w, batch)
    local model, top = std.head.scopes(w)
    local vision = p.outer:object("vision_config", nil)
    for _, prefix in ipairs(vision and { "model.visual.", "visual." } or {}) do
      std.towers.waive(w, prefix, "blocks", vision:count "depth", vision_tensors)
    end
    std.qwen_next.skip_prediction_layers(w, p.prediction_layers, p.layers)
    return { logits = std.qwen_next.logits(p, top, model, batch) }
  end,
}
