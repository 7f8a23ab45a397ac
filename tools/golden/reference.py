# SPDX-License-Identifier: Apache-2.0
"""Runs `transformers` models as the judge of our own numbers.

A model is run in float32 (the golden) and in true float64. `transformers` casts to float32 in many places (norms,
softmax, rotary tables); `Float64Mode` turns every such request into float64, so that the difference of the two runs is
the whole rounding error of the float32 reference. It also measures routing margins and greedy margins.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode


class Float64Mode(TorchFunctionMode):
    """Inside this mode a request for float32 gives float64, whoever makes it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.float:
            return args[0].double()
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


@contextlib.contextmanager
def float64():
    torch.set_default_dtype(torch.float64)
    try:
        with Float64Mode(), torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def build(model_class, config, state, dtype):
    """A model of `model_class` with the tensors of `state` (module names) in `dtype`."""
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = model_class(config)
    model = model.to(dtype).eval()
    own = model.state_dict()
    missing = sorted(set(own) - set(state))
    if missing or set(state) - set(own):
        raise ValueError(f"state does not fit: missing {missing}, surplus {sorted(set(state) - set(own))}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(state[name].to(dtype))
    always_first_blocks(model)
    return model


class FirstBlocks(TorchFunctionMode):
    """Inside this mode, which holds while an indexer of blocks runs, the first `count` blocks of those that a query sees
    have the highest score: what `sparse_init_block` of MiniMax-M3's releases says and the library does not have."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.topk:
            scores = args[0].clone()
            first = scores[..., :self.count]
            scores[..., :self.count] = first.masked_fill(first > float("-inf"), float("inf"))
            args = (scores, *args[1:])
        return func(*args, **(kwargs or {}))


def always_first_blocks(model):
    for module in model.modules():
        count = getattr(getattr(module, "config", None), "index_init_blocks", 0)
        if count and type(module).__name__.endswith("Indexer"):
            mode = FirstBlocks(count)
            module.register_forward_pre_hook(lambda *_, m=mode: m.__enter__() and None)
            module.register_forward_hook(lambda *_, m=mode: m.__exit__(None, None, None))


ROUTERS = ("TopKRouter", "TopkRouter", "HunYuanMoEV1Gate", "Gemma4TextRouter", "Llama4Router")


class Choices(TorchFunctionMode):
    """Inside this mode, which holds while an indexer runs, the margin of every `topk` is noted: the smallest distance
    between the last score that is kept and the first that is not, as a share of the row's largest score."""

    def __init__(self, margins):
        super().__init__()
        self.margins = margins

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.topk:
            self.note(args[0], args[1])
        return func(*args, **(kwargs or {}))

    def note(self, scores, k):
        if k >= scores.shape[-1]:
            return
        top = scores.topk(k + 1, dim=-1)[0]
        last, next_ = top[..., k - 1], top[..., k]
        visible = next_ > -1e30  # where fewer can be seen, nothing is dropped
        if visible.any():
            scale = top.masked_fill(top.isinf(), 0).abs().amax(-1)
            self.margins.append(float(((last - next_) / scale)[visible].min()))


class Capture:
    """Hooks that record the residual stream (embedding, then after each layer) and the margin of every decision of a
    router or an indexer."""

    def __init__(self, model):
        self.hidden, self.margins, self.handles = [], [], []
        text = text_model(model)
        self.handles.append(model.get_input_embeddings().register_forward_hook(self._keep))
        for layer in text.layers:
            self.handles.append(layer.register_forward_hook(self._keep))
        for module in model.modules():
            if type(module).__name__.endswith(ROUTERS):
                self.handles.append(module.register_forward_hook(self._route))
            if type(module).__name__.endswith("Indexer"):
                choices = Choices(self.margins)
                self.handles.append(module.register_forward_pre_hook(lambda *_, c=choices: c.__enter__() and None))
                self.handles.append(module.register_forward_hook(lambda *_, c=choices: c.__exit__(None, None, None)))

    def _keep(self, _module, _inputs, output):
        self.hidden.append((output[0] if isinstance(output, tuple) else output).detach()[0])

    def _route(self, module, inputs, output):
        self.margins.append(routing_margin(module, inputs, output))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


def text_model(model):
    """The decoder stack, also inside a model that wraps it."""
    inner = getattr(model, model.base_model_prefix, None) or getattr(model, "model", model)
    inner = getattr(inner, "language_model", inner)
    return getattr(inner, "model", inner)


def runner(model):
    """What computes the logits of a text: the wrapped class of Llama 4 fails on text alone, its language model does not."""
    return model.language_model if type(model).__name__ == "Llama4ForConditionalGeneration" else model


def gap(scores, k):
    """Smallest distance over all rows between the k-th and the (k+1)-th largest score."""
    if k >= scores.shape[-1]:
        return float("inf")
    top = scores.topk(k + 1, dim=-1)[0]
    return float((top[:, k - 1] - top[:, k]).min())


def routing_margin(router, inputs, output):
    """Smallest margin of one router call, in the units the selection is made in: probabilities after softmax
    (or the raw logits, where the selection is on logits), or scores plus bias; groups count as well."""
    kind, logits = type(router).__name__, output[0]
    if kind == "Gemma4TextRouter":
        return gap(logits, router.config.top_k_experts)  # probabilities already
    if kind == "Llama4Router":
        return gap(output[1], router.top_k)
    if kind == "DeepseekV4TopKRouter":
        return gap(router.score_fn(logits) + router.e_score_correction_bias, router.top_k)
    if kind == "MiniMaxM3VLTopKRouter":
        return gap(logits.sigmoid() + router.e_score_correction_bias, router.top_k)
    if kind == "MiniMaxM2TopKRouter":
        return gap(logits.sigmoid() + inputs[1], router.top_k)
    if hasattr(router, "moe_statics"):
        return gap(router.moe_statics(logits.softmax(-1)), router.top_k)
    if hasattr(router, "e_score_correction_bias"):
        scores = logits.sigmoid() + router.e_score_correction_bias
        groups = scores.view(scores.shape[0], router.num_group, -1)
        group_scores = groups.topk(2, dim=-1)[0].sum(-1)
        chosen = torch.zeros_like(group_scores).scatter_(1, group_scores.topk(router.topk_group, -1)[1], 1).bool()
        masked = groups.masked_fill(~chosen[..., None], float("-inf")).flatten(1)
        return min(gap(group_scores, router.topk_group), gap(masked, router.top_k))
    return min(gap(logits.softmax(-1), router.top_k), gap(logits, router.top_k))


def forget_lengths(model):
    """Dynamic rope tables of `transformers` remember the longest sequence so far: start from the original one."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "original_max_seq_len"):
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq.clone()


def prefill(model, ids):
    """Logits [T, V], hidden states [layers + 1, T, H] and the smallest routing margin of one forward pass."""
    forget_lengths(model)
    with torch.no_grad(), Capture(model) as seen:
        logits = runner(model)(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    one_shape = len({h.shape for h in seen.hidden}) == 1  # several streams are not stored
    return logits, torch.stack(seen.hidden) if one_shape else None, min(seen.margins, default=float("inf"))


def stepwise(model, ids):
    """Logits of the same prompt fed token by token through the cache of `transformers`."""
    rows, cache = [], None
    with torch.no_grad():
        for token in ids:
            out = runner(model)(input_ids=torch.tensor([[token]]), cache=cache, use_cache=True)
            cache = out.cache
            rows.append(out.logits[0, 0])
    return torch.stack(rows)


def greedy(model, ids, count):
    """`count` greedy tokens (end-of-sequence ids do not stop it) by full recomputation, and the smallest distance
    between the best and the second logit on the way, with the smallest routing margin."""
    tokens, smallest, routing = list(ids), float("inf"), float("inf")
    for _ in range(count):
        logits, _, margin = prefill(model, tokens)
        top = logits[-1].topk(2)[0]
        smallest, routing = min(smallest, float(top[0] - top[1])), min(routing, margin)
        tokens.append(int(logits[-1].argmax()))
    return tokens[len(ids):], smallest, routing


def relative_error(a, b):
    """Largest over rows of max|a - b| / max|b|; b is the judge."""
    a, b = a.double(), b.double()
    return float(((a - b).abs().amax(-1) / b.abs().amax(-1)).max())
