#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Block formats decoded by the `gguf` package (gguf.quants.dequantize): one line per block, `type block-hex floats-hex`.

    python3 tools/golden/formats_codec_blocks.py > src/tensor/test/data/codec_blocks.txt

Blocks are random bytes; only the half-precision scales are kept finite (subnormal and negative ones included), and the
E8M0 scale of MXFP4 below 253 (at 255 the package has a large number where OCP MX says NaN).
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Byte positions of the half-precision scales of a block.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
          "Q6_K": [208], "MXFP4": []}


def main() -> None:
    rng = np.random.default_rng(20261130)
    print("# made by tools/golden/formats_codec_blocks.py")
    for name, halves in HALVES.items():
        elements, size = GGML_QUANT_SIZES[T[name]]
        blocks = rng.integers(0, 256, (5, size), dtype=np.uint8)
        for row, block in enumerate(blocks):
            for at in halves:
                scale = [rng.normal(0, 0.05), rng.normal(0, 0.05), rng.normal(0, 300), rng.normal(0, 1e-6), 1.0][row]
                block[at:at + 2] = np.array([scale], dtype=np.float16).view(np.uint8)
            if name == "MXFP4":
                block[0] = [127, 120, 0, 1, 251][row]
        floats = dequantize(blocks, T[name]).astype("<f4").reshape(len(blocks), elements)
        for block, values in zip(blocks, floats):
            print(name.lower(), block.tobytes().hex(), values.tobytes().hex())


if __name__ == "__main__":
    main()
