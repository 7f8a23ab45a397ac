# SPDX-License-Identifier: Apache-2.0
"""Makes the twin of every config in tests/golden/twins and compares its logits with those that `transformers` computed of the
same twin (tools/golden/twins.py). Standard library only.

    python3 tests/golden/check_twins.py build/firstlight [words]

Per config: the twin is the same byte for byte, has every feature of the original, and its logits are the golden's within
the bound, by the measure of check_program.py; in one piece, and token by token. Exit status 1 otherwise.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

from check_program import Program, compare_logits, read_tensor, row_error

FOLDER = pathlib.Path(__file__).resolve().parent / "twins"


def check(program, name, scratch):
    """The complaints about one twin, and its largest error."""
    facts = json.loads((FOLDER / f"{name}.json").read_text())
    golden = read_tensor(FOLDER / f"{name}.safetensors", "logits")
    source, twin = pathlib.Path(scratch, name), pathlib.Path(scratch, name + "-twin")
    source.mkdir()
    (source / "config.json").write_text((FOLDER / f"{name}.config.json").read_text())
    made = program("twin", source, "-o", twin, "--seed", facts["seed"], "--dtype", "f32")
    if hashlib.sha256((twin / "model.safetensors").read_bytes()).hexdigest() != facts["weights_sha256"]:
        yield "other weights than the golden's", 0
    if len(made["visited"]["layer_kinds"]) != facts["layer_kinds"] or made["jumps"] < made["jumps_of_original"]:
        yield "layer kinds or lines of the spec are missing", 0
    if made["features"] < made["features_of_original"]:
        yield "features are missing", 0
    ids = ",".join(map(str, facts["prompt"]))
    for flags in ([], ["--stepwise"]):
        found = program("logits", twin, "--tokens", ids, "--backend", "reference", *flags)["logits"]
        error = compare_logits({"logits": [found[i] for i in facts["rows"]]}, golden, facts["bound"], row_error)
        yield (f"error {error:.1e}" if not error <= facts["bound"] else ""), error


def main():
    program, words = Program(sys.argv[1], []), sys.argv[2:]
    names = [path.name.removesuffix(".config.json") for path in sorted(FOLDER.glob("*.config.json"))]
    names = [name for name in names if not words or any(word in name for word in words)]
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                results = list(check(program, name, scratch))
            except RuntimeError as error:
                results = [(str(error), 0)]
        complaints = [text for text, _ in results if text]
        failed += bool(complaints)
        print(f"{name:16} {'FAILED ' + '; '.join(complaints) if complaints else f'{max(e for _, e in results):.1e}'}", flush=True)
    print(f"{len(names)} twins, {failed} failed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
