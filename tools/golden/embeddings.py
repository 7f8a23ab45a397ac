#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last hidden states of tiny golden checkpoints by `transformers`, pooled three ways, as tests/golden/embeddings.json
holds them: float32, not normalised. Needs torch and transformers.

    embeddings.py > tests/golden/embeddings.json
"""

import json
import pathlib

import torch
from transformers import AutoModel

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data"
FAMILIES = ("llama", "mistral", "qwen3", "gemma2", "mamba2", "mixtral")
TEXTS = ([5], [7, 3, 60, 11, 8], [3 + (i * 37 + i * i) % 60 for i in range(90)])


def rounded(row):
    return [float(f"{v:.8g}") for v in row.tolist()]


def main():
    torch.manual_seed(0)
    cases = []
    for family in FAMILIES:
        model = AutoModel.from_pretrained(DATA / family, dtype=torch.float32).eval()
        for tokens in TEXTS:
            with torch.no_grad():
                rows = model(torch.tensor([tokens])).last_hidden_state[0]
            cases.append({"model": family, "tokens": tokens, "last": rounded(rows[-1]), "first": rounded(rows[0]),
                          "mean": rounded(rows.double().mean(dim=0))})
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


if __name__ == "__main__":
    main()
