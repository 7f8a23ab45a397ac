# SPDX-License-Identifier: Apache-2.0
"""The mixture-of-experts variants whose goldens are recorded."""

from case import Case

QWEN = dict(vocab_size=64, hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=2, head_dim=12, num_experts=8, num_experts_per_tok=3,
            max_position_embeddings=128, rms_norm_eps=1e-3, bos_token_id=1, eos_token_id=2,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0})


def qwen3_moe_cases():
    yield Case("qwen3_moe", "qwen3_moe", "Qwen3MoeConfig",
               {**QWEN, "norm_topk_prob": True, "mlp_only_layers": [1]},
               "weights of the chosen experts renormalised, layer 1 dense", capture=True)
    yield Case("qwen3_moe_sparse_step", "qwen3_moe", "Qwen3MoeConfig",
               {**QWEN, "norm_topk_prob": False, "decoder_sparse_step": 2, "attention_bias": True,
                "tie_word_embeddings": True},
               "weights not renormalised, experts in each second layer only, biases, tied", storage="bfloat16")
    yield Case("qwen3_moe_window", "qwen3_moe", "Qwen3MoeConfig",
               {**QWEN, "norm_topk_prob": True, "num_hidden_layers": 2, "use_sliding_window": True,
                "sliding_window": 8, "max_window_layers": 1},
               "every layer windowed: max_window_layers plays no part in this family", storage="bfloat16")


GPT_OSS = dict(vocab_size=64, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, head_dim=16, num_local_experts=6, num_experts_per_tok=2, sliding_window=8,
               max_position_embeddings=4096, rms_norm_eps=1e-3, eos_token_id=2, pad_token_id=0,
               rope_parameters=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=1024, rope_theta=3000.0))
GPT_OSS_RELEASE = dict(experts_per_token=2, initial_context_length=1024)


def gpt_oss_cases():
    yield Case("gpt_oss", "gpt_oss", "GptOssConfig", {**GPT_OSS, "swiglu_limit": 2.0, "num_hidden_layers": 3,
                                                    "hidden_size": 48, "intermediate_size": 24},
               "sinks, alternating windows, clamp that bites, experts as BF16 [experts, inputs, outputs]",
               storage="bfloat16", capture=True)
    yield Case("gpt_oss_alpha", "gpt_oss", "GptOssConfig",
               {**GPT_OSS, "swiglu_alpha": 1.2, "attention_bias": False, "hidden_size": 48, "intermediate_size": 24,
                "layer_types": ["full_attention", "sliding_attention"], "num_experts_per_tok": 3},
               "another sigmoid gain, no attention bias, full layer first", storage="bfloat16")
    yield Case("gpt_oss_mxfp4", "gpt_oss", "GptOssConfig", {**GPT_OSS, "intermediate_size": 64},
               "experts as MXFP4 blocks and scales", storage="bfloat16", quantise="mxfp4", capture=True,
               patch_config=GPT_OSS_RELEASE, drop_config=("swiglu_alpha", "dtype"))


YARN = dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=1024,
            rope_theta=2000.0)
DEEPSEEK = dict(vocab_size=64, hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8,
                routed_scaling_factor=2.5, kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, v_head_dim=10,
                qk_nope_head_dim=12, n_group=4, topk_group=2, num_experts_per_tok=3, first_k_dense_replace=1,
                norm_topk_prob=True, max_position_embeddings=4096, rms_norm_eps=1e-3, bos_token_id=0, eos_token_id=1,
                num_nextn_predict_layers=0, rope_parameters={**YARN, "mscale": 0.8, "mscale_all_dim": 1.2})
RELEASE = dict(scoring_func="sigmoid", topk_method="noaux_tc", moe_layer_freq=1, ep_size=1)


def deepseek_cases():
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yield Case("deepseek_v3", "deepseek_v3", "DeepseekV3Config", DEEPSEEK,
               "latent attention, groups, yarn with two mscales; the latent norms use eps 1e-6 whatever rms_norm_eps",
               capture=True)
    yield Case("deepseek_v3_no_q_lora", "deepseek_v3", "DeepseekV3Config",
               {**DEEPSEEK, "q_lora_rank": None, "rope_parameters": plain, "num_hidden_layers": 2,
                "n_shared_experts": 2, "norm_topk_prob": False, "num_nextn_predict_layers": 1},
               "queries without a latent, plain rope, two shared experts, weights not renormalised, and a prediction "
               "layer at index num_hidden_layers that the main model must leave out", prediction_layer="nextn",
               storage="bfloat16")
    yield Case("deepseek_v3_half", "deepseek_v3", "DeepseekV3Config",
               {**DEEPSEEK, "rope_interleave": False, "attention_bias": True, "num_hidden_layers": 2,
                "rope_parameters": YARN}, "rope in halves, biases, yarn without mscales", storage="bfloat16")
    yield Case("deepseek_v3_fp8", "deepseek_v3", "DeepseekV3Config",
               {**DEEPSEEK, "num_hidden_layers": 2, "hidden_size": 136, "intermediate_size": 140, "q_lora_rank": 40,
                "n_routed_experts": 6, "n_group": 3, "num_experts_per_tok": 2,
                "moe_intermediate_size": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 24, "qk_rope_head_dim": 16,
                "v_head_dim": 24}, "FP8 in blocks of 128 x 128 with partial last blocks in both directions",
               storage="bfloat16", quantise="fp8_block", capture=True, patch_config=RELEASE)
    yield Case("kimi_k2", "deepseek_v3", "DeepseekV3Config",
               {**DEEPSEEK, "num_hidden_layers": 2, "n_group": 1, "topk_group": 1, "n_routed_experts": 12,
                "num_experts_per_tok": 4, "routed_scaling_factor": 2.827,
                "rope_parameters": {**YARN, "beta_fast": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0}},
               "Kimi K2: one group, one dense layer, both yarn ramps at one rotation", storage="bfloat16",
               patch_config={**RELEASE, "model_type": "kimi_k2", "aux_loss_alpha": 0.001, "seq_aux": True},
               drop_config=("rope_interleave", "output_router_logits"))


PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
SPARSE = dict(vocab_size=64, hidden_size=32, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-3, bos_token_id=1, eos_token_id=2,
              rope_parameters=PLAIN)


def mixtral_cases():
    yield Case("mixtral", "mixtral", "MixtralConfig",
               {**SPARSE, "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 8, "head_dim": 12},
               "experts under w1, w2 and w3, windowed", storage="bfloat16")


def granitemoe_cases():
    factors = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=1.7)
    yield Case("granitemoe", "granite", "GraniteMoeConfig",
               {**SPARSE, **factors, "num_local_experts": 6, "num_experts_per_tok": 3, "tie_word_embeddings": True},
               "the four multipliers; softmax over the chosen experts; tied", storage="bfloat16")


def minimax_m2_cases():
    yield Case("minimax_m2", "minimax_m2", "MiniMaxM2Config",
               {**SPARSE, "head_dim": 12, "num_local_experts": 8, "num_experts_per_tok": 3,
                "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}},
               "one norm over all heads, half of a head turned, a bias for the choice", storage="bfloat16")


GLM = dict(SPARSE, intermediate_size=24, moe_intermediate_size=12, num_hidden_layers=3, head_dim=12, n_routed_experts=8,
           num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5,
           rope_parameters={**PLAIN, "partial_rotary_factor": 0.5})


def glm4_moe_cases():
    yield Case("glm4_moe", "glm4_moe", "Glm4MoeConfig",
               {**GLM, "attention_bias": True, "use_qk_norm": True, "num_nextn_predict_layers": 1},
               "biases, norms on q and k, half of a head turned, a prediction layer to leave out", storage="bfloat16",
               prediction_layer="nextn")
    yield Case("glm4_moe_groups", "glm4_moe", "Glm4MoeConfig",
               {**GLM, "num_hidden_layers": 2, "n_group": 4, "topk_group": 2, "n_shared_experts": 2, "norm_topk_prob": False,
                "num_nextn_predict_layers": 0}, "no norms on q and k, groups, weights not renormalised", storage="bfloat16")


def ernie_moe_cases():
    yield Case("ernie4_5_moe", "ernie4_5_moe", "Ernie4_5_MoeConfig",
               {**SPARSE, "num_hidden_layers": 4, "intermediate_size": 24, "moe_intermediate_size": 12, "moe_num_experts": 8,
                "moe_k": 3, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 2,
                "moe_norm_min": 0.5, "tie_word_embeddings": True, "num_nextn_predict_layers": 1},
               "first and last layer dense, a sum below moe_norm_min, tied; a prediction layer that is left out", storage="bfloat16",
               prediction_layer="ernie")
    yield Case("ernie4_5_moe_plain", "ernie4_5_moe", "Ernie4_5_MoeConfig",
               {**SPARSE, "num_hidden_layers": 2, "intermediate_size": 24, "moe_intermediate_size": 12, "moe_num_experts": 6,
                "moe_k": 2, "moe_num_shared_experts": 1, "tie_word_embeddings": False},
               "what releases leave as it is: all layers but the first have experts", storage="bfloat16")


def hunyuan_moe_cases():
    yield Case("hunyuan_moe", "hunyuan_v1", "HunYuanMoEV1Config",
               {**SPARSE, "head_dim": 12, "num_experts": 6, "moe_topk": [2, 2], "tie_word_embeddings": True,
                "rope_parameters": dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=10000.0)},
               "norms on q and k after the rope, one shared expert, tied", storage="bfloat16")


def gemma4_case():
    ropes = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
             "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}
    text = {**SPARSE, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 24, "head_dim": 8, "global_head_dim": 16, "rope_parameters": ropes,
            "num_global_key_value_heads": 1, "attention_k_eq_v": True, "enable_moe_block": True, "num_experts": 6,
            "top_k_experts": 2, "moe_intermediate_size": 12, "hidden_size_per_layer_input": 0, "sliding_window": 8,
            "final_logit_softcapping": 4.0, "use_bidirectional_attention": "vision", "eos_token_id": [1, 63],
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    vision = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                  head_dim=4, patch_size=2, position_embedding_size=8, pooling_kernel_size=2)
    yield Case("gemma4", "gemma4", "Gemma4Config",
               dict(text_config=text, vision_config=vision, audio_config=None, eos_token_id=[1, 63], image_token_id=57,
                    boi_token_id=58, eoi_token_id=59, boa_token_id=60, eoa_token_index=61, audio_token_id=62, video_token_id=56),
               "experts beside the dense block, keys as values and heads of their own in the full layer, soft cap; inside "
               "the multimodal config", class_name="Gemma4ForConditionalGeneration", storage="bfloat16")


def mimo_v2_cases():
    share = {"rope_type": "default", "partial_rotary_factor": 0.334}
    yield Case("mimo_v2", "mimo_v2", "MiMoV2FlashConfig",
               {**SPARSE, "num_hidden_layers": 3, "intermediate_size": 24, "moe_intermediate_size": 12, "head_dim": 12, "v_head_dim": 10,
                "num_key_value_heads": 1, "sliding_window": 9, "n_routed_experts": 6, "num_experts_per_tok": 2,
                "attention_value_scale": 0.6, "attention_bias": True,
                "rope_parameters": {"full_attention": {**share, "rope_theta": 5000000.0},
                                    "sliding_attention": {**share, "rope_theta": 10000.0}}},
               "full and windowed layers with kv heads and ropes of their own, narrow values, sinks; first layer dense; "
               "two prediction layers", storage="bfloat16", routing=4e-3, prediction_layer="mimo")


def llama4_cases():
    scaled = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64, rope_theta=500.0)
    own = {**SPARSE, "intermediate_size_mlp": 24, "num_local_experts": 4, "attention_chunk_size": 8, "floor_scale": 8,
           "attn_scale": 0.3, "head_dim": 12}
    yield Case("llama4", "llama4", "Llama4TextConfig",
               {**own, "num_hidden_layers": 3, "no_rope_layer_interval": 3, "interleave_moe_layer_step": 2,
                "num_experts_per_tok": 1, "rope_parameters": scaled},
               "two chunked layers, a full one without positions whose queries grow; every other layer dense", storage="bfloat16")
    yield Case("llama4_released", "llama4", "Llama4TextConfig",
               {**own, "num_hidden_layers": 4, "num_experts_per_tok": 1, "num_local_experts": 16, "interleave_moe_layer_step": 2,
                "no_rope_layer_interval": 4, "attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1,
                "hidden_size": 24, "intermediate_size": 8, "rope_parameters": scaled},
               "what releases leave as it is, in GGUF files too: chunks, growth, the number of experts", storage="bfloat16")
    text = {**own, "model_type": "llama4_text", "no_rope_layer_interval": 2, "num_experts_per_tok": 2, "use_qk_norm": False,
            "attn_temperature_tuning": False, "interleave_moe_layer_step": 1}
    vision = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vision_output_dim=8,
                  image_size=8, patch_size=4, projector_input_dim=8, projector_output_dim=8, num_channels=3)
    yield Case("llama4_wrapped", "llama4", "Llama4Config",
               dict(text_config=text, vision_config=vision, boi_token_index=58, eoi_token_index=59, image_token_index=60),
               "inside the multimodal config; no norms on q and k, no growth, two experts per token",
               class_name="Llama4ForConditionalGeneration", storage="bfloat16", routing=2e-2)


DSA = dict(vocab_size=64, hidden_size=32, intermediate_size=40, moe_intermediate_size=12, num_hidden_layers=3,
           num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, routed_scaling_factor=2.5,
           kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, v_head_dim=10, qk_nope_head_dim=12, num_experts_per_tok=3,
           first_k_dense_replace=1, norm_topk_prob=True, max_position_embeddings=4096, rms_norm_eps=1e-3, bos_token_id=0,
           eos_token_id=1, index_topk=7, index_head_dim=16, index_n_heads=6)


def deepseek_v32_cases():
    yield Case("deepseek_v32", "deepseek_v32", "DeepseekV32Config",
               {**DSA, "n_group": 4, "topk_group": 2,
                "rope_parameters": {**YARN, "mscale": 0.8, "mscale_all_dim": 1.2}},
               "an indexer in each layer that leaves most of the prompt out, its rope in halves, that of the attention "
               "interleaved; a prediction layer with one of its own", prompt_length=28, prediction_layer="nextn",
               patch_config={**RELEASE, "num_nextn_predict_layers": 1})


def glm_moe_dsa_cases():
    yield Case("glm_moe_dsa", "glm_moe_dsa", "GlmMoeDsaConfig",
               {**DSA, "num_hidden_layers": 4, "n_group": 1, "topk_group": 1, "index_topk": 6, "num_nextn_predict_layers": 1,
                "indexer_types": ["full", "shared", "full", "shared"], "rope_parameters": PLAIN},
               "layers that share the choice of the one before, all ropes interleaved; a prediction layer that chooses for itself",
               prompt_length=28, prediction_layer="nextn")


M3 = dict(SPARSE, num_hidden_layers=3, head_dim=12, dense_intermediate_size=40, shared_intermediate_size=20, num_local_experts=8,
          num_experts_per_tok=3, swiglu_limit=2.0, rotary_dim=6, rope_parameters={**PLAIN, "partial_rotary_factor": 0.5},
          index_n_heads=2, index_head_dim=8, index_block_size=4, index_topk_blocks=3, index_local_blocks=1,
          layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
          mlp_layer_types=["dense", "sparse", "sparse"])


def minimax_m3_cases():
    yield Case("minimax_m3", "minimax_m3", "MiniMaxM3VLTextConfig", {**M3, "tie_word_embeddings": True, "swiglu_alpha": 1.2},
               "the text model alone, as the library names its tensors: an indexer per kv head names 3 of 9 blocks of 4 keys",
               storage="bfloat16", zero_centred=r"norm\.weight$")
    vision = dict(hidden_size=12, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=2)
    yield Case("minimax_m3_wrapped", "minimax_m3", "MiniMaxM3VLConfig",
               dict(text_config={**M3, "model_type": "minimax_m3_vl_text", "index_local_blocks": 2, "index_topk_blocks": 4},
                    vision_config=vision, projector_hidden_size=16, image_token_index=58, video_token_index=59),
               "inside the multimodal config, as released; the last two blocks always among four", storage="bfloat16",
               class_name="MiniMaxM3SparseForConditionalGeneration", zero_centred=r"norm\.weight$")
    # The library knows no first blocks: reference.py forces them into its choice.
    released = {"use_sparse_attention": True, "sparse_score_type": "max", "sparse_init_block": 1, "sparse_local_block": 1,
                "sparse_num_index_heads": 2, "sparse_index_dim": 8, "sparse_block_size": 4, "sparse_topk_blocks": 4,
                "sparse_attention_freq": [0, 1, 1], "sparse_disable_index_value": [0, 1, 1]}
    yield Case("minimax_m3_first", "minimax_m3", "MiniMaxM3VLTextConfig",
               {**M3, "index_topk_blocks": 4, "index_init_blocks": 1},
               "the first block and the last always among four of nine", storage="bfloat16", zero_centred=r"norm\.weight$",
               patch_config={"sparse_attention_config": released},
               drop_config=("layer_types", "index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks",
                            "index_local_blocks", "index_init_blocks"))


V4 = dict(vocab_size=64, hidden_size=16, moe_intermediate_size=12, num_hidden_layers=3, num_attention_heads=4, head_dim=16,
          q_lora_rank=10, n_routed_experts=6, num_experts_per_tok=2, max_position_embeddings=4096, rms_norm_eps=1e-3,
          layer_types=["sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention"],
          compress_rates={"compressed_sparse_attention": 3, "heavily_compressed_attention": 8},
          mlp_layer_types=["hash_moe", "hash_moe", "moe"], partial_rotary_factor=0.25, hc_mult=4, sliding_window=7, o_groups=2,
          o_lora_rank=6, index_n_heads=6, index_head_dim=8, index_topk=3, swiglu_limit=1.0, rope_theta=1000.0,
          compress_rope_theta=2000.0, hc_sinkhorn_iters=6,
          rope_parameters=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=1024))


def deepseek_v4_cases():
    yield Case("deepseek_v4", "deepseek_v4", "DeepseekV4Config", V4,
               "a layer with a window alone, rows compressed from 3 tokens of which an indexer names 3, rows of 8 tokens; four "
               "streams; two layers routed by token id", prompt_length=32, storage="bfloat16", routing=8e-3)


RELEASED_V4 = {"embed_tokens.weight": "embed.weight", "hc_head.hc_fn": "hc_head_fn", "hc_head.hc_base": "hc_head_base",
               "hc_head.hc_scale": "hc_head_scale"}


def deepseek_v4_released_cases():
    rope = {key: value for key, value in V4["rope_parameters"].items() if key != "rope_type"}
    yield Case("deepseek_v4_released", "deepseek_v4", "DeepseekV4Config",
               {**V4, "num_hidden_layers": 2, "layer_types": V4["layer_types"][1:], "compress_rates": None, "index_topk": 30,
                "mlp_layer_types": ["hash_moe", "moe"]},
               "names and config as released: rates of 128 and 4, of 35 rows an indexer names 30; no layer with a window alone",
               prompt_length=140, patch_config={"compress_ratios": [128, 4, 0], "num_hash_layers": 1, "topk_method": "noaux_tc",
                                                "expert_dtype": "fp4", "rope_scaling": {"type": "yarn", **rope}},
               drop_config=("layer_types", "compress_rates", "mlp_layer_types", "partial_rotary_factor", "rope_parameters"),
               rename=(r"^model\.(.*)$", lambda m: RELEASED_V4.get(m[1], m[1].replace("attn.norm.", "attn.kv_norm."))))


def cases():
    for group in (qwen3_moe_cases, gpt_oss_cases, deepseek_cases, mixtral_cases, granitemoe_cases, minimax_m2_cases,
                  glm4_moe_cases, ernie_moe_cases, hunyuan_moe_cases, gemma4_case, mimo_v2_cases, llama4_cases, deepseek_v32_cases,
                  glm_moe_dsa_cases, minimax_m3_cases, deepseek_v4_cases,
                  deepseek_v4_released_cases):
        yield from group()
