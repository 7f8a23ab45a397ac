#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`firstlight serve --invariant`: what a client gets alone, it gets byte for byte, log-probabilities and all, from the
crowd, with too little room for the state of all, so that requests are put out and taken back, and with prompts that
were computed before, with guessed tokens and without. Attention alone, and a recurrence beside it. Standard library only.

    serve_invariant_test.py PROGRAM
"""

import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from serve_test import GOLDEN, free_port, gauge, make_model, request, wait_until_ready

CLIENTS = 24


def draw_requests(prompt):
    """Prompts that begin alike or not, of many lengths, greedy and sampled; stop strings, constraints, penalties."""
    options = [{}, {"stop": ["e", "0k"]}, {"frequency_penalty": 0.8}, {"structured_outputs": {"regex": "([a-k ]{2}[l-z])+"}},
               {"repetition_penalty": 1.3, "stop": ["s"]}]
    rng = random.Random(4)
    bodies = []
    for i in range(CLIENTS):
        start = rng.choice([0, 0, 5])
        length = rng.choice([rng.randrange(1, 100), rng.randrange(200, 400)])
        bodies.append({
            "prompt": [prompt[(start + k) % len(prompt)] for k in range(length)],
            "max_tokens": rng.randrange(1, 40),
            "temperature": i % 2,
            "seed": i,
            "logprobs": 5,
            "echo": i % 3 == 0,  # then those of the prompt too
            "ignore_eos": "structured_outputs" not in options[i % len(options)],
            **options[i % len(options)],
        })
    return bodies


def ask(port, body, salt):
    status, text = request(port, "POST", "/v1/completions", json.dumps({**body, "cache_salt": salt}))
    assert status == 200, f"status {status}: {text[:300]}"
    return json.dumps(json.loads(text)["choices"])


def check(program_path, family, state_bytes, *flags):
    """How often requests were put out, and what each got alone."""
    golden = json.loads((GOLDEN.parent / family / "golden.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        make_model(pathlib.Path(folder), GOLDEN.parent / family)
        config = pathlib.Path(folder) / "config.json"
        config.write_text(config.read_text().replace('"max_position_embeddings": 128', '"max_position_embeddings": 512'))
        port = free_port()
        command = [program_path, "serve", folder, "--invariant", "--port", str(port), "--context", "512",
                   "--step-tokens", "48", "--state-bytes", str(state_bytes), "--swap-memory", str(state_bytes // 2), *flags]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready(port, program)
            bodies = draw_requests(golden["prompt"])
            alone = [ask(port, body, f"alone {i}") for i, body in enumerate(bodies)]
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                for salt in ("crowd", "crowd", "another crowd"):  # the second finds what the first computed
                    answers = list(pool.map(lambda body: ask(port, body, salt), bodies))
                    for i, (found, wanted) in enumerate(zip(answers, alone)):
                        assert found == wanted, f"{family}, {salt}, request {i}: {found[:200]}, {wanted[:200]} alone"
            assert gauge(port, "firstlight_prefix_cache_hit_tokens_total") > 0
            put_out = [gauge(port, f'firstlight_preemptions_total{{kind="{kind}"}}') for kind in ("swap", "recompute")]
            assert sum(put_out) > 0, "nobody was put out"
            return put_out, alone
        finally:
            program.kill()
            program.wait()


def main():
    for family, state_bytes, guesses in (("llama", 80_000, "ngram:5"), ("qwen3_next", 80_000, "ngram:5"),
                                         ("deepseek_v3_no_q_lora", 80_000, "mtp:3")):
        put_out, alone = check(sys.argv[1], family, state_bytes)
        guessing_out, guessed = check(sys.argv[1], family, state_bytes, "--speculate", guesses)
        assert guessed == alone, f"{family}: another answer with guesses"
        for name, (swapped, again) in (("plain", put_out), ("with guesses", guessing_out)):
            print(f"{family} {name}: {CLIENTS} clients, three times; put out to swap {swapped:.0f} times, to be computed again {again:.0f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
