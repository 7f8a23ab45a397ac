# SPDX-License-Identifier: Apache-2.0
"""What ranks of a sharded run have of a model's values, for packs that `firstlight baseline join` puts together.

Two ways: a rank of a real run (torchrun) records what its own modules give, and `observed_part` says from the shapes which
part that is; or one process runs the whole model and `cut` makes from it what each of N ranks would have, by rules
PATTERN=HOW on the values' names: `features` (columns), `sum` (terms before an all-reduce, made from slices of the module's
input and weight), `rows` (tokens in pieces), `layers` (one rank runs the layer), `whole` (every rank has it; the default).
"""

import re

import numpy as np

HOWS = ("whole", "features", "sum", "rows", "layers")


class Rules:
    def __init__(self, rules):
        self.rules = []
        for rule in rules:
            pattern, _, how = rule.rpartition("=")
            if how not in HOWS:
                raise SystemExit(f"--split {rule}: PATTERN=HOW wanted, HOW one of {', '.join(HOWS)}")
            self.rules.append((re.compile(pattern), how))

    def how(self, name):
        return next((how for pattern, how in self.rules if pattern.search(name)), "whole")


def whole_part(place):
    return {"split": "whole", "part": 0, "parts": 1, "place": place}


def observed_part(tap, place, width, rank, ranks):
    """Of a value of which a rank has `width` columns; None where that is no even share."""
    if width == tap["width"]:
        return whole_part(place)
    if width * ranks != tap["width"]:
        return None
    return {"split": "features", "part": rank, "parts": ranks, "place": place, "first": rank * width, "whole": tap["width"]}


def bounds(size, rank, ranks):
    return rank * size // ranks, (rank + 1) * size // ranks


def terms_of_linear(module, inputs, num_tokens, ranks):
    """The products of slices of the input and of the weight's columns, as row-parallel ranks have them."""
    x = inputs[0].detach().reshape(num_tokens, -1)
    weight, bias, terms = module.weight.detach(), module.bias, []
    for rank in range(ranks):
        begin, end = bounds(x.shape[1], rank, ranks)
        term = x[:, begin:end] @ weight[:, begin:end].T
        terms.append((term + bias if bias is not None and rank == 0 else term).float().numpy().copy())
    return terms


def cut(taps, values, terms, rules, rank, ranks):
    """(taps, values, rows) of one rank; `terms`: name to the list of a sum's terms."""
    layers = list(dict.fromkeys(tap["layer"] for tap in taps))
    out_taps, out_values, rows = [], {}, {}
    for place, tap in enumerate(taps):
        name, how = tap["name"], rules.how(tap["name"])
        value, width, part = np.asarray(values[name]), tap["width"], whole_part(place)
        if how == "layers" and layers.index(tap["layer"]) * ranks // len(layers) != rank:
            continue
        if how in ("features", "sum", "rows"):
            part |= {"split": how, "part": rank, "parts": ranks}
        if how == "features":
            begin, end = bounds(width, rank, ranks)
            value, width = value[:, begin:end], end - begin
            part |= {"first": begin, "whole": tap["width"]}
        elif how == "sum":
            if name not in terms:
                raise SystemExit(f"--split: {name} is no product whose terms can be made")
            value = terms[name][rank]
        elif how == "rows":
            begin, end = bounds(len(value), rank, ranks)
            value, rows[name] = value[begin:end], list(range(begin, end))
        out_taps.append({**tap, "width": width, "part": part})
        out_values[name] = value
    return out_taps, out_values, rows
