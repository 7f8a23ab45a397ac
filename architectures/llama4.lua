-- SPDX-License-Identifier: Apache-2.0
-- Llama 4, the text model, also inside the multimodal one: layers that turn q and k see a chunk of the sequence, every fourth
-- sees all of it and has no positions; one expert's weight multiplies its input; one shared expert.
local std = require "std"

local image_keys = { "boi_token_index", "eoi_token_index", "image_token_index" }

-- The chunk of each layer, 0 for none.
local function chunks(c, layers, turns)
  local size, types = c:count("attention_chunk_size", nil), c:list("layer_types", nil)
  local function is_chunked(i) return turns(i) and size ~= nil end
  if types then
    is_chunked = std.kinds.from_list(types, layers, { "chunked_attention", "full_attention" }, "layer_types") "chunked_attention"
  end
  local any = std.kinds.any(layers, is_chunked)
  if any and not size then error "a layer is chunked, but attention_chunk_size is missing or null" end
  if not any then c:waive("attention_chunk_size", "no layer is chunked") end
  return function(i) return is_chunked(i) and size or 0 end
end

local function sparse_layers(c, layers)
  local listed = c:list("moe_layers", nil)
  if listed then
    c:waive("interleave_moe_layer_step", "moe_layers lists the layers with experts")
    return std.kinds.listed(listed, 0, layers, "moe_layers")
  end
  local step = c:count("interleave_moe_layer_step", 1)
  return function(i) return (i + 1) % step == 0 end
end

-- Layers that turn q and k norm them then, without a weight; the others scale q by the length of what it sees.
local function adjustment(p, positions)
  local floor_scale, scale = p.floor_scale, p.attn_scale
  return function(y, name, layer)
    if name == "v" then return y end
    if p.turns(layer) then return p.normed and rms_norm(y, { eps = p.eps }) or y end
    if name == "k" or not p.tuned then return y end
    return map(function(q, at) return q * (log1p(floor((at + 1) / floor_scale)) * scale + 1) end, y, positions)
  end
end

-- One matrix for gate and up of all experts; GGUF files have all of them apart.
local function routed(x, w, p)
  local best, idx = top_k(linear(x, w("router.weight", { p.experts, p.hidden })), { k = p.top_k })
  local weight, how = sigmoid(best), { transposed = true, weight_on = "input" }
  if w:has "experts.{}.gate_proj.weight" then return std.moe.glu(x, w, p, idx, weight, nil, how.weight_on) end
  return std.moe.packed_glu(x, w, p, idx, weight, "experts.gate_up_proj", "experts.down_proj", how)
end

local tower_tensors = {
  "class_embedding", "positional_embedding_vlm", "patch_embedding.linear.weight", "layernorm_pre.weight",
  "layernorm_pre.bias", "layernorm_post.weight", "layernorm_post.bias", "vision_adapter.mlp.fc1.weight",
  "vision_adapter.mlp.fc2.weight",
}

local function waive_vision(w, c)
  local vision = c:object("vision_config", nil)
  if not vision then return end
  std.towers.waive(w, "vision_model.", "model.layers", vision:count "num_hidden_layers", tower_tensors)
  std.towers.waive(w, "multi_modal_projector.", nil, 0, { "linear_1.weight" })
end

return architecture {
  matches = {
    model_type = { "llama4", "llama4_text" }, architectures = { "Llama4ForConditionalGeneration", "Llama4ForCausalLM" },
  },

  parameters = function(outer)
    local c = std.config.text_of(outer, "llama4_text", image_keys)
    local p = std.config.decoder(c, nil, outer)
    p.outer, p.tied = outer, std.config.agreed_bool("tie_word_embeddings", false, c, outer)
    p.qkv_bias = c:bool("attention_bias", false)
    p.o_bias = p.qkv_bias
    p.act = std.activation(c:string "hidden_act")
    p.turns = std.rope.turning_layers(c, p.layers)
    local table_of = std.rope.from_config(c, { dim = p.head_dim, style = "interleaved", default_theta = 5e5 })
    p.rope = function(i) return p.turns(i) and table_of or nil end
    p.normed, p.tuned = c:bool("use_qk_norm", true), c:bool("attn_temperature_tuning", true)
    p.floor_scale, p.attn_scale = c:number("floor_scale", 8192), c:number("attn_scale", 0.1)
    if not p.tuned then
      for _, key in ipairs { "floor_scale", "attn_scale" } do c:waive(key, "attn_temperature_tuning is off") end
    end
    p.chunk, p.is_sparse = chunks(c, p.layers, p.turns), sparse_layers(c, p.layers)
    p.window = p.chunk
    p.experts, p.top_k = c:count "num_local_experts", c:count "num_experts_per_tok"
    p.expert_width, p.intermediate = c:count "intermediate_size", c:count "intermediate_size_mlp"
    if not std.kinds.any(p.layers, function(i) return not p.is_sparse(i) end) then
      c:waive("intermediate_size_mlp", "every layer has experts")
    end
    return p
  end,

  state = function(p)
    return { kv = append { window = p.window, k = { p.kv_heads, p.head_dim }, v = { p.kv_heads, p.head_dim } } }
  end,

  forward = function(p, w, batch)
    local model, top = std.head.scopes(w)
    waive_vision(w, p.outer)
    p.adjust = adjustment(p, reshape(cast(batch.positions, "f32"), "T", 1, 1))
    local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
    local x = gather_rows(embedding, batch.tokens)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      local mlp = l:scope "feed_forward"
      x = x + std.attention.gqa(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i)
      local h = std.norm.rms(x, l, "post_attention_layernorm", p)
      if p.is_sparse(i) then
        x = x + routed(h, mlp, p) + std.mlp.glu(h, mlp:scope "shared_expert", p, p.expert_width)
      else
        x = x + std.mlp.glu(h, mlp, p)
      end
    end
    return { logits = std.head.logits(x, top, p, batch, embedding, model) }
  end,
}
