#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another engine's logits as a golden pack, to vote with (docs/voters.md). An engine that tells nothing of its layers
still has a voice at the end of the model.

    python from_logits.py --tokens 1,2,3 logits.npy --engine NAME --arithmetic float32 -o pack
    python from_logits.py --prompts prompts.json a.npy b.npy ... -o pack        # one array per prompt, in order
    python from_logits.py --prompts prompts.json --llama-cpp model.gguf --arithmetic w8a8 -o pack

Each array has a row of logits per token, [tokens, vocabulary]. --prompts are lists of token ids: texts would need the
engine's tokenizer. --llama-cpp runs the file with llama-cpp-python, once per prompt. Needs NumPy alone without that.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import golden_pack  # noqa: E402


def read_prompts(args):
    if args.tokens:
        return [[int(word) for word in args.tokens.split(",")]]
    entries = json.loads(pathlib.Path(args.prompts).read_text())
    if isinstance(entries, dict):
        entries = entries["prompts"] if "prompts" in entries else [entries["prompt"]]
    for entry in entries:
        if not isinstance(entry, list) or not all(isinstance(token, int) for token in entry):
            raise SystemExit(f"{args.prompts}: lists of token ids wanted, not {json.dumps(entry)[:60]}")
    return entries


def run_llama_cpp(path, prompts):
    """(logits per prompt, layers)."""
    import llama_cpp

    engine = llama_cpp.Llama(path, n_ctx=max(map(len, prompts)) + 8, logits_all=True, verbose=False)
    arrays = []
    for tokens in prompts:
        engine.reset()
        engine.eval(tokens)
        arrays.append(np.array(engine.scores[: len(tokens)], np.float32))
    layers = [int(value) for key, value in engine.metadata.items() if key.endswith(".block_count")]
    return arrays, layers[0] if layers else 0


def check(array, tokens, name):
    if array.ndim != 2 or len(array) != len(tokens) or array.shape[1] < 1:
        raise SystemExit(f"{name}: shape {list(array.shape)}, [{len(tokens)}, vocabulary] wanted: a row per token")
    return np.asarray(array, np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logits", nargs="*", help=".npy files, one per prompt")
    parser.add_argument("-o", "--output", required=True)
    prompts = parser.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompts", help="JSON: lists of token ids")
    prompts.add_argument("--tokens", help="one prompt as token ids")
    parser.add_argument("--llama-cpp", metavar="GGUF", help="run this file with llama-cpp-python")
    parser.add_argument("--engine", default="", help="who computed it, and its version")
    parser.add_argument("--model", default="", help="name of the model")
    parser.add_argument("--layers", type=int, default=0, help="of the model: how far rounding adds up")
    parser.add_argument("--arithmetic", default="float32", choices=sorted(golden_pack.ARITHMETIC),
                        help="what its products round")  # fmt: skip
    args = parser.parse_args()
    token_lists = read_prompts(args)
    layers, engine = args.layers, args.engine
    if args.llama_cpp:
        import llama_cpp

        arrays, found = run_llama_cpp(args.llama_cpp, token_lists)
        layers, engine = layers or found, engine or f"llama-cpp-python {llama_cpp.__version__}"
    else:
        arrays = [np.load(path) for path in args.logits]
    if len(arrays) != len(token_lists):
        raise SystemExit(f"{len(arrays)} arrays for {len(token_lists)} prompts")
    arrays = [check(array, tokens, f"prompt {i}") for i, (array, tokens) in enumerate(zip(arrays, token_lists))]
    widths = sorted({array.shape[1] for array in arrays})
    if len(widths) != 1:
        raise SystemExit(f"vocabularies of {widths}: one wanted")
    tap = {"name": "logits", "layer": "head", "op": "", "width": widths[0], "rate": 1, "integer": False, "layer_output": True}
    pack = golden_pack.Pack(
        [tap], 0,
        origin={"kind": "logits", "engine": engine, "arithmetic": args.arithmetic, "layers": str(layers),
                **golden_pack.rounding_facts(args.arithmetic)},
        model=args.model or pathlib.Path(args.llama_cpp or args.logits[0]).name,
        architecture="", weights_hash="", spec="", spec_hash="",
    )  # fmt: skip
    for tokens, array in zip(token_lists, arrays):
        pack.add_prompt(tokens, {"logits": array}, [int(np.argmax(array[-1]))])
    pack.write(args.output)
    print(f"{args.output}: logits of {len(token_lists)} prompts, {widths[0]} numbers per token")


if __name__ == "__main__":
    main()
