-- SPDX-License-Identifier: Apache-2.0
-- Gemma 4, the text model, also inside the multimodal one: windowed and full layers with heads of their own, of which the last
-- ones reuse the keys and values of the last layer of their kind before them; norms on q, k and v; a dense block and experts side by
-- side; embeddings per layer; a factor per layer.
local std = require "std"

local image_keys = {
  "image_token_id", "boi_token_id", "eoi_token_id", "video_token_id", "audio_token_id", "boa_token_id", "eoa_token_id",
  "eoa_token_index", "vision_soft_tokens_per_image",
}

-- Whether a layer is full. The last one always is.
local function full_layers(c, layers)
  local types, is_full = c:list("layer_types", nil), function(i) return (i + 1) % 6 == 0 end
  if types then
    is_full = std.kinds.from_list(types, layers, { "full_attention", "sliding_attention" }, "layer_types") "full_attention"
  end
  return function(i) return is_full(i) or i == layers - 1 end
end

-- Size of a head and number of kv heads of the full layers: stated once (releases), or under each of these layers.
local function full_heads(c, p)
  local each = c:object("per_layer_config", nil)
  if not each then
    if not p.k_is_v then c:waive("num_global_key_value_heads", "attention_k_eq_v is off") end
    return c:count("global_head_dim", 512), p.k_is_v and c:count("num_global_key_value_heads", nil) or p.kv_heads
  end
  local head_dim, kv_heads
  for i = 0, p.layers - 1 do
    if p.is_full(i) then
      local own = each:object(tostring(i))
      head_dim, kv_heads = head_dim or own:count "head_dim", kv_heads or own:count("num_key_value_heads", p.kv_heads)
      own:expect("head_dim", head_dim, "the full layers are alike")
      own:expect("num_key_value_heads", kv_heads, "the full layers are alike")
    end
  end
  return head_dim, kv_heads
end

-- Heads, rope and window of a kind of layer.
local function geometry(c, kind, head_dim, kv_heads, theta, window)
  return {
    state = kind, head_dim = head_dim, kv_heads = kv_heads, window = window,
    rope = std.rope.from_config(c, { dim = head_dim, layer_type = kind, default_theta = theta }),
  }
end

local function read_experts(c, p)
  if c:bool("enable_moe_block", false) then
    p.experts, p.top_k, p.expert_width = c:count "num_experts", c:count "top_k_experts", c:count "moe_intermediate_size"
  else
    for _, key in ipairs { "num_experts", "top_k_experts", "moe_intermediate_size" } do c:waive(key, "no layer has experts") end
  end
end

local function waive_towers(w, c)
  local vision, audio = c:object("vision_config", nil), c:object("audio_config", nil)
  if vision then
    std.towers.waive(w, "model.vision_tower.", "encoder.layers", vision:count "num_hidden_layers", {
      "patch_embedder.input_proj.weight", "patch_embedder.position_embedding_table", "std_bias", "std_scale",
    })
    std.towers.waive(w, "model.embed_vision.", nil, 0, { "embedding_projection.weight" })
  end
  if audio then
    std.towers.waive(w, "model.audio_tower.", "layers", audio:count "num_hidden_layers", { "output_proj.weight", "output_proj.bias" })
    std.towers.waive(w, "model.audio_tower.subsample_conv_projection.", nil, 0, {
      "layer0.conv.weight", "layer0.norm.weight", "layer1.conv.weight", "layer1.norm.weight", "input_proj_linear.weight",
    })
    std.towers.waive(w, "model.embed_audio.", nil, 0, { "embedding_projection.weight" })
  end
end

local function attention(x, w, p, batch, i, caches)
  local g = p.is_full(i) and p.full or p.sliding
  local function project(name, heads, columns)
    local bias = p.bias and w(name .. ".bias", { heads * g.head_dim }) or nil
    return reshape(linear(x, w(name .. ".weight", { heads * g.head_dim, columns }), bias), "T", heads, g.head_dim)
  end
  local function turned(y, name) return rope(std.norm.rms(y, w, name, p), batch.positions, g.rope) end
  if i < p.first_shared then
    local k = project("k_proj", g.kv_heads, p.hidden)
    local v = p.k_is_v and p.is_full(i) and k or project("v_proj", g.kv_heads, p.hidden)
    caches[g.state] = batch.state[g.state][i]:append { k = turned(k, "k_norm"), v = rms_norm(v, { eps = p.eps }) }
  else
    for _, name in ipairs { "k_proj.weight", "v_proj.weight", "k_norm.weight" } do
      w:waive(name, "the layer reuses another layer's keys and values")
    end
  end
  local q = turned(project("q_proj", p.heads, p.hidden), "q_norm")
  local y = attend { q = q, state = caches[g.state], scale = 1.0, window = g.window }
  local bias = p.bias and w("o_proj.bias", { p.hidden }) or nil
  local width = p.heads * g.head_dim
  return linear(reshape(y, "T", width), w("o_proj.weight", { p.hidden, width }), bias)
end

-- A norm, the router's scores, the best k of them over their sum, each times its expert's own factor.
local function route(x, w, p)
  local h = rms_norm(x, { eps = p.eps }) * w("scale", { p.hidden }) * p.hidden ^ -0.5
  local scores = softmax(linear(h, w("proj.weight", { p.experts, p.hidden })))
  local best, idx = top_k(scores, { k = p.top_k })
  local scaled = gather_last(scores * w("per_expert_scale", { p.experts }), idx)
  return idx, scaled / reduce(best, { op = "sum" })
end

local function feed_forward(x, l, p, width)
  local h = std.mlp.glu(std.norm.rms(x, l, "pre_feedforward_layernorm", p), l:scope "mlp", p, width)
  if p.experts then
    local sparse = std.norm.rms(x, l, "pre_feedforward_layernorm_2", p)
    local idx, weight = route(x, l:scope "router", p)
    sparse = std.moe.packed_glu(sparse, l, p, idx, weight, "experts.gate_up_proj", "experts.down_proj", {})
    h = std.norm.rms(h, l, "post_feedforward_layernorm_1", p) + std.norm.rms(sparse, l, "post_feedforward_layernorm_2", p)
  end
  return std.norm.rms(h, l, "post_feedforward_layernorm", p)
end

return architecture {
  matches = {
    model_type = { "gemma4", "gemma4_text" }, architectures = { "Gemma4ForConditionalGeneration", "Gemma4ForCausalLM" },
  },

  parameters = function(outer)
    local c = std.config.text_of(outer, "gemma4_text", image_keys)
    local p = std.config.decoder(c, c:count("head_dim", 256), outer)
    p.outer, p.tied = outer, std.config.agreed_bool("tie_word_embeddings", true, c, outer)
    p.bias, p.intermediate = c:bool("attention_bias", false), c:count "intermediate_size"
    p.act = std.activation(c:string("hidden_activation", "gelu_pytorch_tanh"))
    p.logit_softcap = c:number("final_logit_softcapping", nil)
    c:expect("use_bidirectional_attention", "vision", "text among text is causal")
    p.is_full, p.k_is_v = full_layers(c, p.layers), c:bool("attention_k_eq_v", false)
    local head_dim, kv_heads = full_heads(c, p)
    p.full = geometry(c, "full_attention", head_dim, kv_heads, 1e6, 0)
    p.sliding = geometry(c, "sliding_attention", p.head_dim, p.kv_heads, 1e4, c:count("sliding_window", 512))
    p.first_shared = p.layers - c:int("num_kv_shared_layers", 0)
    p.double_width = c:bool("use_double_wide_mlp", false) and p.first_shared < p.layers
    if p.first_shared == p.layers then c:waive("use_double_wide_mlp", "no layer reuses keys and values") end
    std.per_layer.read(c, p)
    read_experts(c, p)
    return p
  end,

  state = function(p)
    local function log(g, full)
      return append {
        layers = function(i) return i < p.first_shared and p.is_full(i) == full end, window = g.window,
        k = { g.kv_heads, g.head_dim }, v = { g.kv_heads, g.head_dim },
      }
    end
    return { full_attention = log(p.full, true), sliding_attention = log(p.sliding, false) }
  end,

  forward = function(p, w, batch)
    local model, top = std.head.scopes(w)
    waive_towers(w, p.outer)
    local embedding, caches = model("embed_tokens.weight", { p.vocab, p.hidden }), {}
    local x = gather_rows(embedding, batch.tokens) * std.embedding.factor(embedding, math.sqrt(p.hidden))
    local inputs = std.per_layer.inputs(x, model, p, batch)
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      local h = attention(std.norm.rms(x, l, "input_layernorm", p), l:scope "self_attn", p, batch, i, caches)
      x = x + std.norm.rms(h, l, "post_attention_layernorm", p)
      x = x + feed_forward(x, l, p, p.double_width and i >= p.first_shared and 2 * p.intermediate or nil)
      x = std.per_layer.add(x, l, p, inputs, i) * l("layer_scalar", { 1 })
    end
    return { logits = std.head.logits(x, top, p, batch, embedding, model) }
  end,
}
