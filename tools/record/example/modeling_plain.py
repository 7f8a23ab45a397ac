# SPDX-License-Identifier: Apache-2.0
"""A decoder written from its description, for a model directory that brings its own code: copied there, with

    "architectures": ["PlainForCausalLM"],
    "auto_map": {"AutoConfig": "modeling_plain.PlainConfig", "AutoModelForCausalLM": "modeling_plain.PlainForCausalLM"}

in its config.json, it is what `record.py --trust-remote-code` runs. It shares no line with a library's model.
"""

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class PlainConfig(PretrainedConfig):
    model_type = "llama"


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        self.width = getattr(c, "head_dim", None) or c.hidden_size // self.heads
        self.theta = (getattr(c, "rope_parameters", None) or {}).get("rope_theta", getattr(c, "rope_theta", None) or 1e4)
        self.q_proj = nn.Linear(c.hidden_size, self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(self.heads * self.width, c.hidden_size, bias=False)

    def turn(self, x):
        half = self.width // 2
        rates = self.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(x.shape[0], dtype=torch.float64)[:, None, None] * rates
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x):
        tokens = x.shape[0]
        q = self.turn(self.q_proj(x).view(tokens, self.heads, self.width))
        k = self.turn(self.k_proj(x).view(tokens, self.kv_heads, self.width))
        v = self.v_proj(x).view(tokens, self.kv_heads, self.width)
        group = self.heads // self.kv_heads
        scores = torch.einsum("thd,shd->hts", q, k.repeat_interleave(group, 1)) * self.width**-0.5
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), float("-inf"))
        y = torch.einsum("hts,shd->thd", scores.softmax(-1), v.repeat_interleave(group, 1))
        return self.o_proj(y.reshape(tokens, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * gate.sigmoid() * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(c.hidden_size, c.rms_norm_eps), Attention(c)
        self.post_attention_layernorm, self.mlp = Norm(c.hidden_size, c.rms_norm_eps), Mlp(c)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = Norm(c.hidden_size, c.rms_norm_eps)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class PlainForCausalLM(PreTrainedModel):
    config_class = PlainConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = Stack(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def forward(self, input_ids, use_cache=False):
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids[0]))[None])
