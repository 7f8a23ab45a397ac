#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the vendor's own code computes, as a golden pack that `firstlight baseline compare` reads.

    firstlight baseline values MODEL --json > values.json        # where this program is
    python record.py MODEL --values values.json --prompts prompts.json -o pack     # where the model runs

MODEL is a directory that `transformers` loads, with its own code where it has some (--trust-remote-code: that code is
run; read it first). Forward hooks keep the outputs of the modules whose names values.json lists; the names are the
spec's, which are the vendor's. Modules that give something of another shape are reported and left out.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_pack  # noqa: E402
import ranks as sharded  # noqa: E402


def read_prompts(args):
    """Token ids; texts through the model's own tokenizer."""
    if args.tokens:
        try:
            return [[int(word) for word in args.tokens.split(",")]]
        except ValueError:
            sys.exit(f"--tokens {args.tokens}: comma-separated token ids wanted")
    text = pathlib.Path(args.prompts).read_text()
    if text.lstrip()[:1] in ("[", "{"):
        entries = json.loads(text)
        if isinstance(entries, dict):
            entries = entries["prompts"] if "prompts" in entries else [entries["prompt"]]
    else:
        entries = [line for line in text.split("\n") if line]
    tokenizer = None
    if any(isinstance(entry, str) for entry in entries):
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.model, trust_remote_code=args.trust_remote_code)
    return [tokenizer(entry)["input_ids"] if isinstance(entry, str) else entry for entry in entries]


def read_values(args):
    if args.values:
        text = pathlib.Path(args.values).read_text()
    else:
        command = [args.firstlight, "baseline", "values", args.model, "--json", *(["--spec", args.spec] if args.spec else [])]
        try:
            text = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
        except OSError as error:
            sys.exit(f"--firstlight: {error}")
    try:
        listing = json.loads(text)
    except json.JSONDecodeError as error:
        sys.exit(f"{args.values or args.firstlight}: no JSON: {error}")
    if "error" in listing:
        sys.exit(f"{args.values or args.firstlight} tells an error: {listing['error'].get('message', listing['error'])}")
    missing = {"model", "architecture", "parameters", "values"} - set(listing)
    if missing:
        sys.exit(f"{args.values}: not what `baseline values MODEL --json` prints: {', '.join(sorted(missing))} missing")
    return listing


def check_prompts(prompts, vocabulary):
    """Ids that have a row of the embedding, at least one per prompt."""
    if not prompts:
        sys.exit("no prompts")
    for tokens in prompts:
        if not tokens or not all(isinstance(one, int) and 0 <= one < vocabulary for one in tokens):
            sys.exit(f"prompt {tokens[:8]}: token ids below {vocabulary} wanted, one at least")


def find_module(name, modules, renames):
    """The module of a value's name: after renaming, the same name, else the only one with the longest common ending that
    names a layer."""
    for pattern, replacement in renames:
        name = re.sub(pattern, replacement, name)
    if name in modules:
        return name
    words = name.split(".")
    for start in range(1, len(words)):
        ending = ".".join(words[start:])
        if not re.search(r"(^|\.)\d+(\.|$)", ending):
            return None
        found = [other for other in modules if other.endswith("." + ending)]
        if len(found) == 1:
            return found[0]
    return None


def rows_of(output, num_tokens, width, ranks=1):
    """A module's output as [tokens, width], or as one of `ranks` even shares of the columns, or None."""
    if isinstance(output, (tuple, list)):
        output = output[0]
    if hasattr(output, "to_local"):
        output = output.to_local()
    if isinstance(output, torch.Tensor) and output.numel() * ranks == num_tokens * width:
        width //= ranks
    if not isinstance(output, torch.Tensor) or output.numel() != num_tokens * width:
        return None
    output = output.detach()
    shape = [size for size in output.shape if size != 1 or num_tokens == 1]
    if shape[:1] == [num_tokens] or output.shape[:2] == (1, num_tokens):
        return output.reshape(num_tokens, width).float().numpy().copy()
    if output.dim() == 4 and output.shape[2] == num_tokens:  # heads first
        return output[0].transpose(0, 1).reshape(num_tokens, width).float().numpy().copy()
    return None


class Recorder:
    """`ranks`: of how many this process is one. `cut`: (how many, rules): terms of sums are made for so many ranks."""

    def __init__(self, model, values, renames, ranks=1, cut=None):
        self.model, self.seen, self.wrong = model, {}, {}
        self.ranks, self.cut, self.terms = ranks, cut, {}
        self.taps = {tap["name"]: tap for tap in values}
        self.num_tokens = 0
        modules = dict(model.named_modules())
        self.unmapped = []
        embedding = model.get_input_embeddings()
        for tap in values:
            name = tap["name"]
            if name == "embedding" and embedding is not None:
                embedding.register_forward_hook(self._hook(name))
            elif tap["module_output"] and "#" not in name:
                found = find_module(name, modules, renames)
                if found is None:
                    self.unmapped.append(name)
                else:
                    module = modules[found]
                    if module is embedding:  # the head that is tied to it
                        module = model.get_output_embeddings() or module
                    module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def keep(module, inputs, output):
            calls = self.calls.get(name, 0) + 1
            self.calls[name] = calls
            key = name if calls == 1 else f"{name}#{calls}"
            tap = self.taps.get(key)
            if tap is None:
                return
            value = rows_of(output, self.num_tokens, tap["width"], self.ranks)
            if self.cut and self.cut[1].how(key) == "sum" and isinstance(module, torch.nn.Linear):
                self.terms[key] = sharded.terms_of_linear(module, inputs, self.num_tokens, self.cut[0])
            if value is None:
                first = output[0] if isinstance(output, (tuple, list)) else output
                self.wrong[key] = list(getattr(first, "shape", []))
            else:
                self.seen[key] = value

        return keep

    def run(self, tokens):
        """Name to array, of one prompt."""
        self.seen, self.calls, self.terms, self.num_tokens = {}, {}, {}, len(tokens)
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        if "logits" in self.taps:
            self.seen["logits"] = logits.float().numpy().copy()
        return dict(self.seen)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("-o", "--output", required=True)
    values = parser.add_mutually_exclusive_group(required=True)
    values.add_argument("--values", help="what `firstlight baseline values MODEL --json` printed")
    values.add_argument("--firstlight", help="the program, to ask it")
    parser.add_argument("--spec", help="with --firstlight: the spec of a family that the program does not know yet")
    prompts = parser.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompts", help="file: a text per line, or JSON with texts and lists of token ids")
    prompts.add_argument("--tokens", help="one prompt as token ids")
    parser.add_argument("--dtype", default="float32", choices=["float64", "float32", "bfloat16", "float16"])
    parser.add_argument("--noise", action="store_true",
                        help="run in float32 as well; how far that is from this recording goes into the pack")  # fmt: skip
    parser.add_argument("--greedy", type=int, default=1, help="tokens of the continuation")
    parser.add_argument("--full", default="", help="keep all rows of these values, comma-separated; all: of every one")
    parser.add_argument("--rename", action="append", default=[], metavar="PATTERN=REPLACEMENT",
                        help="from a value's name to the module's (regular expression, repeatable)")  # fmt: skip
    parser.add_argument("--tensor-parallel", action="store_true",
                        help="under torchrun: this process is one rank and writes OUTPUT/rank<i>")  # fmt: skip
    parser.add_argument("--cut-ranks", type=int, default=0, metavar="N",
                        help="write what N ranks would have, as OUTPUT/rank<i>; how, --split says")  # fmt: skip
    parser.add_argument("--split", action="append", default=[], metavar="PATTERN=HOW",
                        help="values of that name: features, sum, rows, layers or whole (repeatable)")  # fmt: skip
    parser.add_argument("--trust-remote-code", action="store_true", help="run the code in the model's directory")
    args = parser.parse_args()
    if args.spec and not args.firstlight:
        parser.error("--spec is for --firstlight; `baseline values MODEL --spec FILE --json` makes such --values")
    if any("=" not in rename for rename in args.rename):
        parser.error("--rename: PATTERN=REPLACEMENT wanted")
    return args


def load(directory, dtype="float32", trust_remote_code=False, **how):
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=getattr(torch, dtype), attn_implementation="eager", trust_remote_code=trust_remote_code, **how
    ).eval()


def add_noise(recorder, records, taps):
    """Relative L2, of the worst prompt, between a run in float32 (of that recorder) and the recorded one."""
    for tokens, exact, _, _ in records:
        values = recorder.run(tokens)
        for tap in taps:
            if tap.get("integer") or tap["name"] not in values:
                continue
            a, b = exact[tap["name"]].astype(np.float64), values[tap["name"]].astype(np.float64)
            noise = float(np.linalg.norm(a - b) / max(np.linalg.norm(a), 1e-300))
            tap["noise"] = max(tap.get("noise", 0.0), noise, 1e-9)


def record(model, listing, prompts, directory, *, dtype="float32", greedy=1, renames=(), rank=None, cut=None,
           beside=None, **origin):  # fmt: skip
    """Packs of what `model` (of that directory) computes, and the recorder that knows what it left out. One pack; of
    one `rank` (which, of how many) of a run where it is one; with `cut` (how many, rules) one per rank that would be.
    `beside`: the same model in float32, to measure its noise by."""
    recorder = Recorder(model, listing["values"], renames, rank[1] if rank else 1, cut)
    records = []
    for tokens in prompts:
        values, continuation = recorder.run(tokens), []
        terms = dict(recorder.terms)
        logits = values["logits"]
        for _ in range(greedy):
            continuation.append(int(np.argmax(logits[-1])))
            if len(continuation) < greedy:
                logits = recorder.run(tokens + continuation)["logits"]
        records.append((tokens, values, continuation, terms))
    common = set.intersection(*(set(values) for _, values, _, _ in records))
    taps = [tap for tap in listing["values"] if tap["name"] in common]
    if beside is not None:
        add_noise(Recorder(beside, listing["values"], renames), records, taps)
    facts = dict(
        origin={"kind": "transformers", "transformers": transformers.__version__, "torch": torch.__version__,
                "dtype": dtype, "class": type(model).__name__, **golden_pack.rounding_facts(dtype), **origin},
        model=listing["model"],
        architecture=listing["architecture"],
        weights_hash=golden_pack.weights_hash(directory),
        spec="",
        spec_hash="",
    )  # fmt: skip
    if rank:
        parts = {
            tap["name"]: sharded.observed_part(tap, place, records[0][1][tap["name"]].shape[1], *rank)
            for place, tap in enumerate(listing["values"]) if tap["name"] in common
        }  # fmt: skip
        taps = [{**tap, "width": records[0][1][tap["name"]].shape[1], "part": parts[tap["name"]]} for tap in taps]
    packs = []
    for number in range(cut[0] if cut else 1):
        one = None
        for tokens, values, continuation, terms in records:
            rows, kept = None, taps
            if cut:
                kept, values, rows = sharded.cut(taps, values, terms, cut[1], number, cut[0])
            if one is None:
                one = golden_pack.Pack(kept, listing["parameters"], (number, cut[0]) if cut else rank,
                                       len(listing["values"]), **facts)  # fmt: skip
            one.add_prompt(tokens, values, continuation, rows)
        packs.append(one)
    return packs, recorder


def main():
    args = arguments()
    listing = read_values(args)
    prompts = read_prompts(args)
    how, rank, cut = {}, None, None
    if args.tensor_parallel:
        how, rank = {"tp_plan": "auto"}, (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if args.cut_ranks:
        cut = (args.cut_ranks, sharded.Rules(args.split))
    model = load(args.model, args.dtype, args.trust_remote_code, **how)
    check_prompts(prompts, model.get_input_embeddings().num_embeddings)
    beside = load(args.model, "float32", args.trust_remote_code) if args.noise else None
    renames = [rename.split("=", 1) for rename in args.rename]
    packs, recorder = record(model, listing, prompts, args.model, dtype=args.dtype, greedy=args.greedy, renames=renames,
                             rank=rank, cut=cut, beside=beside)  # fmt: skip
    for pack in packs:
        output = f"{args.output}/rank{pack.rank[0]}" if pack.rank else args.output
        pack.write(output, [name for name in args.full.split(",") if name])
        print(f"{output}: {len(pack.taps)} values of {len(prompts)} prompts")
    for name in recorder.unmapped:
        print(f"  no module for {name}", file=sys.stderr)
    for name, shape in recorder.wrong.items():
        print(f"  {name}: shape {shape}, {recorder.taps[name]['width']} numbers per token wanted", file=sys.stderr)


if __name__ == "__main__":
    main()
