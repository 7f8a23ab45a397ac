# SPDX-License-Identifier: Apache-2.0
"""Which config keys change what `transformers` computes, and by how much on our goldens.

    python tools/golden/sensitivity.py            a list per config class, over all its cases
    python tools/golden/sensitivity.py gemma3     the families whose name contains a word
    python tools/golden/sensitivity.py --sizes    with the largest change seen and the case that shows it

Every key of every committed config, in both spellings, is changed in turn, the model is rebuilt with the same weights
and its logits are compared with the golden: `changes` (largest relative error), `shapes` (tensors or tables no longer
fit) or `refused` (the library does not accept the value), else the key has no part in the computation. Such a key must
be waived by the spec, every other one must be bound. The tool also shows that the goldens can see each key: an error
below the bound of a test would hide a fault.
"""

import copy
import json
import sys

import torch
import transformers
from safetensors.torch import load_file

import dense_cases
import drawn_cases
import recurrent_cases
import reference
import sparse_cases
from checkpoints import DATA, WEIGHTS_SEED, eager, make_config, model_class, random_state
from case import Case

IDENTITY = {"architectures", "model_type", "transformers_version", "quantization_config"}


def alternatives(key, value):
    """Other values of one key that a config could hold."""
    if isinstance(value, bool):
        return [not value]
    if key in ("rope_type", "type"):
        return ["linear" if value == "default" else "default"]
    if key in ("hidden_act", "hidden_activation"):
        return ["relu"]
    if key == "dtype":
        return ["float16"]
    if key == "layer_types":
        swap = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
        return [[swap[t] for t in value]]
    if isinstance(value, list):
        return [value[:-1], [v * 2 for v in value]] if value else [[0]]
    if isinstance(value, float):
        return [value * 1.5, value * 0.4]
    if isinstance(value, int):
        return [value + 1, max(1, value // 2), value * 2]
    return {"sliding_window": [5], "final_logit_softcapping": [3.0], "attn_logit_softcapping": [3.0],
            "q_lora_rank": [16], "rope_scaling": [{"rope_type": "linear", "type": "linear", "factor": 4.0}]}.get(key, [3])


def leaves(config, path=()):
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, path + (key,))
        elif path or key not in IDENTITY:
            yield path + (key,), value


def replaced(config, path, value):
    config = copy.deepcopy(config)
    part = config
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return config


def outcome(kind, case, config, state, ids, golden):
    try:
        made = Case(**{**case.__dict__, "config": {k: v for k, v in config.items() if k not in IDENTITY}})
        made_config = make_config(made)
    except Exception as error:  # whatever the library raises on a value it does not like
        return "refused", type(error).__name__
    try:
        model = reference.build(kind, made_config, state, torch.float32)
        logits, _, _ = reference.prefill(eager(model), ids)
    except Exception as error:
        return "shapes", type(error).__name__
    return "changes", reference.relative_error(logits, golden)


def report_case(case, table):
    folder = DATA / case.name
    spellings = [json.loads((folder / name).read_text()) for name in ("config.json", "config.old.json")]
    if case.quantise or case.patch_config:
        return
    golden = json.loads((folder / "golden.json").read_text())
    logits = load_file(folder / "golden.safetensors")["logits"]
    kind = model_class(case)
    state = first_state(case, kind, golden, logits)
    for config in spellings:
        for path, value in leaves(config):
            worst = ("no part", 0.0)
            for other in alternatives(path[-1], value):
                found = outcome(kind, case, replaced(config, path, other), state, golden["prompt"], logits)
                worst = max(worst, found, key=rank)
            table.setdefault(".".join(path), []).append((rank(worst), worst, case.name))


def rank(found):
    """Visible change over misfit over refusal over no part."""
    kind, size = found
    if kind == "changes":
        return (3, size) if size > 1e-6 else (0, 0.0)
    return ({"shapes": 2, "refused": 1}.get(kind, 0), 0.0)


def first_state(case, kind, golden, logits):
    """The draw of weights behind a golden: the first that reproduces it."""
    for offset in range(20):
        state = random_state(kind(make_config(case)), case, WEIGHTS_SEED + offset)
        model = reference.build(kind, make_config(case), state, torch.float32)
        if reference.relative_error(reference.prefill(model, golden["prompt"])[0], logits) < 1e-6:
            return state
    raise RuntimeError(f"{case.name}: no draw gives the golden")


def main(words):
    long_form = "--sizes" in words
    words = [w for w in words if w != "--sizes"]
    transformers.logging.set_verbosity(50)
    torch.set_num_threads(1)
    tables = {}
    for case in [*dense_cases.cases(), *sparse_cases.cases(), *recurrent_cases.cases(), *drawn_cases.cases()]:
        if not words or any(word in case.family for word in words):
            report_case(case, tables.setdefault(case.config_class, {}))
    for family, table in tables.items():
        print(f"\n**{family}**")
        groups = {}
        for key, entries in sorted(table.items()):
            score, (_, size), name = max(entries, key=lambda e: e[0])
            groups.setdefault(score[0], []).append(f"{key} ({size:.0e} {name})" if long_form and score[0] == 3 else key)
        for score, title in ((3, "changes the logits"), (2, "decides shapes"), (1, "other values refused"),
                             (0, "no part")):
            if score in groups:
                print(f"* {title}: {', '.join(groups[score])}")


if __name__ == "__main__":
    main(sys.argv[1:])
