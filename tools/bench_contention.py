# SPDX-License-Identifier: Apache-2.0
"""What is left of our speed when another process takes most of a core.

    python3 tools/bench_contention.py MODEL [--busy 0.85] [--rounds 3] [--threads N]

Rounds alone and beside a process that keeps one core busy for `busy` of the time take turns. Fair is (threads - busy) /
threads of the speed alone; prints what was reached of it, medians over the rounds. Exit status 1 below 0.8.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

FIRSTLIGHT = pathlib.Path(__file__).resolve().parents[1] / "build" / "firstlight"
LEAST = 0.8
PERIOD_S = 0.1


def keep_busy(share):
    """Never returns: `share` of every tenth of a second is spent computing."""
    while True:
        begin = time.monotonic()
        while time.monotonic() < begin + share * PERIOD_S:
            pass
        time.sleep((1 - share) * PERIOD_S)


def measure(options):
    command = [str(FIRSTLIGHT), "bench", options.model, "--prompt", "512", "--decode", "128", "--threads",
               str(options.threads), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    row = json.loads(done.stdout)["rows"][0]
    return {"prompt": row["prompt_tps"], "decode": row["decode_tps"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--busy", type=float, default=0.85)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        alone = measure(options)
        busy = subprocess.Popen([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
                                 "import bench_contention; bench_contention.keep_busy(float(sys.argv[2]))",
                                 str(pathlib.Path(__file__).parent), str(options.busy)])
        try:
            rounds.append((alone, measure(options)))
        finally:
            busy.kill()
            busy.wait()
    fair = (options.threads - options.busy) / options.threads
    worst = 1.0
    for what in ("prompt", "decode"):
        alone = statistics.median(one[what] for one, _ in rounds)
        beside = statistics.median(one[what] for _, one in rounds)
        reached = statistics.median(one[1][what] / one[0][what] for one in rounds) / fair
        worst = min(worst, reached)
        print(f"{what}: {alone:.0f} tokens/s alone, {beside:.0f} beside {options.busy:g} of a core: "
              f"{reached:.2f} of the fair share ({fair:.3f})")
    return 0 if worst >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
