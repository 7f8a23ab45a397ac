# SPDX-License-Identifier: Apache-2.0
"""Computes by NumPy alone what the sampler must arrive at, and writes tests/golden/data/sampling.json.

    python tools/golden/sampling.py

The steps, in this order, in float64:

1. repetition penalty r, for every token of prompt or generated: a positive logit is divided by r, any other multiplied
2. frequency penalty f and presence penalty p, for tokens of generated alone: minus f · count, minus p where count > 0
3. logit bias, added
4. temperature: division; 0 means greedy, the largest logit takes all (the lowest id among equals)
5. top-k: the k largest stay (0: all)
6. top-p: of what is left, made to sum to 1, the fewest largest whose sum reaches p stay; at least one
7. min-p: of what is left, those stay whose probability is at least min_p times the largest
8. what stays is made to sum to 1

Log-probabilities are those of the raw logits, before step 1. No case depends on the order of equal logits, the named
greedy one excepted.
"""

import json
import pathlib

import numpy as np

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data" / "sampling.json"
DEFAULTS = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, presence_penalty=0.0,
                frequency_penalty=0.0, logit_bias={})
TOP_LOGPROBS = 5


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def penalised(logits, prompt, generated, params):
    logits = logits.copy()
    for token in set(prompt) | set(generated):
        factor = params["repetition_penalty"]
        logits[token] = logits[token] / factor if logits[token] > 0 else logits[token] * factor
    counts = np.bincount(generated, minlength=len(logits)) if generated else np.zeros(len(logits))
    logits -= params["frequency_penalty"] * counts + params["presence_penalty"] * (counts > 0)
    for token, bias in params["logit_bias"].items():
        logits[int(token)] += bias
    return logits


def distribution(logits, params):
    """Probabilities after temperature and the three truncations."""
    if params["temperature"] == 0:
        return np.eye(len(logits))[int(np.argmax(logits))]
    probabilities = np.exp(log_softmax(logits / params["temperature"]))
    order = np.argsort(-probabilities, kind="stable")
    if params["top_k"] > 0:
        order = order[:params["top_k"]]
    share = probabilities[order] / probabilities[order].sum()
    before = np.concatenate([[0.0], np.cumsum(share)[:-1]])  # what the larger ones hold together
    order = order[before < params["top_p"]] if params["top_p"] < 1 else order
    order = order[probabilities[order] >= params["min_p"] * probabilities[order[0]]]
    kept = np.zeros_like(probabilities)
    kept[order] = probabilities[order] / probabilities[order].sum()
    return kept


def case(name, logits, prompt=(), generated=(), **changed):
    params = {**DEFAULTS, **changed}
    raw = np.array(logits, dtype=np.float32).astype(np.float64)
    chances = distribution(penalised(raw, list(prompt), list(generated), params), params)
    logprobs = log_softmax(raw)
    top = np.argsort(-logprobs, kind="stable")[:TOP_LOGPROBS]
    check_clear(name, raw, list(prompt), list(generated), params)
    return dict(name=name, logits=[float(f"{x:.4f}") for x in raw], prompt=list(prompt), generated=list(generated),
                params=changed, probabilities=[float(f"{p:.10g}") for p in chances],
                top_logprobs=[[int(i), float(f"{logprobs[i]:.10g}")] for i in top])


def check_clear(name, raw, prompt, generated, params):
    """A float32 sampler must reach the same set: no truncation may hang on the last digits."""
    if params["temperature"] == 0:
        return
    logits = penalised(raw, prompt, generated, params)
    wanted = distribution(logits, params) > 0
    noise = np.random.default_rng(7)
    for _ in range(20):
        nudged = distribution(logits + noise.uniform(-1e-4, 1e-4, len(logits)), params) > 0
        assert (nudged == wanted).all(), name


def make_logits(seed, count=32, scale=2.5):
    """Distinct logits with four decimals."""
    values = np.round(np.random.default_rng(seed).normal(0, scale, count), 4)
    assert len(set(values)) == count
    return values.tolist()


def cases():
    a, b, c, tiny = (make_logits(1), make_logits(2), make_logits(3, scale=0.5), [2.0, -1.0, 0.5])
    history = dict(prompt=[3, 7, 7, 30], generated=[5, 7, 5, 5, 11])
    yield case("plain", a)
    yield case("plain, three entries", tiny)
    yield case("large logits do not overflow", [x * 40 for x in a])
    for temperature in (0.25, 0.7, 1.8):
        yield case(f"temperature {temperature}", a, temperature=temperature)
    yield case("greedy", b, temperature=0.0)
    yield case("greedy ignores the truncations", b, temperature=0.0, top_k=3, top_p=0.5, min_p=0.2)
    yield case("greedy among equals", [1.0, 3.0, 3.0, 2.0], temperature=0.0)
    yield case("greedy after penalties", a, temperature=0.0, generated=[int(np.argmax(a))], presence_penalty=9.0)
    for top_k in (1, 4, 32, 100):
        yield case(f"top-k {top_k}", b, top_k=top_k)
    for top_p in (0.0001, 0.3, 0.9, 0.999):
        yield case(f"top-p {top_p}", b, top_p=top_p)
    yield case("top-p on a flat distribution", c, top_p=0.8)
    for min_p in (0.02, 0.3, 1.0):
        yield case(f"min-p {min_p}", b, min_p=min_p)
    yield case("top-p is of what top-k left", b, top_k=6, top_p=0.7)
    yield case("min-p after top-p", c, top_p=0.9, min_p=0.4)
    yield case("temperature before top-p", c, temperature=0.4, top_p=0.6)
    yield case("temperature before min-p", c, temperature=2.5, min_p=0.6)
    for factor in (1.3, 0.8):
        yield case(f"repetition {factor}, both signs", b, repetition_penalty=factor, **history)
    yield case("repetition counts a token once", a, repetition_penalty=1.2, generated=[4, 4, 4, 4])
    yield case("repetition sees the prompt", a, repetition_penalty=1.2, prompt=[4, 9])
    for presence in (0.9, -0.6):
        yield case(f"presence {presence}", b, presence_penalty=presence, **history)
    for frequency in (0.5, -0.4):
        yield case(f"frequency {frequency}", b, frequency_penalty=frequency, **history)
    yield case("presence and frequency leave the prompt alone", a, presence_penalty=1.0, frequency_penalty=1.0,
               prompt=[1, 2, 2, 3])
    yield case("repetition before the subtractions", a, repetition_penalty=1.5, presence_penalty=0.7,
               frequency_penalty=0.3, **history)
    yield case("bias", a, logit_bias={"0": 4.5, "31": -2.25, "12": 0.5})
    yield case("bias that bans and forces", a, logit_bias={"6": -100, "17": 100})
    yield case("bias after the repetition penalty", b, repetition_penalty=1.4, logit_bias={"7": 3.0, "5": -1.0},
               **history)
    yield case("bias before temperature", b, temperature=0.5, logit_bias={"7": 2.0})
    yield case("everything", c, temperature=0.8, top_k=20, top_p=0.85, min_p=0.05, repetition_penalty=1.15,
               presence_penalty=0.2, frequency_penalty=0.1, logit_bias={"2": 0.75, "8": -0.5}, **history)
    yield case("everything, a peaked distribution", a, temperature=1.4, top_k=12, top_p=0.95, min_p=0.02,
               repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2, logit_bias={"20": 1.5}, **history)


def main():
    rows = ",\n".join("  " + json.dumps(row) for row in cases())
    about = "made by: python tools/golden/sampling.py; the steps and their order are described there"
    OUTPUT.write_text(f'{{"about": "{about}", "defaults": {json.dumps(DEFAULTS)}, "cases": [\n{rows}\n]}}\n')
    print(OUTPUT, OUTPUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
