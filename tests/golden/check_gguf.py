# SPDX-License-Identifier: Apache-2.0
"""GGUF files of the golden checkpoints (tests/golden/gguf, made by tools/golden/gguf_files.py) through a built program: the
logits must be those of the checkpoint, of the file as it is and converted to Hugging Face's layout. Standard library only.

    python3 tests/golden/check_gguf.py build/firstlight [words] [--backend cpu]
"""
import argparse
import json
import pathlib
import sys
import tempfile

import check_program
from check_program import Program

FILES = check_program.DATA.parent / "gguf"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("words", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--architectures", help="specs from this directory instead of those built into the program")
    options = parser.parse_intermixed_args()
    flags = ["--compute", "f32", "--kv-dtype", "f32", "--backend", options.backend]
    flags += ["--architectures", options.architectures] if options.architectures else []
    program = Program(options.program, flags)
    files = [f for f in sorted(FILES.glob("*.gguf")) if not options.words or any(w in f.name for w in options.words)]
    failed = 0
    for path in files:
        folder = check_program.DATA / path.stem
        golden = json.loads((folder / "golden.json").read_text())
        logits = check_program.read_tensor(folder / "golden.safetensors", "logits")
        ids = ",".join(map(str, golden["prompt"]))
        bound = golden["bound"] + 1e-6  # decays are logarithms of what the file holds

        def error(model, logits=logits, ids=ids, bound=bound):
            found = program("logits", model, "--tokens", ids)
            return check_program.compare_logits(found, logits, bound, check_program.row_error)

        def converted(path=path, error=error):
            with tempfile.TemporaryDirectory() as scratch:
                Program(options.program, flags[4:])("convert", path, "--to", "f32", "-o", scratch + "/hf")
                return error(scratch + "/hf")

        line = []
        for work, label in ((lambda path=path, error=error: error(path), "as it is"), (converted, "converted")):
            for name, figure, passed in check_program.judged(label, work, bound):
                failed += not passed
                line.append(f"{'' if passed else 'FAILED '}{name} {figure if isinstance(figure, str) else f'{figure:.1e}'}")
        print(f"{path.stem:24} {'; '.join(line)}", flush=True)
    print(f"{len(files)} files, {failed} checks failed")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
