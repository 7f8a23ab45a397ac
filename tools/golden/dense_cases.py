# SPDX-License-Identifier: Apache-2.0
"""The dense model variants whose goldens are recorded.

A case is a `transformers` config, made so small that its prompt is longer than every window, original context and
group, with values that tell one reading of the config from another. `old` is the spelling of older releases.
"""

from case import Case, old_spelling

TINY = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-3, bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=False)


def llama_cases():
    def case(name, about, rope, **config):
        flags = {k: config.pop(k) for k in ("length_dependent", "capture") if k in config}
        return Case(name, "llama", "LlamaConfig", {**TINY, "rope_parameters": rope, **config}, about, **flags)

    theta = {"rope_theta": 10000.0}
    long_sets = dict(short_factor=[1.0, 1.1, 1.3, 1.2], long_factor=[1.5, 2.5, 4.0, 6.5])
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024, rope_theta=500.0)
    yield case("llama", "Llama 2: grouped heads, plain rope", {"rope_type": "default", **theta}, capture=True)
    yield case("llama_llama3", "Llama 3.1 rope: one frequency kept, one blended, the rest divided",
               dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=64, rope_theta=500.0), capture=True)
    yield case("llama_linear", "linear rope scaling", dict(rope_type="linear", factor=4.0, **theta))
    yield case("llama_dynamic", "dynamic rope scaling inside max_position_embeddings: the plain table",
               dict(rope_type="dynamic", factor=4.0, **theta))
    yield case("llama_dynamic_beyond", "dynamic rope scaling, prompt beyond max_position_embeddings: the table follows "
               "the length, here that of the prompt", dict(rope_type="dynamic", factor=4.0, **theta),
               max_position_embeddings=16, length_dependent=True)
    yield case("llama_yarn", "yarn with its defaults", yarn, max_position_embeddings=4096, capture=True)
    yield case("llama_yarn_explicit", "yarn with an explicit attention factor and ramp, not truncated",
               {**yarn, "attention_factor": 1.3, "beta_fast": 20.0, "beta_slow": 2.0, "truncate": False},
               max_position_embeddings=4096)
    yield case("llama_yarn_mscale", "yarn with the ratio of two mscales",
               {**yarn, "mscale": 0.7, "mscale_all_dim": 1.1}, max_position_embeddings=4096)
    yield case("llama_longrope", "longrope inside the original length: the short factors",
               dict(rope_type="longrope", original_max_position_embeddings=64, **long_sets, **theta),
               max_position_embeddings=256)
    yield case("llama_longrope_beyond", "longrope beyond the original length: the long factors for every position",
               dict(rope_type="longrope", original_max_position_embeddings=16, factor=8.0, **long_sets, **theta),
               length_dependent=True)
    yield case("llama_bias", "biases everywhere, gelu, head_dim apart from hidden / heads, tied",
               {"rope_type": "default", "rope_theta": 25000.0}, attention_bias=True, mlp_bias=True, head_dim=12,
               hidden_act="gelu", tie_word_embeddings=True, capture=True)
    yield case("smollm2", "nine heads on three kv heads, tied", {"rope_type": "default", "rope_theta": 100000.0},
               hidden_size=36, intermediate_size=48, num_attention_heads=9, num_key_value_heads=3,
               tie_word_embeddings=True, capture=True)


def mistral_cases():
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    yield Case("mistral", "llama", "MistralConfig", {**TINY, "rope_parameters": rope, "sliding_window": 8},
               "every layer windowed, window smaller than the prompt", capture=True)
    yield Case("mistral_full", "llama", "MistralConfig",
               {**TINY, "rope_parameters": rope, "sliding_window": None, "head_dim": 12},
               "sliding_window null, head_dim apart from hidden / heads")


def qwen_cases():
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    window = dict(use_sliding_window=True, sliding_window=8, max_window_layers=1, num_hidden_layers=3)
    head = dict(head_dim=12, rope_parameters=rope, bos_token_id=None)
    yield Case("qwen2", "llama", "Qwen2Config", {**TINY, "rope_parameters": rope, "sliding_window": 8,
                                                 "use_sliding_window": False, "tie_word_embeddings": True},
               "biases on q, k and v only; a window that is stated but switched off; tied", capture=True)
    yield Case("qwen2_window", "llama", "Qwen2Config", {**TINY, "rope_parameters": rope, **window},
               "windowed from max_window_layers on")
    yield Case("qwen3", "qwen3", "Qwen3Config", {**TINY, **head, "tie_word_embeddings": True},
               "norms on q and k per head, head_dim apart from hidden / heads, tied", capture=True)
    yield Case("qwen3_window", "qwen3", "Qwen3Config", {**TINY, **head, **window, "attention_bias": True},
               "biases, windowed from max_window_layers on")
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024, rope_theta=500.0)
    yield Case("qwen3_yarn", "qwen3", "Qwen3Config", {**TINY, **head, "rope_parameters": yarn,
                                                      "max_position_embeddings": 4096}, "yarn as users switch it on")


GEMMA = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=7, num_attention_heads=4,
             num_key_value_heads=2, head_dim=10, query_pre_attn_scalar=20, sliding_window=8, rms_norm_eps=1e-3,
             max_position_embeddings=128, bos_token_id=2, eos_token_id=[1, 63], pad_token_id=0)


def gemma_rope(**full):
    return {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0, **full}}


def gemma_cases():
    yield Case("gemma3", "gemma3", "Gemma3TextConfig", {**GEMMA, "rope_parameters": gemma_rope()},
               "five windowed layers, one full, one windowed; two ropes; tied", capture=True)
    yield Case("gemma3_linear", "gemma3", "Gemma3TextConfig",
               {**GEMMA, "num_hidden_layers": 4, "sliding_window_pattern": 3, "query_pre_attn_scalar": 12,
                "rope_parameters": gemma_rope(rope_type="linear", factor=8.0)},
               "linear scaling on the full layers only, pattern of three")
    yield Case("gemma3_softcap", "gemma3", "Gemma3TextConfig",
               {**GEMMA, "num_hidden_layers": 3, "sliding_window_pattern": 2, "final_logit_softcapping": 4.0,
                "attention_bias": True, "tie_word_embeddings": False, "rope_parameters": gemma_rope()},
               "soft cap on the logits, biases, untied head, pattern of two")


def gemma_wrapped_case():
    vision = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                  patch_size=4, model_type="siglip_vision_model")
    text = {**GEMMA, "num_hidden_layers": 3, "sliding_window_pattern": 2, "model_type": "gemma3_text",
            "rope_parameters": gemma_rope(rope_type="linear", factor=8.0)}
    yield Case("gemma3_wrapped", "gemma3", "Gemma3Config",
               dict(text_config=text, vision_config=vision, mm_tokens_per_image=1, image_token_index=60,
                    boi_token_index=61, eoi_token_index=62, eos_token_id=[1, 63]),
               "the text model inside a config with text_config and vision_config; text alone is computed",
               class_name="Gemma3ForConditionalGeneration")


PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


EXACT = dict(hidden_size=16)  # whose root, the factor of the embeddings, is the same in bfloat16


def gemma2_cases():
    yield Case("gemma2", "gemma2", "Gemma2Config",
               {**GEMMA, **EXACT, "num_hidden_layers": 3, "rope_parameters": PLAIN, "attn_logit_softcapping": 3.0,
                "final_logit_softcapping": 4.0}, "windowed, full, windowed; both soft caps; tied", storage="bfloat16")
    yield Case("gemma2_uncapped", "gemma2", "Gemma2Config",
               {**GEMMA, **EXACT, "num_hidden_layers": 2, "rope_parameters": PLAIN, "attn_logit_softcapping": None,
                "final_logit_softcapping": None, "attention_bias": True, "tie_word_embeddings": False},
               "null caps, biases, untied head", storage="bfloat16")


def olmo_cases():
    yield Case("olmo2", "olmo2", "Olmo2Config", {**TINY, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
               "norms after the blocks, over all heads of q and k", storage="bfloat16")
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=1024, rope_theta=500000.0,
                attention_factor=1.2, beta_fast=32.0, beta_slow=1.0)
    ropes = {"sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}, "full_attention": yarn}
    yield Case("olmo3", "olmo2", "Olmo3Config",
               {**TINY, "num_hidden_layers": 4, "sliding_window": 8, "rope_parameters": ropes, "attention_bias": True,
                "max_position_embeddings": 4096}, "three windowed layers, one full, which alone has yarn; biases",
               storage="bfloat16")


def granite_cases():
    factors = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=1.7)
    yield Case("granite", "granite", "GraniteConfig",
               {**TINY, **factors, "rope_parameters": PLAIN, "attention_bias": True, "mlp_bias": True,
                "tie_word_embeddings": True}, "the four multipliers, biases, tied", storage="bfloat16")


def smollm3_cases():
    head = dict(num_hidden_layers=3, no_rope_layer_interval=2, pad_token_id=0, rope_parameters=PLAIN)
    yield Case("smollm3", "smollm3", "SmolLM3Config", {**TINY, **head, "tie_word_embeddings": True},
               "a layer without positions; tied", storage="bfloat16")
    yield Case("smollm3_window", "smollm3", "SmolLM3Config",
               {**TINY, **head, "no_rope_layers": [0, 1, 1], "use_sliding_window": True, "sliding_window": 8,
                "attention_bias": True, "mlp_bias": True}, "the layer without positions is windowed; biases",
               storage="bfloat16")


def phi3_cases():
    longrope = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3],
                    long_factor=[1.5, 2.5, 4.0])
    yield Case("phi3", "phi3", "Phi3Config",
               {**TINY, "rope_parameters": longrope, "original_max_position_embeddings": 64, "max_position_embeddings": 256,
                "sliding_window": 8, "pad_token_id": 0}, "fused matrices, longrope over part of a head, windowed", storage="bfloat16")
    yield Case("phi3_plain", "phi3", "Phi3Config",
               {**TINY, "rope_parameters": PLAIN, "original_max_position_embeddings": 128, "sliding_window": None,
                "pad_token_id": 0, "tie_word_embeddings": True}, "plain rope, no window, tied", storage="bfloat16")


def exaone4_cases():
    yield Case("exaone4", "exaone4", "Exaone4Config",
               {**TINY, "num_hidden_layers": 3, "rope_parameters": PLAIN, "sliding_window": 8, "sliding_window_pattern": 2},
               "windowed layers with positions, a full one without", storage="bfloat16")
    yield Case("exaone4_full", "exaone4", "Exaone4Config",
               {**TINY, "rope_parameters": PLAIN, "sliding_window": None, "tie_word_embeddings": True,
                "layer_types": ["full_attention"] * 2}, "no window: positions everywhere; tied", storage="bfloat16")


def ernie_cases():
    yield Case("ernie4_5", "ernie4_5_moe", "Ernie4_5Config",
               {**TINY, "rope_parameters": PLAIN, "head_dim": 12, "use_bias": True, "tie_word_embeddings": True},
               "interleaved rope, biases everywhere, tied", storage="bfloat16")


def hunyuan_cases():
    yield Case("hunyuan_dense", "hunyuan_v1", "HunYuanDenseV1Config",
               {**TINY, "rope_parameters": dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=10000.0), "head_dim": 12,
                "tie_word_embeddings": True, "attention_bias": True},
               "norms on q and k after the rope, whose base alpha stretches; biases, tied", storage="bfloat16")


def gemma4_case():
    ropes = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
             "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000000.0}}
    config = dict(vocab_size=64, **EXACT, intermediate_size=24, num_hidden_layers=5, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=8, global_head_dim=16, sliding_window=8, rms_norm_eps=1e-3,
                  max_position_embeddings=128, bos_token_id=2, eos_token_id=[1, 63], pad_token_id=0,
                  layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                  rope_parameters=ropes, num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=16,
                  vocab_size_per_layer_input=64, attention_bias=True)
    yield Case("gemma4_shared", "gemma4", "Gemma4TextConfig", config,
               "two layers reuse the keys and values of the last ones of their kinds and are twice as wide; embeddings per "
               "layer; biases", storage="bfloat16")


def cases():
    for group in (llama_cases, mistral_cases, qwen_cases, gemma_cases, gemma_wrapped_case, gemma2_cases, olmo_cases,
                  granite_cases, smollm3_cases, phi3_cases, exaone4_cases, ernie_cases, hunyuan_cases, gemma4_case):
        yield from group()


__all__ = ["cases", "old_spelling"]
