# SPDX-License-Identifier: Apache-2.0
"""One small model in every spelling of vendor_formats.py, and two with experts."""

import vendor_formats
from case import Case

DENSE = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-3, bos_token_id=1,
             eos_token_id=2, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
SPARSE = {**DENSE, "moe_intermediate_size": 32, "num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": True,
          "mlp_only_layers": [1]}
ODD = dict(hidden_size=72, intermediate_size=40)  # no whole blocks of 32: decoded at load


def cases():
    for kind in vendor_formats.KINDS:
        if kind == "int4_symmetric":
            continue
        yield Case("quant_" + kind, "llama", "LlamaConfig", DENSE, "projections stored as " + kind, quantise=kind)
    for kind in ("int4_symmetric", "nvfp4_modelopt"):
        yield Case("quant_moe_" + kind, "qwen3_moe", "Qwen3MoeConfig", SPARSE, "experts stored as " + kind, quantise=kind)
    yield Case("quant_odd_fp8_channel", "llama", "LlamaConfig", {**DENSE, **ODD}, "columns that fill no blocks",
               quantise="fp8_channel")


__all__ = ["cases"]
