# SPDX-License-Identifier: Apache-2.0
"""`make bench-peers`: our speed and llama.cpp's on the same GGUF files, in one run, into build/bench-peers.json.

Rounds alternate between the engines (each in a process of its own, two threads), and a row holds the medians. Measured:
decode of 128 tokens one by one after a prompt of 16, and a prompt of 512 in one piece, nothing sampled. `targets` are
those of the project; exit status 1 if one is missed.

    python3 tools/bench_peers.py [--rounds 5] [--models smollm2-135m,gemma3-270m] [--output FILE]
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

SHORT_PROMPT, LONG_PROMPT, DECODED = 16, 512, 128
TARGETS = {("smollm2-135m", "decode_tps"): 0.9, ("smollm2-135m", "prompt_tps"): 0.7}


def ours(model):
    """One run of our bench: decode speed after the short prompt, speed of the long one, and the measured roof."""
    found = peers.firstlight("bench", model, "--prompt", f"{SHORT_PROMPT},{LONG_PROMPT}", "--batch", 1)
    rows = {row["prompt"]: row for row in found["rows"]}
    return {"decode_tps": rows[SHORT_PROMPT]["decode_tps"], "prompt_tps": rows[LONG_PROMPT]["prompt_tps"],
            "roof": found.get("roof", {})}


def theirs(model):
    """The same through llama.cpp, in a fresh process."""
    command = [peers.python(), __file__, "--worker", model]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def worker(path):
    """Loads the model with llama.cpp and prints its two speeds, its size and its version."""
    import llama_cpp as llama

    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, LONG_PROMPT, LONG_PROMPT
    params.n_threads = params.n_threads_batch = peers.THREADS
    context = llama.llama_init_from_model(model, params)
    vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))

    def decode(count, first=0):
        ids = (llama.llama_token * count)(*((first + 17 + 101 * i) % min(vocab, 30000) for i in range(count)))
        if llama.llama_decode(context, llama.llama_batch_get_one(ids, count)) != 0:
            raise RuntimeError("llama_decode failed")

    def clear():
        llama.llama_memory_clear(llama.llama_get_memory(context), True)

    def timed(work):
        start = time.perf_counter()
        work()
        llama.llama_synchronize(context)
        return time.perf_counter() - start

    decode(LONG_PROMPT)  # warms the pages and the threads
    clear()
    prompt_s = timed(lambda: decode(LONG_PROMPT))
    clear()
    decode(SHORT_PROMPT)
    decode_s = timed(lambda: [decode(1, i) for i in range(DECODED)])
    embedding = vocab * llama.llama_model_n_embd(model)
    print(json.dumps({"decode_tps": DECODED / decode_s, "prompt_tps": LONG_PROMPT / prompt_s,
                      "bytes": llama.llama_model_size(model), "parameters": llama.llama_model_n_params(model),
                      "embedding_parameters": embedding, "peer": {
                          **peers.version(llama), "threads": peers.THREADS, "n_batch": LONG_PROMPT,
                          "kv": "f16", "flash_attention": str(params.flash_attn_type)}}))


def median(rounds, key):
    return statistics.median(entry[key] for entry in rounds)


def compare(name, rounds):
    """Rows of one model, with what share of the measured roof our side reaches."""
    path = peers.model_path(name)
    mine, other = [], []
    for index in range(rounds):
        mine.append(ours(path))
        other.append(theirs(path))
        print(f"{name} round {index + 1}/{rounds}: decode {mine[-1]['decode_tps']:.1f} against "
              f"{other[-1]['decode_tps']:.1f}, prompt {mine[-1]['prompt_tps']:.1f} against "
              f"{other[-1]['prompt_tps']:.1f} tokens/s", file=sys.stderr)
    rows = []
    for metric, count in (("decode_tps", DECODED), ("prompt_tps", LONG_PROMPT)):
        row = {"peer": "llama.cpp", "model": name, "dtype": peers.MODELS[name], "metric": metric, "n": count,
               "batch": 1, "ours": median(mine, metric), "theirs": median(other, metric), "rounds": rounds,
               "spread": {"ours": [entry[metric] for entry in mine], "theirs": [entry[metric] for entry in other]}}
        row["ratio"] = row["ours"] / row["theirs"]
        row["target"] = TARGETS.get((name, metric))
        row["of_roof"] = share_of_roof(metric, row["ours"], other[-1], mine)
        rows.append(row)
    return rows, other[-1]["peer"], median_roof(mine)


def median_roof(mine):
    keys = mine[0]["roof"]
    return {key: statistics.median(entry["roof"][key] for entry in mine) for key in keys}


def share_of_roof(metric, speed, size, mine):
    """Decode: bytes of all weights per token (a tied table is read as the head) against the read bandwidth. Prompt: two
    operations per weight and token, the embedding table left out, against the arithmetic peaks."""
    roof = median_roof(mine)
    if metric == "decode_tps":
        return {"read_gbps": speed * size["bytes"] / 1e9 / roof["read_gbps"]} if roof.get("read_gbps") else {}
    tera = 2e-12 * speed * (size["parameters"] - size["embedding_parameters"])
    return {key: tera / roof[key] for key in ("bf16_tflops", "int8_tops") if roof.get(key)}


def cpu_name():
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default=",".join(peers.MODELS))
    parser.add_argument("--output", type=pathlib.Path, default=peers.BUILD / "bench-peers.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker)
    rows, peer, roofs = [], {}, {}
    for name in options.models.split(","):
        found, peer, roofs[name] = compare(name, options.rounds)
        rows += found
    missed = [row for row in rows if row["target"] and row["ratio"] < row["target"]]
    report = {"rows": rows, "peer": peer, "threads": peers.THREADS, "machine": cpu_name(), "roof": roofs,
              "passed": not missed}
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"peer: llama.cpp through llama-cpp-python {peer['llama_cpp_python']}, {peer['system']}")
    for row in rows:
        target = f" (wanted {row['target']})" if row["target"] else ""
        roof = ", ".join(f"{value:.0%} of {key}" for key, value in row["of_roof"].items())
        print(f"{row['model']} {row['dtype']} {row['metric']} n={row['n']}: ours {row['ours']:.1f}, theirs "
              f"{row['theirs']:.1f}, ratio {row['ratio']:.2f}{target}; {roof}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
