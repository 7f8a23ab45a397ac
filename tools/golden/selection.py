# SPDX-License-Identifier: Apache-2.0
"""Choices of what a query sees, and attention inside them: tests/golden/data/selection.json.

  python tools/golden/selection.py tests/golden/data/selection.json

qsa, kpool: pooled groups of tokens and the tail that is no whole group yet, by the indexers of `transformers` (Qwen4-Exp,
GLM-5.3). two levels: rows inside the blocks that a first choice named, by loops over numbers and by tensors, which agree.
One sequence from its start; every choice is clear by a margin that six decimals do not touch.
"""
import json
import math
import sys
from types import SimpleNamespace

import torch
import transformers
from transformers.models.glm5_next import modeling_glm5_next as glm5
from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen4

TOKENS, DIM = 22, 8
MARGIN = 1e-3


class Unclear(Exception):
    """A choice that rounding could turn."""


def numbers(x):
    return [round(float(v), 6) for v in x.flatten()]


def operand(x):
    return {"shape": list(x.shape), "values": numbers(x), "ints": not x.is_floating_point()}


def log(rate, **components):
    """A state: rows [rows, heads, width] by component."""
    return {"rate": rate, "components": [{"name": name, "heads": rows.shape[1], "width": rows.shape[2], "rows": numbers(rows)}
                                         for name, rows in components.items()]}


def case(name, op, attributes, operands, states, result):
    return {"name": name, "op": op, "attributes": attributes, "operands": [operand(o) for o in operands], "states": states,
            "result": numbers(result)}


def fill(module):
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[-1]) if parameter.dim() > 1 else 0.3)


def groups_of(seen, rate, top):
    """The whole groups in a mask [tokens, tokens] of what is seen, and that the rest of it is the tail."""
    rows = torch.full((TOKENS, 1, top), -1)
    for t in range(TOKENS):
        named = [g for g in range((t + 1) // rate) if seen[t, g * rate:(g + 1) * rate].all()]
        tail = list(range((t + 1) // rate * rate, t + 1))
        assert seen[t].nonzero().flatten().tolist() == [g * rate + i for g in named for i in range(rate)] + tail
        rows[t, 0, :len(named)] = torch.tensor(named)
    return rows


def clear(scores, rate, top):
    for t in range(TOKENS):
        row = scores[t, :(t + 1) // rate].sort(descending=True).values
        if len(row) > top and row[top - 1] - row[top] <= MARGIN:
            raise Unclear


def pair(name, scoring, keys, weights, rate, top, seen):
    """The choice as index_scores makes it, and attention of two heads inside it and its tail."""
    rows = groups_of(seen, rate, top)
    score = torch.einsum("th,thg->tg", weights if weights is not None else torch.ones(scoring.shape[:2]),
                         torch.einsum("thd,gd->thg", scoring, keys).relu())
    clear(score, rate, top)
    yield case(f"{name}, the choice", "index_scores", f'{{key = "k", top = {top}}}',
               [scoring] + ([weights] if weights is not None else []), [log(rate, k=keys[:, None])], rows)
    q, k, v = (torch.randn(TOKENS, heads, DIM) for heads in (2, 1, 1))
    scores = torch.einsum("thd,jd->htj", q, k[:, 0]) * 0.25
    y = torch.einsum("htj,jd->thd", scores.masked_fill(~seen, float("-inf")).softmax(-1), v[:, 0])
    tail = f"le(mul(floor(div(add(x0, 1.0), {rate}.0)), {rate}.0), x1)"
    yield case(f"{name}, attention", "attend_segments",
               f'{{scale = 0.25, keys = "k, k", values = "v, v", windows = [0, {rate}], masks = [le(0.0, x1), {tail}], select = [{rate}, 0]}}',
               [q, rows], [log(1, k=k, v=v)] * 2, y)


def qsa(rate, top):
    config = SimpleNamespace(indexer_n_heads=3, indexer_kv_heads=1, indexer_head_dim=DIM, indexer_budget=rate * top,
                             indexer_compress_ratio=rate, hidden_size=24, rms_norm_eps=1e-3)
    indexer = qwen4.Qwen4ExpTextQSAIndexer(config, 0)
    fill(indexer)
    x = torch.randn(1, TOKENS, 24)
    angles = torch.arange(TOKENS)[:, None] * torch.tensor([1.0, 0.3])
    cos, sin = (torch.cat([f(angles)] * 2, -1)[None] for f in (torch.cos, torch.sin))
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    seen = indexer(x, (cos, sin), causal[None, None], None)[0, 0]
    q, k = indexer.index_qk_proj(x[0]).split([3 * DIM, DIM], -1)
    q = qwen4.apply_rotary_pos_emb(indexer.q_layernorm(q.view(1, TOKENS, 3, DIM)), cos=cos, sin=sin, unsqueeze_dim=2)[0]
    whole = TOKENS // rate
    pooled = indexer.k_layernorm(k[:whole * rate].view(whole, rate, DIM).mean(1))
    at = slice(0, whole * rate, rate)
    keys = qwen4.apply_rotary_pos_emb(pooled[None, :, None], cos=cos[:, at], sin=sin[:, at], unsqueeze_dim=2)[0, :, 0]
    yield from pair("qsa", q, keys, None, rate, top, seen)


def kpool(rate, top):
    config = SimpleNamespace(hidden_size=24, index_n_heads=4, index_head_dim=DIM, qk_rope_head_dim=4, index_topk=rate * top,
                             q_lora_rank=10, index_kpool=rate, index_kpool_always_select_tail=True)
    indexer = glm5.Glm5NextTextIndexer(config, 0)
    fill(indexer)
    x, low = torch.randn(1, TOKENS, 24), torch.randn(1, TOKENS, 10)
    chosen = indexer(x, low, torch.ones(1, TOKENS, dtype=torch.bool), None)[0]
    seen = torch.zeros(TOKENS, TOKENS + 1, dtype=torch.bool)
    seen = seen.scatter(1, torch.where(chosen < 0, TOKENS, chosen).long(), True)[:, :TOKENS]
    packed = torch.cat([indexer.k_norm(indexer.wk(x)), x @ indexer.index_kpool_compress_gate.T, torch.ones(1, TOKENS, 1)], -1)
    keys, _, whole = indexer.get_pooled_states(packed)
    weights = indexer.weights_proj(x[0]) * (4 ** -0.5 * indexer.softmax_scale)
    yield from pair("kpool", indexer.wq_b(low[0]).view(TOKENS, 4, DIM), keys[0][whole[0]], weights, rate, top, seen)


def by_loops(q, k, weights, block, blocks, top):
    """Both choices, numbers one by one in float64."""
    q, k, weights = q.double().tolist(), k.double().tolist(), weights.double().tolist()
    first, second = [], []
    for t in range(TOKENS):
        score = [sum(w * max(0.0, sum(a * b for a, b in zip(head, k[j]))) for w, head in zip(weights[t], q[t]))
                 for j in range(t + 1)]
        best = {b: max(score[b * block:(b + 1) * block]) for b in range(t // block + 1)}
        best[t // block] = math.inf
        named = sorted(sorted(best, key=lambda b: (-best[b], b))[:blocks])
        rows = [j for j in range(t + 1) if j // block in named]
        order = sorted(rows, key=lambda j: (-score[j], j))
        others = sorted((b for b in best if b not in named), key=lambda b: -best[b])
        if others and min(best[b] for b in named) - best[others[0]] <= MARGIN:
            raise Unclear
        if len(order) > top and score[order[top - 1]] - score[order[top]] <= MARGIN:
            raise Unclear
        first.append(named + [-1] * (blocks - len(named)))
        second.append(sorted(order[:top]) + [-1] * (top - len(order[:top])))
    return torch.tensor(first), torch.tensor(second)


def by_tensors(q, k, weights, block, blocks, top):
    score = torch.einsum("thj,th->tj", torch.einsum("thd,jd->thj", q, k).relu(), weights)
    at = torch.arange(TOKENS)
    score = score.masked_fill(at > at[:, None], float("-inf"))
    padded = torch.nn.functional.pad(score, (0, -TOKENS % block), value=float("-inf")).unflatten(1, (-1, block))
    best = padded.amax(-1).scatter(1, at[:, None] // block, float("inf"))
    values, named = best.topk(blocks)
    keep = torch.zeros_like(best, dtype=torch.bool).scatter(1, named, values > float("-inf"))
    inside = score.masked_fill(~keep.repeat_interleave(block, 1)[:, :TOKENS], float("-inf"))
    values, rows = inside.topk(top)

    def ascending(numbers, there):
        return torch.where(there, numbers, 1 << 20).sort(-1).values.apply_(lambda n: -1 if n == 1 << 20 else n)

    return ascending(named, best.gather(1, named) > float("-inf")), ascending(rows, values > float("-inf"))


def two_levels(block, blocks, top):
    q, k, weights = torch.randn(TOKENS, 3, DIM), torch.randn(TOKENS, DIM), torch.randn(TOKENS, 3)
    q, k, weights = (x.mul(64).round().div(64) for x in (q, k, weights))
    first, second = by_loops(q, k, weights, block, blocks, top)
    other = by_tensors(q, k, weights, block, blocks, top)
    assert torch.equal(first, other[0]) and torch.equal(second, other[1])
    states = [log(1, k=k[:, None])]
    yield case("two levels, blocks", "index_scores", f'{{key = "k", top = {blocks}, block = {block}, recent = 1}}', [q, weights],
               states, first)
    yield case("two levels, rows", "index_scores", f'{{key = "k", top = {top}, within_block = {block}}}',
               [q, weights, first[:, None]], states, second)


def drawn(make, *sizes):
    """The cases of the first seed whose choices are all clear."""
    for seed in range(500):
        torch.manual_seed(seed)
        try:
            return list(make(*sizes))
        except Unclear:
            pass
    raise RuntimeError(f"{make.__name__}{sizes}: no clear seed")


def main(path):
    torch.set_grad_enabled(False)
    cases = [c for make, *sizes in ((qsa, 4, 3), (qsa, 3, 2), (kpool, 4, 2), (kpool, 5, 3), (two_levels, 4, 3, 6), (two_levels, 2, 5, 4))
             for c in drawn(make, *sizes)]
    with open(path, "w") as out:
        out.write('{"made_by": "tools/golden/selection.py", "transformers": "%s", "torch": "%s", "tokens": %d, "cases": [\n'
                  % (transformers.__version__, torch.__version__, TOKENS))
        out.write(",\n".join(json.dumps(c) for c in cases) + "]}\n")


main(sys.argv[1])
