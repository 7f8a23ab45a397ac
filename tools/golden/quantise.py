# SPDX-License-Identifier: Apache-2.0
"""Puts the tensors of a checkpoint into the quantised formats of two releases, and takes them out again.

`fp8_block`: DeepSeek-V3. F8_E4M3 in blocks of 128 x 128, one float32 multiplier per block (`weight_scale_inv`).
`mxfp4`: gpt-oss. Experts in groups of 32 along the inputs, two four-bit floats per byte (low half first), one exponent
byte (bias 127) per group; `_blocks` and `_scales` are [experts, outputs, inputs / 32(, 16)], the plain form is
[experts, inputs, outputs].
Other kinds are in vendor_formats.py. Each function returns (tensors for the file, the same tensors dequantised to float32, the quantization_config).
"""

import torch
from transformers.integrations import mxfp4

import vendor_formats

BLOCK = 128
FP8_LARGEST = 448.0


def fp8_block(tensors):
    files, plain = {}, {}
    for name, tensor in tensors.items():
        if ".layers." in name and name.endswith(("_proj.weight", "_with_mqa.weight")):
            codes, scales, plain[name] = fp8_matrix(tensor)
            files[name], files[name + "_scale_inv"] = codes, scales
        else:
            files[name] = plain[name] = tensor
    return files, plain, {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                          "weight_block_size": [BLOCK, BLOCK]}


def fp8_matrix(weight):
    """Codes, scales [ceil(rows / 128), ceil(cols / 128)] and the dequantised matrix. Blocks are first given sizes of
    their own, so that a scale used for the wrong block shows."""
    rows, cols = -(-weight.shape[0] // BLOCK), -(-weight.shape[1] // BLOCK)
    sizes = 0.6 + 0.45 * ((torch.arange(rows)[:, None] * 2 + torch.arange(cols)) % 3)
    weight = weight * spread_blocks(sizes, weight.shape)
    scales = torch.zeros(rows, cols)
    for i in range(rows):
        for j in range(cols):
            block = weight[i * BLOCK:(i + 1) * BLOCK, j * BLOCK:(j + 1) * BLOCK]
            scales[i, j] = block.abs().max() / FP8_LARGEST
    full = spread_blocks(scales, weight.shape)
    codes = (weight / full).clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn)
    return codes, scales, codes.float() * full


def spread_blocks(values, shape):
    return values.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)[:shape[0], :shape[1]]


def mxfp4_experts(tensors):
    files, plain = {}, {}
    for name, tensor in tensors.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            blocks, scales = mxfp4_blocks(tensor.transpose(1, 2))
            files[name + "_blocks"], files[name + "_scales"] = blocks, scales
            plain[name] = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).float()
            assert plain[name].shape == tensor.shape
        else:
            files[name] = plain[name] = tensor
    return files, plain, {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}


def mxfp4_blocks(weight):
    """Nearest codes for [experts, outputs, inputs]; the exponent lets the largest value of a group be 4 to 8."""
    groups = weight.reshape(*weight.shape[:-1], -1, 32)
    largest = groups.abs().amax(-1, keepdim=True)
    exponent = torch.floor(torch.log2(largest)) - 2
    table = torch.tensor(mxfp4.FP4_VALUES)
    codes = ((groups / 2.0 ** exponent)[..., None] - table).abs().argmin(-1).to(torch.uint8)
    blocks = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return blocks, (exponent[..., 0] + 127).to(torch.uint8)


def quantise(kind, tensors):
    own = {"fp8_block": fp8_block, "mxfp4": mxfp4_experts}
    return own[kind](tensors) if kind in own else vendor_formats.quantise(kind, tensors)
