#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of eight times the memory bound is recorded within the bound, as the system measures the process, and gives
the bits of a recording made all at once. Writes 400 MB of temporary files. Standard library only.

    out_of_core_test.py PROGRAM
"""

import array
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

LIMIT = 48 << 20
HIDDEN, INTERMEDIATE, LAYERS, VOCAB = 512, 2048, 24, 256
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
    "intermediate_size": INTERMEDIATE, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": VOCAB,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 128, "hidden_act": "silu",
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def shapes():
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for i in range(LAYERS):
        for name in "qkvo":
            yield f"model.layers.{i}.self_attn.{name}_proj.weight", (HIDDEN, HIDDEN)
        for name in ("gate", "up"):
            yield f"model.layers.{i}.mlp.{name}_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"model.layers.{i}.mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
        for name in ("input", "post_attention"):
            yield f"model.layers.{i}.{name}_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def write_model(folder):
    """Random weights, drawn once and laid out from another place for each tensor. Returns their bytes."""
    draw = random.Random(3)
    block = array.array("f", (draw.gauss(0, 0.04) for _ in range(1 << 16)))
    header, at = {}, 0
    for name, shape in shapes():
        size = 4
        for n in shape:
            size *= n
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, entry in enumerate(header.values()):
            left = (entry["data_offsets"][1] - entry["data_offsets"][0]) // 4
            begin = number * 977 % len(block)
            while left > 0:
                piece = block[begin : begin + left]
                piece.tofile(file)
                left -= len(piece)
                begin = 0
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return at


def record(program, folder, name, *flags):
    """What it prints, and the most memory it had by the system's account of children."""
    command = [program, "baseline", "record", folder, "--tokens", "5,17,200,3,90,41,8", "-o", folder / name, "--json"]
    with open(folder / "out.json", "w+", encoding="utf-8") as out:
        child = subprocess.Popen([*map(str, command), *flags], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, child.returncode
        out.seek(0)
        return json.load(out), usage.ru_maxrss * 1024


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        size = write_model(folder)
        assert size >= 8 * LIMIT, size
        facts, peak = record(sys.argv[1], folder, "pieces", "--operators", "--memory-limit", str(LIMIT))
        print(f"checkpoint {size}, limit {LIMIT}, peak {peak} ({facts['peak_resident_bytes']} by VmHWM)")
        assert facts["segments"] == LAYERS + 2
        assert peak <= LIMIT and facts["peak_resident_bytes"] <= LIMIT
        _, most = record(sys.argv[1], folder, "whole", "--operators")
        assert most > 4 * LIMIT, "all at once should need far more, or nothing is shown here"
        parts = [(folder / pack / "tensors.safetensors").read_bytes() for pack in ("pieces", "whole")]
        assert parts[0] == parts[1], "other bits than all at once"


if __name__ == "__main__":
    main()
