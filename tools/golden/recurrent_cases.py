# SPDX-License-Identifier: Apache-2.0
"""The variants with recurrent layers whose goldens are recorded: gated delta rule (qwen3_next, qwen3_5, kimi_linear),
short convolutions (lfm2), selective state spaces (mamba2, nemotron_h, jamba) and lightning attention (minimax).

Prompts are longer than every convolution and block, so that state carries over in each layer.
"""

from case import Case

TINY = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-3, bos_token_id=1, eos_token_id=2, pad_token_id=0)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2,
             linear_num_value_heads=4)
SPARSE = dict(moe_intermediate_size=12, num_experts=6, num_experts_per_tok=2, shared_expert_intermediate_size=16)
# Rounded products would change who is routed where: these keep their weights in float32, and are smaller for it.
SMALL = dict(hidden_size=24, intermediate_size=32, moe_intermediate_size=8, num_experts=5,
             shared_expert_intermediate_size=8)
QUARTER = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
ROTATED = r"(input_layernorm|post_attention_layernorm|q_norm|k_norm|language_model\.norm|model\.norm)\.weight$"


def qwen3_next_cases():
    config = {**TINY, **DELTA, **SPARSE, "head_dim": 16, "rope_parameters": QUARTER}
    yield Case("qwen3_next", "qwen3_next", "Qwen3NextConfig", {**config, **SMALL, "num_hidden_layers": 4},
               "three gated delta layers, one gated attention layer, experts and a gated shared expert; a prediction layer",
               capture=True, zero_centred=ROTATED, prediction_layer="qwen")
    yield Case("qwen3_next_dense", "qwen3_next", "Qwen3NextConfig",
               {**config, "num_hidden_layers": 3, "mlp_only_layers": [0], "norm_topk_prob": False, "head_dim": 12,
                "layer_types": ["full_attention", "linear_attention", "linear_attention"], "attention_bias": True,
                "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 3,
                "rope_parameters": {**QUARTER, "partial_rotary_factor": 0.5}, "tie_word_embeddings": True},
               "a dense layer, weights not renormalised, biases, as many key as value heads, tied",
               storage="bfloat16", zero_centred=ROTATED)


VISION = dict(depth=1, hidden_size=8, intermediate_size=12, num_heads=2, in_channels=3, patch_size=2,
              spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=32, num_position_embeddings=4)
IDS = dict(image_token_id=60, video_token_id=61, vision_start_token_id=62, vision_end_token_id=63)
MROPE = {**QUARTER, "mrope_section": [1, 1, 0], "mrope_interleaved": True}


def qwen3_5_cases():
    text = {**TINY, **DELTA, "head_dim": 16, "rope_parameters": MROPE, "num_hidden_layers": 4}
    released = dict(mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, attn_output_gate=True,
                    mamba_ssm_dtype="float32", full_attention_interval=4)
    yield Case("qwen3_5", "qwen3_5", "Qwen3_5Config",
               dict(text_config={**text, **released}, vision_config=VISION, tie_word_embeddings=False, **IDS),
               "the text model inside the multimodal config, separate projections; text alone is computed; a "
               "prediction layer", class_name="Qwen3_5ForConditionalGeneration", capture=True, storage="bfloat16",
               zero_centred=ROTATED, prediction_layer="qwen")
    yield Case("qwen3_5_text", "qwen3_5", "Qwen3_5TextConfig",
               {**text, "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"],
                "attention_bias": True, "tie_word_embeddings": True},
               "the text model alone, biases, tied", storage="bfloat16", zero_centred=ROTATED)
    moe = {k: v for k, v in {**text, **SPARSE, **SMALL}.items() if k != "intermediate_size"}
    yield Case("qwen3_5_moe", "qwen3_5_moe", "Qwen3_5MoeConfig",
               dict(text_config={**moe, **released, "num_hidden_layers": 4},
                    vision_config={**VISION, "out_hidden_size": 24}, tie_word_embeddings=False, **IDS),
               "experts stacked in one tensor, a gated shared expert, inside the multimodal config; a prediction layer",
               class_name="Qwen3_5MoeForConditionalGeneration", capture=True, zero_centred=ROTATED, prediction_layer="qwen")


# The library writes the dense layers under the name of the sparse ones; releases do not.
DENSE = (r"block_sparse_moe\.((gate|up|down)_proj)", r"mlp.\1")


def kimi_linear_cases():
    config = dict(vocab_size=64, hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_attention_heads=4,
                  num_key_value_heads=4, num_hidden_layers=4, kv_lora_rank=12, q_lora_rank=None, qk_nope_head_dim=8,
                  qk_rope_head_dim=4, v_head_dim=8, n_shared_experts=1, num_local_experts=6, num_experts_per_tok=2,
                  routed_scaling_factor=2.446, max_position_embeddings=256, rms_norm_eps=1e-3, bos_token_id=1,
                  eos_token_id=2, pad_token_id=0, linear_head_dim=8, linear_num_heads=3, linear_conv_kernel_dim=4,
                  layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
    yield Case("kimi_linear", "kimi_linear", "KimiLinearConfig",
               {**config, "hidden_size": 24, "intermediate_size": 32, "moe_intermediate_size": 8, "num_local_experts": 5},
               "delta attention with a decay per channel, latent attention without positions, first layer dense",
               capture=True, rename=DENSE)
    yield Case("kimi_linear_groups", "kimi_linear", "KimiLinearConfig",
               {**config, "num_hidden_layers": 3, "q_lora_rank": 10, "n_group": 3, "topk_group": 2,
                "norm_topk_prob": False, "n_shared_experts": 2, "linear_conv_kernel_dim": 3,
                "layer_types": ["full_attention", "linear_attention", "full_attention"],
                "mlp_layer_types": ["dense", "dense", "sparse"]},
               "queries with a latent, experts in groups, weights not renormalised, two dense layers",
               storage="bfloat16", rename=DENSE)


def lfm2_cases():
    config = {**TINY, "norm_eps": 1e-3, "num_hidden_layers": 4, "rope_parameters": dict(rope_type="default",
                                                                                      rope_theta=10000.0)}
    config.pop("rms_norm_eps")
    yield Case("lfm2", "lfm2", "Lfm2Config",
               {**config, "layer_types": ["conv", "conv", "full_attention", "conv"], "block_multiple_of": 12},
               "short convolutions and attention, the width derived from the stated one, tied", capture=True,
               storage="bfloat16")
    yield Case("lfm2_bias", "lfm2", "Lfm2Config",
               {**config, "num_hidden_layers": 3, "layer_types": ["full_attention", "conv", "conv"], "conv_bias": True,
                "conv_L_cache": 4, "block_auto_adjust_ff_dim": False, "tie_word_embeddings": False},
               "convolutions with biases over four tokens, width as stated, untied", storage="bfloat16")


SSM = dict(mamba_num_heads=6, mamba_head_dim=8, ssm_state_size=8, n_groups=2, conv_kernel=4, chunk_size=16)


def nemotron_h_cases():
    config = {**{k: v for k, v in TINY.items() if k != "rms_norm_eps"}, **SSM, "layer_norm_epsilon": 1e-3, "head_dim": 8,
              "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
              "moe_shared_expert_intermediate_size": 16, "routed_scaling_factor": 2.5}
    yield Case("nemotron_h", "nemotron_h", "NemotronHConfig",
               {**config, "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "linear_attention"],
                "num_nextn_predict_layers": 1},
               "one mixer per block: state space, experts, attention without positions, plain feed-forward; two blocks that "
               "predict", capture=True, storage="bfloat16", prediction_layer="nemotron")
    yield Case("nemotron_h_latent", "nemotron_h", "NemotronHConfig",
               {**config, "layers_block_type": ["moe", "linear_attention", "full_attention"], "moe_latent_size": 20,
                "n_group": 3, "topk_group": 2, "norm_topk_prob": False, "use_conv_bias": False,
                "n_groups": 3, "mamba_head_dim": 10, "attention_bias": False, "tie_word_embeddings": False},
               "experts in a latent space, in groups; no convolution bias, heads and hidden size apart",
               storage="bfloat16")
    yield Case("nemotron_h_dense", "nemotron_h", "NemotronHConfig",
               {**config, "layers_block_type": ["linear_attention", "mlp", "full_attention", "linear_attention"]},
               "no experts at all", storage="bfloat16")


def mamba2_cases():
    config = dict(vocab_size=64, hidden_size=32, num_hidden_layers=3, num_heads=8, head_dim=8, state_size=12,
                  n_groups=2, conv_kernel=4, chunk_size=16, layer_norm_epsilon=1e-3, bos_token_id=1, eos_token_id=2,
                  pad_token_id=0, tie_word_embeddings=True)
    yield Case("mamba2", "mamba2", "Mamba2Config", config, "state space layers alone, two groups, tied", capture=True,
               storage="bfloat16")
    yield Case("mamba2_bias", "mamba2", "Mamba2Config",
               {**config, "num_hidden_layers": 2, "use_bias": True, "use_conv_bias": False, "n_groups": 1, "expand": 3,
                "num_heads": 12, "conv_kernel": 3, "tie_word_embeddings": False},
               "biases on the projections, none on the convolution, one group, untied", storage="bfloat16")


def jamba_cases():
    config = {**TINY, "num_hidden_layers": 4, "attn_layer_period": 3, "attn_layer_offset": 0, "expert_layer_period": 2,
              "expert_layer_offset": 1, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 6,
              "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4, "intermediate_size": 16}
    yield Case("jamba", "jamba", "JambaConfig", {**config, "hidden_size": 24, "num_experts": 3, "intermediate_size": 12},
               "selective scans with normed steps, attention layers without positions, experts in each second layer",
               capture=True)
    yield Case("jamba_bias", "jamba", "JambaConfig",
               {**config, "num_hidden_layers": 3, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_proj_bias": True,
                "mamba_conv_bias": False, "mamba_dt_rank": "auto", "mamba_expand": 3, "expert_layer_offset": 0, "tie_word_embeddings": True},
               "projection biases, no convolution bias, step rank from the hidden size, tied", storage="bfloat16")


def minimax_cases():
    config = {**TINY, "hidden_size": 24, "intermediate_size": 8, "num_hidden_layers": 4, "head_dim": 8, "num_local_experts": 4,
              "num_experts_per_tok": 2, "block_size": 8,
              "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    # The library counts positions by the cache of layer 0, so decoding is right only when that one is softmax.
    factors = dict(full_attn_alpha_factor=1.7, full_attn_beta_factor=0.8, linear_attn_alpha_factor=1.4,
                   linear_attn_beta_factor=0.9, mlp_alpha_factor=1.2, mlp_beta_factor=1.1)
    yield Case("minimax", "minimax", "MiniMaxConfig", {**config, **factors},
               "lightning attention with a fixed decay per head and layer, scaled residuals after the norm",
               capture=True)


def cases():
    for group in (qwen3_next_cases, qwen3_5_cases, kimi_linear_cases, lfm2_cases, nemotron_h_cases, mamba2_cases,
                  jamba_cases, minimax_cases):
        yield from group()
