# SPDX-License-Identifier: Apache-2.0
"""Runs a built program over every checkpoint of tests/golden/data and compares with the goldens. Standard library only.

    python3 tests/golden/check_program.py build/firstlight                      the reference backend, strict bound
    python3 tests/golden/check_program.py build/firstlight --backend cpu --compute bf16 --bound 0.03 qwen3
                                                                                cases by word, another bound

Per case: logits of the prompt in one piece, in chunks of 7, and token by token, each from config.json and (once) from
config.old.json; then the greedy continuation. The measure is the largest over rows of max|a - b| / max|b| with b the
golden; the bound is the case's own unless stated. The best token of a row must be the golden's wherever the golden's
margin exceeds twice bound * max|b| of that row, and so must a continuation whose smallest margin exceeds it.
Exit status 1 if anything is out of bounds; 77 where the machine lacks the backend's device.
"""

import argparse
import array
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent / "data"
CHUNK = 7
# Of one matrix product, by the weight's stored type (U8 holds mxfp4; I64 is looked up alone).
PRODUCT_ERROR = {"F32": 3e-8, "F16": 3e-8, "BF16": 1.6e-3, "F8_E4M3": 1.6e-3, "U8": 6.8e-3, "I64": 0.0,
                 "I32": 3e-8, "I8": 3e-8, "F8_E8M0": 3e-8}


def read_tensor(path, name):
    """Rows of a float32 matrix in a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8:8 + length])[name]
    assert entry["dtype"] == "F32", entry
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    values = array.array("f")
    values.frombytes(raw[begin:end])
    if sys.byteorder == "big":
        values.byteswap()
    columns = entry["shape"][1]
    return [values[i:i + columns] for i in range(0, len(values), columns)]


class Program:
    def __init__(self, path, flags):
        self.path, self.flags = path, flags

    def __call__(self, *arguments):
        command = [self.path, *map(str, arguments), "--json", *self.flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout)


def row_error(found, golden):
    """Relative error of one row, and whether the best token is the golden's or within reach of it."""
    scale = max(map(abs, golden))
    return max(abs(a - b) for a, b in zip(found, golden)) / scale


def row_distance(found, golden):
    """|a - b| / |b|, the measure of whole models."""
    return math.dist(found, golden) / math.hypot(*golden)


def best_agrees(found, golden, bound):
    best = max(range(len(golden)), key=golden.__getitem__)
    second = max(value for i, value in enumerate(golden) if i != best)
    if golden[best] - second <= 2 * bound * max(map(abs, golden)):
        return True
    return max(range(len(found)), key=found.__getitem__) == best


def compare_logits(found, golden, bound, measure):
    """Largest relative error; a wrong shape, a number that is none, or a wrong best token counts as infinite."""
    rows = found["logits"]
    if len(rows) != len(golden) or any(len(a) != len(b) for a, b in zip(rows, golden)):
        return float("inf")
    errors = [measure(a, b) for a, b in zip(rows, golden)]
    if not all(error == error for error in errors):
        return float("inf")
    if not all(best_agrees(a, b, bound) for a, b in zip(rows, golden)):
        return float("inf")
    return max(errors)


def products(config):
    """Products with errors of their own: 9 in a layer, 27 in one with a recurrence."""
    kinds = config.get("layer_types") or config.get("layers_block_type") or []
    layers = config.get("num_hidden_layers") or len(kinds)
    recurrent = sum(kind in ("linear_attention", "conv") for kind in kinds)
    if config["model_type"] in ("mamba2", "jamba"):
        recurrent = layers
    return 9 * layers + 18 * recurrent


def whole_model_bound(folder):
    """docs/numerics.md, "Whole models": weights of each stored type in its own mode, state in float16, or in
    bfloat16 where products round."""
    config = json.loads((folder / "config.json").read_text())
    raw = (folder / "model.safetensors").read_bytes()
    header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
    types = {entry["dtype"] for name, entry in header.items() if name != "__metadata__" and len(entry["shape"]) > 1}
    product = max(PRODUCT_ERROR[name] for name in types)
    state = 2.5e-3 if product >= PRODUCT_ERROR["BF16"] else 3.1e-4
    return max(2e-5, 4 * math.hypot(product, state) * math.sqrt(products(config.get("text_config", config))))


def with_old_config(folder, scratch):
    for path in folder.iterdir():
        if path.name == "model.safetensors":
            shutil.copy(path, scratch)
    shutil.copy(folder / "config.old.json", pathlib.Path(scratch) / "config.json")
    return scratch


def check_case(program, folder, stated_bound, wanted_checks):
    """(name of the check, figure, passed) for everything a case shows."""
    golden = json.loads((folder / "golden.json").read_text())
    logits = read_tensor(folder / "golden.safetensors", "logits")
    whole = stated_bound == "model"
    bound = whole_model_bound(folder) if whole else stated_bound or golden["bound"]
    ids = ",".join(map(str, golden["prompt"]))

    def run(model, *flags):
        return compare_logits(program("logits", model, "--tokens", ids, *flags), logits, bound, row_distance if whole else row_error)

    yield from judged("prefill", lambda: run(folder), bound)
    if wanted_checks == "few":
        if not golden["length_dependent"]:
            yield from judged("stepwise", lambda: run(folder, "--stepwise"), bound)
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield from judged("old spelling", lambda: run(with_old_config(folder, scratch)), bound)
    if golden["length_dependent"]:
        return
    yield from judged("chunks", lambda: run(folder, "--chunk", CHUNK), bound)
    yield from judged("stepwise", lambda: run(folder, "--stepwise"), bound)
    wanted = golden["continuation"]
    scale = max(max(map(abs, row)) for row in logits)
    clear = golden["greedy_margin"] > 2 * bound * scale

    def greedy():
        found = program("run", folder, "--tokens", ids, "--raw", "--temperature", 0, "--max-tokens", len(wanted))
        return float(found["tokens"] != wanted and clear)

    yield from judged("greedy", greedy, 0.5)


def judged(name, work, bound):
    try:
        figure = work()
    except (RuntimeError, KeyError, ValueError) as error:
        yield name, str(error), False
        return
    yield name, figure, figure <= bound


def absent_device(path, backend):
    """Why there is no device for the backend; None where there is one, or none is needed."""
    if backend in ("reference", "cpu", "simt"):
        return None
    done = subprocess.run([path, "devices", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    listed = json.loads(done.stdout)
    if any(device["backend"] == backend for device in listed["devices"]):
        return None
    return next((kind["why"] for kind in listed["absent"] if kind["backend"] == backend), f"no device for {backend}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("words", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--compute")
    parser.add_argument("--kv-dtype", help="of the cache; f32 where nothing else shall round")
    parser.add_argument("--bound", type=lambda word: word if word == "model" else float(word),
                        help="a number, or 'model': what docs/numerics.md derives for the model and --compute auto")
    parser.add_argument("--architectures", help="specs from this directory instead of those built into the program")
    parser.add_argument("--checks", choices=["all", "few"], default="all", help="few: the prompt in one piece and token by token")
    parser.add_argument("--warp", help="lanes of a warp, as the program takes it")
    parser.add_argument("--no-tuned", action="store_true", help="as the program's own")
    parser.add_argument("--no-generated", action="store_true", help="as the program's own")
    options = parser.parse_intermixed_args()
    if absent := absent_device(options.program, options.backend):
        print(f"skipped: {absent}")
        return 77
    flags = ["--backend", options.backend] + (["--warp", options.warp] if options.warp else []) + (["--compute", options.compute] if options.compute else [])
    flags += ["--kv-dtype", options.kv_dtype] if options.kv_dtype else []
    flags += ["--architectures", options.architectures] if options.architectures else []
    flags += (["--no-tuned"] if options.no_tuned else []) + (["--no-generated"] if options.no_generated else [])
    program = Program(options.program, flags)
    cases = [f for f in sorted(DATA.iterdir()) if (f / "golden.json").exists()
             and (not options.words or any(word in f.name for word in options.words))]
    failed = 0
    for folder in cases:
        line = []
        for name, figure, passed in check_case(program, folder, options.bound, options.checks):
            failed += not passed
            shown = f"{figure:.1e}" if isinstance(figure, float) and name != "greedy" else ""
            shown = shown or (figure if isinstance(figure, str) else "")
            line.append(f"{'' if passed else 'FAILED '}{name} {shown}".strip())
        print(f"{folder.name:24} {'; '.join(line)}", flush=True)
    print(f"{len(cases)} cases, {failed} checks failed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
