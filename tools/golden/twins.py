# SPDX-License-Identifier: Apache-2.0
"""Goldens of twins: configs of the size of releases, and what `transformers` computes of the twin that the program makes.

    golden-venv/bin/python tools/golden/twins.py build/firstlight            # all, a minute
    golden-venv/bin/python tools/golden/twins.py build/firstlight qwen3      # those whose name contains a word

Made with torch 2.15 and transformers 5.24. A config is that of the library's class with its own defaults, which are a
release's sizes, and the few words below. Per name, in tests/golden/twins: NAME.config.json; NAME.safetensors with `logits`
[rows, vocab] float32 of the rows listed in NAME.json, which also holds seed, prompt, the sum of the twin's bytes and the
bound, 5e-5: the widest that a golden of this repository has.
"""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "twins"
SEED = 1

CASES = {
    "llama": ("LlamaConfig", {"hidden_size": 4096, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                              "rope_theta": 5e5}),
    "qwen2": ("Qwen2Config", {"num_key_value_heads": 4, "use_sliding_window": True, "max_window_layers": 21}),
    "qwen3": ("Qwen3Config", {"num_key_value_heads": 8}),
    "qwen3_moe": ("Qwen3MoeConfig", {}),
    "gemma2": ("Gemma2Config", {}),
    "gemma3": ("Gemma3TextConfig", {}),
    "gpt_oss": ("GptOssConfig", {}),
    "deepseek_v3": ("DeepseekV3Config", {"num_key_value_heads": 128}),
    "glm4_moe": ("Glm4MoeConfig", {"n_group": 8, "topk_group": 4, "head_dim": 128}),
    "qwen3_next": ("Qwen3NextConfig", {}),
    "nemotron_h": ("NemotronHConfig", {}),
    "mixtral": ("MixtralConfig", {}),
    "lfm2": ("Lfm2Config", {"intermediate_size": 8192, "layer_types": (["conv", "conv", "full_attention"] * 11)[:32]}),
    "llama4": ("Llama4TextConfig", {}),
}


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def make(program, name):
    cls, words = CASES[name]
    config = getattr(transformers, cls)(**words)
    config.architectures = [cls.replace("TextConfig", "Config").replace("Config", "ForCausalLM")]
    FOLDER.mkdir(exist_ok=True)
    stated = config.to_diff_dict()  # what save_pretrained writes
    for key in ("transformers_version", "_name_or_path"):
        stated.pop(key, None)
    text = json.dumps(stated, indent=1) + "\n"
    with tempfile.TemporaryDirectory() as scratch:
        source, twin = pathlib.Path(scratch, "source"), pathlib.Path(scratch, "twin")
        source.mkdir()
        (source / "config.json").write_text(text)
        made = run(program, "twin", source, "-o", twin, "--seed", SEED, "--dtype", "f32")
        prompt = [(7 * i * i + 11 * i + 3) % 256 for i in range(made["prompt"])]
        model = transformers.AutoModelForCausalLM.from_pretrained(twin, dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0].numpy()
        weights = hashlib.sha256((twin / "model.safetensors").read_bytes()).hexdigest()
    (FOLDER / f"{name}.config.json").write_text(text)
    rows = sorted({*range(0, len(prompt), 5), len(prompt) - 1})
    save_file({"logits": numpy.ascontiguousarray(logits[rows])}, FOLDER / f"{name}.safetensors")
    facts = {"seed": SEED, "prompt": prompt, "rows": rows, "weights_sha256": weights, "bound": 5e-5,
             "layer_kinds": len(made["layer_kinds"]), "layers": made["layers"]}
    (FOLDER / f"{name}.json").write_text(json.dumps(facts) + "\n")
    print(name, made["layers"], "layers", made["weights"], "weights", flush=True)


def main():
    torch.manual_seed(0)
    words = sys.argv[2:]
    for name in CASES:
        if not words or any(word in name for word in words):
            try:
                make(sys.argv[1], name)
            except (subprocess.CalledProcessError, ValueError) as error:
                print(name, "FAILED", error)


if __name__ == "__main__":
    main()
