-- SPDX-License-Identifier: Apache-2.0
-- What decoders read from their configs alike, and the keys that say nothing about the computation.
local config = {}

local idle = {
  _name_or_path = "where the config came from",
  attention_dropout = "training only",
  auto_map = "remote code, which is never run",
  dtype = "the tensors state their own type",
  initializer_range = "training only",
  output_router_logits = "training only",
  pretraining_tp = "how training was split; the tensors are whole",
  router_aux_loss_coef = "training only",
  torch_dtype = "the tensors state their own type",
  transformers_version = "the version that wrote the config",
  use_cache = "a setting of another program",
}

function config.idle(c)
  for key, reason in pairs(idle) do c:waive(key, reason) end
end

-- Facts of the model that are not computation.
function config.facts(c)
  fact("max_positions", c:count("max_position_embeddings", nil))
  fact("bos_token_id", c.bos_token_id)
  fact("eos_token_id", c.eos_token_id)
  fact("pad_token_id", c.pad_token_id)
end

-- Null, absent and 0 head sizes mean hidden / heads.
local function head_size(c, hidden, heads)
  local size = c:count("head_dim", nil)
  if size then return size end
  if hidden % heads ~= 0 then
    error("no head_dim, and hidden_size " .. hidden .. " is not a multiple of " .. heads .. " heads")
  end
  return hidden // heads
end

function config.decoder(c)
  config.idle(c)
  config.facts(c)
  local hidden, heads = c:count "hidden_size", c:count "num_attention_heads"
  local head_dim = head_size(c, hidden, heads)
  return {
    layers = c:count "num_hidden_layers", hidden = hidden, heads = heads,
    kv_heads = c:count("num_key_value_heads", nil) or heads,
    head_dim = head_dim, scale = head_dim ^ -0.5,
    eps = c:number "rms_norm_eps", vocab = c:count "vocab_size",
  }
end

return config
