# SPDX-License-Identifier: Apache-2.0
"""Puts the projections of a checkpoint into the formats of the common quantisers, and takes them out again.

Written from the formats' descriptions (compressed-tensors, ModelOpt, AutoGPTQ, GPTQModel, AutoAWQ), with plain nearest
rounding: how good the codes are is of no interest here, only where they lie and what they mean. The dequantised values are
computed from the stored tensors alone. A kind is a function of a matrix [rows, columns] that returns (companions by
suffix, dequantised matrix), and a config.
"""

import torch

E4M3_LARGEST = 448.0
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # column of 8 that lies in nibble i


def uneven(weight):
    """Rows and groups of sizes of their own, so that a scale used for the wrong one shows."""
    rows, columns = weight.shape
    by_row = 0.7 + 0.2 * (torch.arange(rows) % 4)
    by_group = 0.8 + 0.15 * (torch.arange(columns) // 16 % 3)
    return weight * by_row[:, None] * by_group


def spread(scale, shape):
    """A scale per block over the whole matrix; sizes from the shapes."""
    rows, columns = -(-shape[0] // scale.shape[0]), -(-shape[1] // scale.shape[1])
    return scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[:shape[0], :shape[1]]


def largest_of(weight, rows, columns):
    out = torch.zeros(-(-weight.shape[0] // rows), -(-weight.shape[1] // columns))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = weight[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns].abs().max()
    return out


def expand(scale, rows, columns, shape):
    return scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[:shape[0], :shape[1]]


def power_above(scale):
    return 2.0 ** torch.ceil(torch.log2(scale))


def exponent_byte(power):
    return (torch.log2(power) + 127).round().to(torch.uint8)


# FP8

def fp8(weight, rows, columns, powers=False):
    rows, columns = rows or weight.shape[0], columns or weight.shape[1]
    scale = largest_of(weight, rows, columns) / E4M3_LARGEST
    if powers:
        scale = power_above(scale)
    full = expand(scale, rows, columns, weight.shape)
    codes = (weight / full).clamp(-E4M3_LARGEST, E4M3_LARGEST).to(torch.float8_e4m3fn)
    return codes, scale, codes.float() * full


def fp8_tensor(weight):
    codes, scale, plain = fp8(weight, 0, 0)
    return {"weight": codes, "weight_scale_inv": scale.reshape(()), "activation_scale": torch.tensor(0.03)}, plain


def fp8_small_powers(weight):
    codes, scale, plain = fp8(weight, 32, 32, powers=True)
    return {"weight": codes, "weight_scale_inv": exponent_byte(scale).view(torch.float8_e8m0fnu)}, plain


def fp8_channel(weight):
    codes, scale, _ = fp8(weight, 1, 0)
    scale = scale.bfloat16()
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale.float()


def fp8_modelopt(weight):
    codes, scale, plain = fp8(weight, 0, 0)
    return {"weight": codes, "weight_scale": scale.reshape(()), "input_scale": torch.tensor(0.02)}, plain


def mxfp8(weight):
    codes, scale, plain = fp8(weight, 1, 32, powers=True)
    return {"weight": codes, "weight_scale": exponent_byte(scale)}, plain


# Four-bit floats

def nearest_e2m1(values):
    """Codes of the nearest values, ties to the even code."""
    magnitude = values.abs().clamp(max=6)
    distance = (magnitude[..., None] - E2M1[:8]).abs() + torch.tensor([0.0, 1e-7] * 4)
    return (distance.argmin(-1) + 8 * (values < 0)).to(torch.uint8)


def two_per_byte(codes):
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def nvfp4(weight, divides):
    total = 448.0 * 6.0 / weight.abs().max()  # a block's scale times this fits E4M3
    block = (largest_of(weight, 1, 16) / 6.0 * total).to(torch.float8_e4m3fn)
    stored = total if divides else 1.0 / total
    scale = block.float() / stored if divides else block.float() * stored
    full = expand(scale, 1, 16, weight.shape)
    codes = nearest_e2m1(weight / full)
    return two_per_byte(codes), block, stored.reshape(1 if divides else ()), E2M1[codes.long()] * full


def nvfp4_compressed(weight):
    codes, block, total, plain = nvfp4(weight, True)
    return {"weight_packed": codes, "weight_scale": block, "weight_global_scale": total,
            "input_global_scale": torch.tensor([300.0])}, plain


def nvfp4_modelopt(weight):
    codes, block, total, plain = nvfp4(weight, False)
    return {"weight": codes, "weight_scale": block, "weight_scale_2": total, "input_scale": torch.tensor(0.004)}, plain


def mxfp4_compressed(weight):
    scale = power_above(largest_of(weight, 1, 32) / 6.0)
    full = expand(scale, 1, 32, weight.shape)
    codes = nearest_e2m1(weight / full)
    return {"weight_packed": two_per_byte(codes), "weight_scale": exponent_byte(scale)}, E2M1[codes.long()] * full


# Whole numbers

def words(codes, bits):
    """int32 words along the last axis, the first code in the low bits; zeros fill the last one."""
    per_word = 32 // bits
    padded = torch.nn.functional.pad(codes.long(), (0, -codes.shape[-1] % per_word))
    shifts = torch.arange(per_word) * bits
    packed = (padded.reshape(*codes.shape[:-1], -1, per_word) << shifts).sum(-1)
    return (packed - ((packed >> 31) << 32)).to(torch.int32)


def whole(weight, bits, group, symmetric, dtype):
    """Unsigned codes, scales and zeros [rows, groups] of groups along the columns."""
    groups = torch.nn.functional.pad(weight, (0, -weight.shape[1] % group)).reshape(weight.shape[0], -1, group)
    top = 2 ** bits - 1
    if symmetric:
        scale = (groups.abs().amax(-1) / (top // 2)).to(dtype)
        zero = torch.full_like(scale, (top + 1) // 2, dtype=torch.int64)
    else:
        low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
        scale = ((high - low) / top).to(dtype)
        zero = (-low / scale.float()).round().clamp(0, top).long()
    codes = ((groups / scale.float()[..., None]).round() + zero[..., None]).clamp(0, top).long()
    plain = scale.float()[..., None] * (codes - zero[..., None])
    flat = [t.reshape(weight.shape[0], -1)[:, :weight.shape[1]] for t in (codes, plain)]
    return flat[0], scale, zero, flat[1]


def int4_zeros(weight):
    codes, scale, zero, plain = whole(weight, 4, 32, False, torch.bfloat16)
    return {"weight_packed": words(codes, 4), "weight_scale": scale, "weight_shape": torch.tensor(weight.shape),
            "weight_zero_point": words(zero.t().contiguous(), 4).t()}, plain


def int4_symmetric(weight):
    codes, scale, _, plain = whole(weight, 4, 32, True, torch.bfloat16)
    return {"weight_packed": words(codes, 4), "weight_scale": scale, "weight_shape": torch.tensor(weight.shape)}, plain


def int8_channel(weight):
    codes, scale, _, plain = whole(weight, 8, weight.shape[1], True, torch.float32)
    return {"weight": (codes - 128).to(torch.int8), "weight_scale": scale}, plain


def mixed_integers(weight, name):
    return (int4_symmetric if "self_attn" in name else int8_channel)(weight)


def gptq(weight):
    """Zeros less one; groups of 32 in order."""
    codes, scale, zero, plain = whole(weight, 4, 32, True, torch.float16)
    return {"qweight": words(codes, 4).t(), "qzeros": words((zero - 1).t().contiguous(), 4), "scales": scale.t(),
            "g_idx": (torch.arange(weight.shape[1]) // 32).int()}, plain


def gptq_ordered(weight):
    """Version 2, eight bits, zeros as they are; column order[k] is quantised as the k-th."""
    order = torch.arange(weight.shape[1]).flip(0).reshape(-1, 2).t().reshape(-1)
    codes, scale, zero, plain = whole(weight[:, order], 8, 32, False, torch.float16)
    place = torch.argsort(order)
    return {"qweight": words(codes[:, place], 8).t(), "qzeros": words(zero.t().contiguous(), 8), "scales": scale.t(),
            "g_idx": (place // 32).int()}, plain[:, place]


def awq(weight):
    codes, scale, zero, plain = whole(weight, 4, 32, False, torch.float16)

    def in_order(values):  # [n, rows] with eight rows to a word
        return words(values.reshape(values.shape[0], -1, 8)[..., AWQ_ORDER].reshape(values.shape), 4)

    return {"qweight": in_order(codes.t()), "qzeros": in_order(zero.t()), "scales": scale.t()}, plain


# Configs

def compressed(format_name, groups, ignore=("lm_head", "re:.*embed.*")):
    return {"quant_method": "compressed-tensors", "format": format_name, "quantization_status": "compressed",
            "global_compression_ratio": None, "kv_cache_scheme": None, "ignore": list(ignore), "version": "0.12.0",
            "config_groups": {f"group_{i}": group for i, group in enumerate(groups)}}


def group_of(weights, activations=None, targets=("Linear",)):
    return {"targets": list(targets), "input_activations": activations, "output_activations": None,
            "weights": {"actorder": None, "block_structure": None, "dynamic": False, "group_size": None,
                        "observer": "minmax", "observer_kwargs": {}, "strategy": "channel", "symmetric": True,
                        "num_bits": 8, "type": "float", **weights}}


def modelopt(algorithm, bits, group):
    part = {"dynamic": False, "num_bits": bits, "type": "float", **({"group_size": group} if group else {})}
    return {"quant_method": "modelopt", "quant_algo": algorithm, "producer": {"name": "modelopt", "version": "0.40"},
            "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}, "ignore": ["lm_head", "*.gate"],
            "config_groups": {"group_0": {"input_activations": part, "weights": part, "targets": ["Linear"]}}}


PER_TOKEN = {"dynamic": True, "num_bits": 8, "strategy": "token", "symmetric": True, "type": "float"}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
GPTQ = {"quant_method": "gptq", "group_size": 32, "damp_percent": 0.1, "true_sequential": True}
KINDS = {
    "fp8_tensor": (fp8_tensor, {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}),
    "fp8_small_powers": (fp8_small_powers, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                            "scale_fmt": "ue8m0", "weight_block_size": [32, 32]}),
    "fp8_channel": (fp8_channel, compressed("float-quantized", [group_of({}, PER_TOKEN)])),
    "fp8_modelopt": (fp8_modelopt, modelopt("FP8", 8, None)),
    "mxfp8": (mxfp8, {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}),
    "nvfp4_compressed": (nvfp4_compressed, compressed("nvfp4-pack-quantized", [group_of(
        {"num_bits": 4, "strategy": "tensor_group", "group_size": 16},
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "dynamic": "local",
         "symmetric": True})])),
    "nvfp4_modelopt": (nvfp4_modelopt, modelopt("NVFP4", 4, 16)),
    "mxfp4_compressed": (mxfp4_compressed, compressed("mxfp4-pack-quantized", [group_of(
        {"num_bits": 4, "strategy": "group", "group_size": 32})])),
    "int4_zeros": (int4_zeros, compressed("pack-quantized", [group_of({**INT4, "symmetric": False})])),
    "int4_symmetric": (int4_symmetric, compressed("pack-quantized", [group_of(INT4)],
                                                  ("lm_head", "re:.*self_attn.*", "re:.*gate$"))),
    "mixed_integers": (mixed_integers, compressed("mixed-precision", [
        group_of({"type": "int"}, {**PER_TOKEN, "type": "int"}), group_of(INT4, targets=("re:.*self_attn.*",))])),
    "gptq": (gptq, {**GPTQ, "bits": 4, "sym": True, "desc_act": False}),
    "gptq_ordered": (gptq_ordered, {**GPTQ, "bits": 8, "sym": False, "desc_act": True, "checkpoint_format": "gptq_v2"}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
                  "modules_to_not_convert": None}),
}


def quantise(kind, tensors):
    convert, config = KINDS[kind]
    only_experts = kind == "int4_symmetric"
    files, plain = {}, {}
    for name, tensor in tensors.items():
        if not name.endswith("_proj.weight") or tensor.dim() != 2 or (only_experts and "self_attn" in name):
            files[name] = plain[name] = tensor
            continue
        weight = uneven(tensor)
        parts, plain[name] = convert(weight, name) if convert is mixed_integers else convert(weight)
        files.update({name[:-len("weight")] + suffix: part for suffix, part in parts.items()})
    return files, plain, config
