# SPDX-License-Identifier: Apache-2.0
"""--vendor-activations over the quantised checkpoints: all backends round alike, and rounding changes something.

    python3 tests/golden/check_vendor_activations.py build/firstlight

Exit status 1 where they differ by more than float32 explains, or nothing changes.
"""

import json
import math
import pathlib
import subprocess
import sys

DATA = pathlib.Path(__file__).resolve().parent / "data"
CASES = ("fp8_tensor", "fp8_channel", "fp8_small_powers", "mxfp8", "nvfp4_compressed", "nvfp4_modelopt", "mixed_integers")
EXACT = ("--compute", "f32", "--kv-dtype", "f32")
REFERENCE = ("--backend", "reference")


def logits(program, model, *flags):
    command = [program, "logits", str(model), "--tokens", "5,9,17,30", "--last", "--json", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["logits"][0]


def main(program):
    failed = False
    listed = subprocess.run([program, "devices", "--json"], check=True, capture_output=True, text=True).stdout
    there = {device["backend"] for device in json.loads(listed)["devices"]}
    backends = [backend for backend in ("cpu", "opencl") if backend in there]
    for case in CASES:
        model = DATA / ("quant_" + case)
        judge = logits(program, model, *REFERENCE, "--vendor-activations")
        size = math.hypot(*judge)
        errors = [math.dist(logits(program, model, "--backend", backend, *EXACT, "--vendor-activations"), judge) / size
                  for backend in backends]
        effect = math.dist(logits(program, model, *REFERENCE), judge) / size
        passed = max(errors) < 1e-5 and effect > 1e-3
        failed |= not passed
        figures = ", ".join(f"{backend} {error:.1e}" for backend, error in zip(backends, errors))
        print(f"{case:20} from reference: {figures}; rounded from exact {effect:.1e}{'' if passed else ' FAILED'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
