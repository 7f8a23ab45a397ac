# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random checkpoints and their goldens under tests/golden/data with `transformers`.

    python tools/golden/checkpoints.py            all cases
    python tools/golden/checkpoints.py llama yarn cases whose name contains one of the words

A case directory holds config.json and model.safetensors as `save_pretrained` writes them, config.old.json where older
releases spelled the config differently, golden.json (README.md beside this file says what its fields mean) and
golden.safetensors: `logits` [tokens, vocab] and, for some, `hidden` [layers + 1, tokens, hidden].
Seeds are searched until every routing decision and every greedy choice is clear.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

import dense_cases
import drawn_cases
import prediction_layers
import quantised_cases
import recurrent_cases
import reference
import sparse_cases
from case import DERIVED, old_spelling, random_state
from quantise import quantise

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data"
GREEDY_MARGIN = 5e-2  # absolute, logits have a spread of one to a few units
CONTINUATION = 16
WEIGHTS_SEED = 20261130


def model_class(case):
    if case.class_name != "AutoModelForCausalLM":
        return getattr(transformers, case.class_name)
    return type(transformers.AutoModelForCausalLM.from_config(make_config(case)))


def make_config(case):
    return getattr(transformers, case.config_class)(**json.loads(json.dumps(case.config)))


def prompt(case, seed):
    generator = torch.Generator().manual_seed(seed)
    vocab = case.config.get("vocab_size") or case.config["text_config"]["vocab_size"]
    first, last = 3, vocab - 8  # keeps clear of special ids at both ends
    return torch.randint(first, last, (case.prompt_length,), generator=generator).tolist()


@dataclasses.dataclass
class Weights:
    """One draw: the model that computes, and what its files hold instead of its own tensors, if quantised."""
    model: torch.nn.Module
    files: dict | None = None
    quantisation: dict | None = None


def draw_weights(case, kind, seed):
    state = random_state(kind(make_config(case)), case, seed)
    model = reference.build(kind, make_config(case), state, torch.float32)
    if not case.quantise:
        return Weights(model)
    files, plain, quantisation = quantise(case.quantise, saved(model)[1])
    plain_model = read_back(kind, saved(model)[0], plain)  # the golden is of the dequantised weights
    return Weights(plain_model, files, quantisation)


def saved(model):
    """config.json and the tensors as `save_pretrained` writes them."""
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        config = json.loads((pathlib.Path(scratch) / "config.json").read_text())
        return config, load_file(pathlib.Path(scratch) / "model.safetensors")


def read_back(kind, config, tensors):
    """The model that `from_pretrained` makes of a config and tensors."""
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "config.json").write_text(json.dumps(config))
        save_file({n: t.contiguous() for n, t in tensors.items()}, pathlib.Path(scratch) / "model.safetensors",
                  {"format": "pt"})
        loader = transformers.AutoModelForCausalLM if kind.__name__.endswith("ForCausalLM") else kind
        model, report = loader.from_pretrained(scratch, dtype=torch.float32, attn_implementation="eager",
                                               output_loading_info=True)
    if report["missing_keys"] or report["mismatched_keys"]:
        raise RuntimeError(f"{report}")
    return eager(model).eval()


def eager(model):
    model.config._experts_implementation = "eager"
    return model


def search(case, kind):
    """The first weights and prompt whose routing and greedy choices are clear and that never emit a stop id."""
    for seed in range(600):
        if seed % 40 == 0:
            weights = draw_weights(case, kind, WEIGHTS_SEED + seed // 40)
        ids = prompt(case, 1000 + seed)
        logits, hidden, routing = reference.prefill(weights.model, ids)
        if routing <= case.routing:
            continue
        tokens, margin, later = reference.greedy(weights.model, ids, CONTINUATION)
        stops = weights.model.config.get_text_config().eos_token_id
        stops = stops if isinstance(stops, list) else [stops]
        if margin > GREEDY_MARGIN and later > case.routing and not set(tokens) & set(stops):
            return dict(seed=seed, weights=weights, ids=ids, logits=logits, hidden=hidden, tokens=tokens,
                        margin=margin, routing=min(routing, later))
    raise RuntimeError(f"{case.name}: no clear seed")


def record(case):
    kind = model_class(case)
    found = search(case, kind)
    model = found["weights"].model
    with reference.float64():
        judge = reference.build(kind, make_config(case), model.state_dict(), torch.float64)
        exact, _, _ = reference.prefill(judge, found["ids"])
    assert exact.dtype == torch.float64 and found["logits"].dtype == torch.float32
    difference = reference.relative_error(found["logits"], exact)
    stepped = None if case.length_dependent else reference.relative_error(
        reference.stepwise(model, found["ids"]), found["logits"])
    if stepped is not None and stepped > 1e-5:
        raise RuntimeError(f"{case.name}: decode of the reference differs from its prefill by {stepped}")
    folder = DATA / case.name
    shutil.rmtree(folder, ignore_errors=True)
    write_checkpoint(case, found["weights"], folder)
    write_golden(case, found, difference, stepped, folder)
    check_reload(case, kind, found, folder)
    size = sum(p.stat().st_size for p in folder.iterdir()) / 1024
    print(f"{case.name:22} {size:4.0f} KiB seed {found['seed']:3} f32-f64 {difference:.1e} stepwise {stepped or 0:.1e} "
          f"routing {found['routing']:.1e} greedy {found['margin']:.2f} logits {found['logits'].std():.1f}", flush=True)


def write_checkpoint(case, weights, folder):
    """config.json and model.safetensors as the library writes them, then the quantised or narrowed tensors."""
    config, tensors = saved(weights.model)
    if case.quantise:
        tensors = weights.files
        config["quantization_config"] = weights.quantisation
    if case.prediction_layer:
        tensors.update(prediction_layers.tensors_of(case, tensors))
    if case.storage == "bfloat16":
        keep = ("e_score_correction_bias", "weight_scale_inv", *DERIVED)
        tensors = {n: t.bfloat16() if t.dtype == torch.float32 and not n.endswith(keep) else t
                   for n, t in tensors.items()}
        config["dtype"] = "bfloat16"
    if case.rename:
        tensors = {re.sub(*case.rename, name): tensor for name, tensor in tensors.items()}
    config.update(case.patch_config)
    for key in case.drop_config:
        config.pop(key, None)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "config.old.json").write_text(json.dumps(old_spelling(config), indent=2) + "\n")
    save_file({n: t.contiguous() for n, t in sorted(tensors.items())}, folder / "model.safetensors", {"format": "pt"})


def write_golden(case, found, difference, stepped, folder):
    golden = {
        "about": case.about, "family": case.family, "prompt": found["ids"], "continuation": found["tokens"],
        "greedy_margin": found["margin"],
        "routing_margin": None if found["routing"] == float("inf") else found["routing"],
        "length_dependent": case.length_dependent,
        "float32_float64": difference, "bound": max(2e-5, 4 * difference), "stepwise_prefill": stepped,
        "storage": case.storage, "quantised": case.quantise or None,
        "reference": {"transformers": transformers.__version__, "torch": torch.__version__, "dtype": "float32",
                      "attention": "eager", "class": type(found["weights"].model).__name__,
                      "command": f"python tools/golden/checkpoints.py {case.name}"},
    }
    arrays = {"logits": found["logits"].contiguous()}
    if case.capture:
        arrays["hidden"] = found["hidden"].contiguous()
    lines = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in golden.items())
    (folder / "golden.json").write_text("{\n" + lines + "\n}\n")
    save_file(arrays, folder / "golden.safetensors")


def check_reload(case, kind, found, folder):
    """Both spellings of the config, read back with the file just written, must give the recorded logits."""
    if case.quantise or case.patch_config:
        return  # `transformers` would dequantise in its own precision, or refuse the released keys
    for spelling in ("config.json", "config.old.json"):
        model = read_back(kind, json.loads((folder / spelling).read_text()), load_file(folder / "model.safetensors"))
        logits, _, _ = reference.prefill(model, found["ids"])
        error = reference.relative_error(logits, found["logits"])
        if error > 1e-6:
            raise RuntimeError(f"{case.name}: {spelling} reads back with relative error {error}")


def main(words):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for case in [*dense_cases.cases(), *sparse_cases.cases(), *recurrent_cases.cases(), *drawn_cases.cases(),
                 *quantised_cases.cases()]:
        if not words or any(word in case.name for word in words):
            record(case)


if __name__ == "__main__":
    main(sys.argv[1:])
