-- SPDX-License-Identifier: Apache-2.0
-- Kimi K3, the text model alone: Kimi Linear with gated attention, a lower bound of the decay, experts in a latent space, and
-- attention residuals: each block reads a mixture of the sums that earlier groups of layers left, and of the running one.
local std = require "std"

local media_keys = { "media_placeholder_token_id", "image_token_index", "ignore_index" }

-- beta tanh(g / beta) sigmoid(g), times the other half, which may be bounded the same way.
local function situ(beta, bound)
  local function gate(g) return beta * tanh(g / beta) * sigmoid(g) end
  if not bound then return function(g, u) return gate(g) * u end end
  return function(g, u) return gate(g) * (bound * tanh(u / bound)) end
end

-- softmax over the rows v of <proj, norm(v)>, and the rows' mixture by it. rows: [T, hidden] each.
local function mixture(rows, w, name, p)
  if #rows == 1 then
    for _, part in ipairs { "_norm.weight", "_proj.weight" } do w:waive(name .. part, "there is one row to choose from") end
    return rows[1]
  end
  local list = { table.unpack(rows) }
  list[#list + 1] = { axis = 1 }
  local all = stack(table.unpack(list))
  local proj = reshape(w(name .. "_proj.weight", { 1, p.hidden }), p.hidden)
  local score = reduce(std.norm.rms(all, w, name .. "_norm", p) * proj, { op = "sum", keep = false })
  return reduce(all * reshape(softmax(score), "T", #rows, 1), { op = "sum", axis = 1, keep = false })
end

local function with(rows, last)
  local all = { table.unpack(rows) }
  all[#all + 1] = last
  return all
end

local function experts(x, w, p)
  local function project(name, y, rows) return linear(y, w(name .. ".weight", { rows, y:dim(-1) })) end
  local idx, weight = std.moe.sigmoid_router(x, w, p)
  local y = p.latent and project("routed_expert_down_proj", x, p.latent) or x
  y = std.moe.glu(y, w, p, idx, weight, p.latent)
  if p.latent_norm then y = std.norm.rms(y, w, "routed_expert_norm", p) end
  if p.latent then y = project("routed_expert_up_proj", y, p.hidden) end
  if p.shared == 0 then return y end
  return y + std.mlp.glu(x, w:scope "shared_experts", p, p.expert_width * p.shared)
end

local function waive_vision(w, outer)
  local vision = outer:object("vision_config", nil)
  if not vision then return end
  std.towers.waive(w, "vision_tower.", "encoder.blocks", vision:count("vt_num_hidden_layers", 27), {
    "patch_embed.proj.weight", "patch_embed.proj.bias", "patch_embed.pos_emb.weight", "encoder.final_layernorm.weight",
    "encoder.final_layernorm.bias",
  })
  std.towers.waive(w, "mm_projector.", nil, 0, {
    "proj.0.weight", "proj.0.bias", "proj.2.weight", "proj.2.bias", "pre_norm.weight", "pre_norm.bias", "post_norm.weight",
  })
end

return architecture {
  matches = { model_type = { "kimi_k3" }, architectures = { "KimiK3ForConditionalGeneration" } },

  parameters = function(outer)
    local c = std.config.text_of(outer, "kimi_linear", media_keys)
    outer:waive("vocab_size", "text_config states the vocabulary of the text model")
    local p = std.kimi.parameters(c, outer)
    p.outer, p.delta.padded_rates, p.tied = outer, true, std.config.agreed_bool("tie_word_embeddings", false, c, outer)
    c:expect("hidden_act", "situ")
    p.act = std.activation "silu"  -- after the convolutions
    p.combine = situ(c:number("activation_situ_beta", 1.0), c:number("activation_situ_linear_beta", nil))
    p.gate = c:bool("mla_use_output_gate", false) and "g_proj" or nil
    p.block = c:count "attn_res_block_size"
    p.latent = c:count("routed_expert_hidden_size", nil)
    p.latent_norm = c:bool("latent_moe_use_norm", false) and p.latent ~= nil
    return p
  end,

  state = std.kimi.state,

  forward = function(p, w, batch)
    waive_vision(w, p.outer)
    local text = w:has "language_model.model.embed_tokens.weight" and w:scope "language_model" or w
    local model = text:scope "model"
    local embedding = model("embed_tokens.weight", { p.vocab, p.hidden })
    local sum, earlier = gather_rows(embedding, batch.tokens), {}
    for i = 0, p.layers - 1 do
      local l = model:scope("layers." .. i)
      local h = std.norm.rms(mixture(with(earlier, sum), l, "self_attention_res", p), l, "input_layernorm", p)
      local y = (p.is_full(i) and std.attention.mla or std.mixer.kda)(h, l:scope "self_attn", p, batch, i)
      if i % p.block == 0 then
        earlier, sum = with(earlier, sum), y
      else
        sum = sum + y
      end
      h = std.norm.rms(mixture(with(earlier, sum), l, "mlp_res", p), l, "post_attention_layernorm", p)
      sum = sum + (p.is_dense(i) and std.mlp.glu(h, l:scope "mlp", p) or experts(h, l:scope "block_sparse_moe", p))
    end
    local x = mixture(with(earlier, sum), model, "output_attn_res", p)
    return { logits = std.head.logits(x, text, p, batch, embedding, model) }
  end,

  render = function(chat, write) return require "std.chat_xtml" (chat, write) end,
}
