# SPDX-License-Identifier: Apache-2.0
"""Tiny models of the families that draw.py drew (docs/rehearsal.md)."""

from case import Case
from dense_cases import PLAIN, TINY


def gpt_neox_japanese_cases():
    config = {key: TINY[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                         "max_position_embeddings", "bos_token_id", "eos_token_id")}
    config.update(intermediate_multiple_size=2, layer_norm_eps=1e-3)
    yield Case("gpt_neox_japanese", "gpt_neox_japanese", "GPTNeoXJapaneseConfig", {**config, "rope_parameters": PLAIN},
               "layer norms, one bias in the last layer, q, k and v of a head beside each other; tied", capture=True)
    yield Case("gpt_neox_japanese_part", "gpt_neox_japanese", "GPTNeoXJapaneseConfig",
               {**config, "hidden_act": "gelu_new", "tie_word_embeddings": False, "hidden_dropout": 0.1,
                "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0, "partial_rotary_factor": 0.5}},
               "half of a head turns, linear scaling, untied", storage="bfloat16")


def flint_cases():
    config = {**TINY, "head_dim": 12, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20, "num_experts": 6,
              "num_experts_per_tok": 2, "sliding_window": 8, "rope_parameters": PLAIN}
    yield Case("flint", "flint", "FlintConfig", {**config, "num_hidden_layers": 4},
               "layer 2 is windowed and turned, the others see everything without positions; the first two are dense",
               capture=True, storage="bfloat16")
    yield Case("flint_listed", "flint", "FlintConfig",
               {**config, "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                "mlp_only_layers": [], "decoder_sparse_step": 2, "norm_topk_prob": False, "attention_bias": True,
                "tie_word_embeddings": True}, "kinds stated, every other layer sparse, weights as they are; biases, tied",
               storage="bfloat16")


def glm4_cases():
    config = {**TINY, "head_dim": 8, "pad_token_id": 0}
    yield Case("glm4_dense", "glm4", "Glm4Config", {**config, "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
               "norms on both sides of each block, half of a head turned; biases on q, k and v", capture=True,
               storage="bfloat16")
    yield Case("glm4_dense_whole", "glm4", "Glm4Config",
               {**config, "attention_bias": False, "tie_word_embeddings": True, "head_dim": 12,
                "rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}, "the whole head turned, no biases, tied",
               storage="bfloat16")


def cases():
    for group in (gpt_neox_japanese_cases, flint_cases, glm4_cases):
        yield from group()
