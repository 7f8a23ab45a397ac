#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`firstlight plan` held against what the program then takes, and the longest context wherever it counts: plan, run,
serve, /v1/models. Tiny golden checkpoints, a larger one of random weights, and where they are there the tensor lists of
real checkpoints. Standard library only.

    plan_test.py PROGRAM
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from serve_test import GOLDEN, free_port, make_model, request

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "data"


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def call(program, *words):
    """Exit status, the JSON document, stderr, and the most memory the process took."""
    with subprocess.Popen([program, *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, json.loads(out) if out else None, err.decode(), usage.ru_maxrss * 1024


def make_wide(folder, layers=4, hidden=1024, vocabulary=4096):
    """A llama of random BF16 weights, large enough that the program itself counts for little."""
    config = json.loads((GOLDEN / "config.json").read_text())
    config.update(hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers, num_attention_heads=8, head_dim=hidden // 8,
                  num_key_value_heads=8, vocab_size=vocabulary, max_position_embeddings=8192, tie_word_embeddings=False)
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden], "lm_head.weight": [vocabulary, hidden]}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{n}_proj.weight": [hidden, hidden] for n in "qkvo"}
        shapes |= {at + f"mlp.{n}_proj.weight": [2 * hidden, hidden] for n in ("gate", "up")}
        shapes |= {at + "mlp.down_proj.weight": [hidden, 2 * hidden]}
        shapes |= {at + f"{n}_layernorm.weight": [hidden] for n in ("input", "post_attention")}
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 + 56)  # 8 bytes of length before it
    block = struct.pack("<4096H", *(0x3c00 + random.Random(1).randrange(0x8000) // 256 for _ in range(4096)))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, offset, len(block)):
            file.write(block[:min(len(block), offset - at)])
    return offset


def expect_peak(program, model, prompt, tokens, *flags, vocabulary=50):
    """What plan says of a context, and what a run that fills it takes: within 10 %."""
    context = prompt + tokens
    status, plan, err, _ = call(program, "plan", model, "--context", context, *flags)
    check(status == 0 and plan["fits"], f"plan {model}: {status} {err}")
    ids = ",".join(str(3 + i * 61 % vocabulary) for i in range(prompt))
    status, _, err, peak = call(program, "run", model, "--tokens", ids, "--max-tokens", tokens, "--ignore-eos", "--context", context, *flags)
    check(status == 0, f"run {model}: {err}")
    planned = plan["ranks"][0]["total"]
    print(f"{pathlib.Path(model).name}, {context} tokens {' '.join(flags)}: planned {planned / 1e6:.1f} MB, taken {peak / 1e6:.1f} MB ({planned / peak - 1:+.1%})")
    check(abs(planned / peak - 1) <= 0.1, "planned and taken differ by more than 10 %")
    return plan


def check_monotone(program, model):
    before = 0
    for context, batch in ((16, 1), (64, 1), (128, 1), (128, 2), (128, 8), (128, 40)):
        _, plan, _, _ = call(program, "plan", model, "--context", context, "--batch", batch, "--memory", 10**9)
        total = plan["ranks"][0]["total"] - plan["ranks"][0]["program"]
        check(total > before, f"context {context}, batch {batch}: {total} after {before}")
        before = total


def check_limits(program, model, need):
    """Explicit and too large: no, with the figures; automatic: shorter, and said."""
    memory = int((need + 3_000_000) / 0.8)
    status, plan, err, _ = call(program, "plan", model, "--context", 8192, "--memory", memory)
    check(status == 1 and plan["fits"] is False, f"exit {status}, fits {plan['fits']}")
    check("the longest that fits: " + str(plan["max_context"]) in err and str(plan["ranks"][0]["total"]) in err, err)
    check(0 < plan["max_context"] < 8192, str(plan["max_context"]))
    longest = plan["max_context"]
    status, plan, _, _ = call(program, "plan", model, "--memory", memory)
    check(status == 0 and plan["fits"] and abs(plan["context"] - longest) <= 256 and "8192 need" in plan["note"], str(plan))
    status, plan, _, _ = call(program, "plan", model, "--context", max(1, longest - 256), "--memory", memory)
    check(status == 0 and plan["fits"], "a shorter one than the longest")
    status, plan, _, _ = call(program, "plan", model, "--context", min(8192, longest + 512), "--memory", memory)
    check(status == 1, "a longer one than the longest")
    status, _, err, _ = call(program, "plan", model, "--context", 8193)
    check(status == 2 and "8192 positions" in err, err)
    for words, wanted in ((["--cluster", "x.toml"], "--cluster"), (["--tp", "2"], "--tp 2"), (["--batch", "0"], "--batch 0")):
        status, _, err, _ = call(program, "plan", model, *words)
        check(status == 2 and wanted in err, f"{words}: {status} {err}")


def check_serve(program, folder):
    """The same length from the command line, the log, /v1/models and a refusal."""
    make_model(folder)
    config = json.loads((folder / "config.json").read_text())
    _, plan, _, _ = call(program, "plan", folder, "--context", 128)
    state = plan["ranks"][0]["state"]
    check(config["max_position_embeddings"] == 128, "the golden's positions")
    config["max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(config))
    room = ["--state-bytes", str(5 * state), "--generated", "cached"]
    refused = subprocess.run([program, "serve", folder, "--context", "641", *room], capture_output=True, text=True, timeout=60)
    check(refused.returncode == 2 and f"{5 * state} are available" in refused.stderr and "fits: 640" in refused.stderr, refused.stderr)
    port = free_port()
    with subprocess.Popen([program, "serve", folder, "--port", str(port), *room], stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr:
                if "serving" in line:
                    break
                if "a context of 640" in line:
                    noted = True
            check(noted, "the shortened context is said")
            models = json.loads(request(port, "GET", "/v1/models")[1])["data"][0]
            check(models["max_model_len"] == 640 and models["firstlight"]["max_context"] == 640, str(models))
            status, text = request(port, "POST", "/v1/completions", json.dumps({"model": models["id"], "prompt": "a" * 700, "max_tokens": 1}))
            check(status in (400, 503) and (status == 503 or "640" in text), f"{status} {text}")
        finally:
            server.terminate()
            server.wait(timeout=30)
    status, _, err, _ = call(program, "run", folder, "--tokens", "3,4", "--context", "4097")
    check(status == 2 and "4096 positions" in err, err)


def check_lists(program):
    """Configs and tensor lists of real checkpoints: totals to the byte, and memory where the spec takes them."""
    if not SHARED.exists():
        print("no shared data: lists of real checkpoints left out")
        return
    for config, name, parameters, size in (("DeepSeek-V3.2", "DeepSeek-V3.2", 685396921376, 689471107200),
                                           ("Kimi-K2.5", "Kimi-K2.6", 170738182128, 595148192736),
                                           ("gpt-oss-120b", "gpt-oss-20b", 11956805184, 13761264768)):
        status, plan, err, _ = call(program, "plan", SHARED / "configs" / config, "--tensors", SHARED / "tensor-manifests" / f"{name}.json",
                                    "--memory", 10**12)
        check(plan is not None, err)
        check(plan["parameters"] == parameters and plan["weights_bytes"] == size, f"{name}: {plan['parameters']}, {plan['weights_bytes']}")
        check(status == (0 if config == name else 2) and bool(plan["ranks"]) == (status == 0), f"{name}: {status} {err}")
        check(status == 0 or plan["unknown"], f"{name}: what is missing is said")
    started = time.monotonic()
    status, plan, err, _ = call(program, "plan", SHARED / "configs" / "Meta-Llama-3.1-405B", "--memory", 80 * 10**9)
    check(status == 1 and plan["fits"] is False and plan["max_context"] == 0, f"405B: {status} {err}")
    check(plan["parameters"] == 405853388800, f"405B: {plan['parameters']}")
    print(f"405B from its config alone: {time.monotonic() - started:.1f} s")


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="firstlight-plan-") as base:
        base = pathlib.Path(base)
        wide = base / "wide"
        wide.mkdir()
        size = make_wide(wide)
        plan = expect_peak(program, wide, 4088, 8, vocabulary=4093)
        check(plan["weights_bytes"] == size and plan["predicted"]["load_s"] is None, "weights, and no time by heart")
        check(plan["split"] == {"tp": 1, "pp": 1, "ep": 1, "dp": 1} and len(plan["ranks"]) == 1, "one device")
        expect_peak(program, wide, 4088, 8, "--kv-dtype", "f32", vocabulary=4093)
        need = plan["ranks"][0]["total"]
        check_limits(program, wide, need)
        for name in ("llama", "mamba2", "mixtral"):
            expect_peak(program, HERE.parent / "golden" / "data" / name, 120, 8)
        check_monotone(program, GOLDEN)
        serve = base / "serve"
        serve.mkdir()
        check_serve(program, serve)
    check_lists(program)
    print("ok")


if __name__ == "__main__":
    main()
