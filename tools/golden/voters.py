#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The voters of tests/e2e/voters_test.py: recordings of `transformers` in float32, in bfloat16, and in float32 with one
module patched, so that one of several references is wrong on purpose. Needs torch and transformers 5.24. Made with

    OMP_NUM_THREADS=1 python tools/golden/voters.py tests/golden/data/llama --firstlight build/firstlight --layer 1 \\
        --tokens 9,18,7,23,49,24,13,28,34,16,11,13 -o tests/golden/voters

which writes OUT/bfloat16 and OUT/planted (and with --all also OUT/float32), and OUT/logits: the golden logits of
golden.safetensors, as another engine's. The same for a model of any size, without OUT/logits: docs/voters.md was printed
from SmolLM2-135M with --layer 12 --all.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "record"))
import record  # noqa: E402


def plant(model, layer):
    """Attention scores of one layer a fifth too large, as a scale that is read from the wrong key would make them."""
    model.model.layers[layer].self_attn.scaling *= 1.2


def golden_logits(model, tokens, folder):
    from safetensors.numpy import load_file

    tensors = load_file(pathlib.Path(model) / "golden.safetensors")
    array = tensors["logits"].reshape(-1, tensors["logits"].shape[-1])[: len(tokens)]
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, array)
        file.flush()
        subprocess.run(
            [sys.executable, ROOT / "tools/record/from_logits.py", "--tokens", ",".join(map(str, tokens)), file.name,
             "--engine", "golden logits", "--model", pathlib.Path(model).name, "--layers", "3", "-o", folder],
            check=True,
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--firstlight", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--layer", type=int, required=True, help="whose attention is patched")
    parser.add_argument("--all", action="store_true", help="the float32 recording too")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    args.values = args.spec = None
    listing = record.read_values(args)
    tokens = [int(word) for word in args.tokens.split(",")]
    out = pathlib.Path(args.output)
    for name, dtype, planted in [("float32", "float32", False), ("bfloat16", "bfloat16", False), ("planted", "float32", True)]:
        if name == "float32" and not args.all:
            continue
        model = record.load(args.model, dtype)
        if planted:
            plant(model, args.layer)
        (pack,), _ = record.record(model, listing, [tokens], args.model, dtype=dtype)
        pack.write(out / name)
    if (pathlib.Path(args.model) / "golden.safetensors").exists():
        golden_logits(args.model, tokens, out / "logits")


if __name__ == "__main__":
    main()
