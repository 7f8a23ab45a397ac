# SPDX-License-Identifier: Apache-2.0
"""Golden packs (docs/golden_pack.md) in Python: the same numbers as src/align computes, for recorders of other code.

Needs NumPy alone.
"""

import json
import pathlib
import struct

import numpy as np

FORMAT, VERSION, RANK_VERSION = "firstlight.golden_pack", 1, 2
SEED = 0x676F6C64
TOP_LOGITS = 16
HISTOGRAM_BINS = 64
LAYOUTS = [(32, 64), (16, 64), (16, 32), (8, 32), (8, 16), (8, 8), (8, 4), (4, 4), (4, 2), (4, 1)]
MOST_INTEGERS = 64

# What one matrix product's rounding leaves, relative, and how many of a layer's products have errors of their own
# (docs/golden_pack.md, "What is compared"): what a recording's origin says as `rounding` and `products_per_layer`.
ARITHMETIC = {
    "float32": (3e-8, 9),
    "bf16-products": (1.6e-3, 9),  # operands alone
    "bfloat16": (2.0**-9, 12),  # every result too
    "float16": (2.0**-12, 12),
    "w8a8": (6.8e-3, 9),  # whole numbers of 8 bits in blocks of 32
}


def rounding_facts(arithmetic):
    step, products = ARITHMETIC.get(arithmetic, ARITHMETIC["float32"])
    return {"rounding": f"{step:.3g}", "products_per_layer": str(products)}


_U64 = np.uint64


def mix64(x):
    """SplitMix64's mixing function, on arrays of uint64."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, _U64) + _U64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
        return x ^ (x >> _U64(31))


def _mix_int(x):
    return int(mix64(np.array([x & 0xFFFFFFFFFFFFFFFF], _U64))[0])


def hash_bytes(pieces, size):
    """Of one tensor: pieces are byte strings, all but the last a multiple of 8 long, `size` bytes together."""
    total, words = 0, 0
    for piece in pieces:
        padded = bytes(piece) + b"\0" * (-len(piece) % 8)
        values = np.frombuffer(padded, "<u8")
        factors = mix64(np.arange(words, words + len(values), dtype=_U64)) | _U64(1)
        with np.errstate(over="ignore"):
            total = (total + int((values * factors).sum(dtype=_U64))) & 0xFFFFFFFFFFFFFFFF
        words += len(values)
    return _mix_int(_mix_int(size) ^ total)


def safetensors_entries(path):
    """(name, offset in the file, bytes) of every tensor."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            yield name, 8 + length + begin, end - begin


def weights_hash(directory):
    """Of the tensors of a directory's safetensors files; "" where there are none."""
    files = sorted(pathlib.Path(directory).glob("*.safetensors"))
    index = pathlib.Path(directory) / "model.safetensors.index.json"
    single = pathlib.Path(directory) / "model.safetensors"
    if single.exists():
        files = [single]
    elif index.exists():
        files = sorted({index.parent / name for name in json.loads(index.read_text())["weight_map"].values()})
    entries = sorted((name.encode(), path, at, size) for path in files for name, at, size in safetensors_entries(path))
    total = 0
    for name, path, at, size in entries:
        total = _mix_int(total ^ hash_bytes([name], len(name)))
        with open(path, "rb") as file:
            file.seek(at)
            pieces = (file.read(min(1 << 24, size - done)) for done in range(0, size, 1 << 24))
            total = _mix_int(total ^ hash_bytes(pieces, size))
    return f"{total:016x}" if entries else ""


def tokens_hash(tokens):
    value = _mix_int(len(tokens))
    for token in tokens:
        value = _mix_int(value ^ token)
    return f"{value:016x}"


def signs(width, projections, first=0):
    """The matrix [projections, width] of 1 and -1, of the columns from `first` on."""
    width += first
    blocks = (width + 63) // 64
    with np.errstate(over="ignore"):
        j = np.arange(projections, dtype=_U64)[:, None] * _U64(0x9E3779B97F4A7C15)
        b = np.arange(blocks, dtype=_U64)[None] * _U64(0xD1342543DE82EF95)
        bits = mix64(_U64(SEED) + j + b)
    unpacked = (bits[:, :, None] >> np.arange(64, dtype=_U64)) & _U64(1)
    return 1.0 - 2.0 * unpacked.reshape(projections, -1)[:, first:width].astype(np.float64)


def sampled_rows(limit, num_rows):
    count = min(limit, num_rows)
    return [num_rows - 1] if count == 1 else [i * (num_rows - 1) // (count - 1) for i in range(count)]


def is_plain(values):
    """Finite, and no larger than 2^100."""
    return np.abs(values) <= 2.0**100


def statistics(values):
    """min, max, mean, rms, largest magnitude, count, not finite, zeros."""
    flat = values.astype(np.float64).ravel()
    finite = flat[is_plain(flat)]
    if not len(finite):
        return [0, 0, 0, 0, 0, len(flat), len(flat), 0]
    return [finite.min(), finite.max(), finite.mean(), np.sqrt(np.square(finite).mean()), np.abs(finite).max(), len(flat),
            len(flat) - len(finite), (finite == 0).sum()]  # fmt: skip


def histogram(values):
    flat = values.ravel()
    flat = flat[is_plain(flat) & (flat != 0)]
    exponents = np.clip(np.frexp(flat)[1] - 1 + 20, 0, 31)
    return np.bincount(exponents + 32 * (flat < 0), minlength=HISTOGRAM_BINS)


class Pack:
    """Gathers whole values and writes what a pack keeps of them."""

    def __init__(self, taps, parameters, rank=None, whole_values=0, **facts):
        """`taps`: as `firstlight baseline values --json` lists them, in that order, those that were recorded. Of one rank of
        a sharded run (`rank`: which of how many) each has a "part" (docs/golden_pack.md, "Ranks"); `whole_values`: of the
        whole model."""
        self.taps, self.parameters, self.rank, self.facts = taps, parameters, rank, facts
        self.whole_values = whole_values
        self.prompts = []

    def add_prompt(self, tokens, values, greedy, rows=None):
        """`values`: name to array [rows, width]; every tap has one. `rows`: of taps split by rows, which they are."""
        arrays = [np.asarray(values[tap["name"]]) for tap in self.taps]
        numbers = []
        for tap, array in zip(self.taps, arrays):
            split = tap.get("part", {}).get("split") == "rows"
            numbers.append(list(rows[tap["name"]]) if split else list(range(len(array))))
        self.prompts.append((tokens, arrays, list(greedy), numbers))

    def _sketch_bytes(self, projections, rows):
        # Of a rank: as if it had every value of the whole model, so that all ranks come to the same.
        rates = [tap["rate"] for tap in self.taps]
        rates += [1] * max(self.whole_values - len(rates), 0) if self.rank else []
        total = 4096 + 200 * len(rates)
        has_logits = self.rank or any(tap["name"] == "logits" for tap in self.taps)
        for tokens, _, _, _ in self.prompts:
            total += 8 * len(tokens) + 2048
            for rate in rates:
                total += 4 * (8 + HISTOGRAM_BINS) + 4 * min(rows, len(tokens) // rate) * (1 + projections)
            total += min(rows, len(tokens)) * (8 * TOP_LOGITS + 4) if has_logits else 0
        return total

    def _choose_rows(self, left, full):
        """Which rows are kept whole: [prompt][tap], by worth, as far as they fit."""
        kept = [[set() for _ in self.taps] for _ in self.prompts]

        def take(wanted, choose):
            nonlocal left
            for prompt, (tokens, _, _, numbers) in zip(kept, self.prompts):
                for rows, tap, here in zip(prompt, self.taps, numbers):
                    chosen = choose(len(tokens) // tap["rate"])
                    size = len(chosen) * (4 * tap["width"] + 4)
                    if wanted(tap) and size <= left:
                        left -= size
                        rows.update(set(chosen) & set(here))

        def is_logits(tap):
            return tap["name"] == "logits"

        def is_layer(tap):
            return tap["layer_output"] and not is_logits(tap)

        def is_other(tap):
            return not tap["layer_output"] and not is_logits(tap)

        take(lambda tap: tap["integer"] and tap["width"] <= MOST_INTEGERS, range)
        for wanted, row in [(is_logits, -1), (is_layer, -1), (is_other, -1), (is_layer, 0), (is_other, 0)]:
            take(wanted, lambda count, row=row: [row % count])
        take(is_layer, range)  # all rows, as far as they fit
        take(is_other, range)
        for prompt, (_, _, _, numbers) in zip(kept, self.prompts):
            for rows, tap, here in zip(prompt, self.taps, numbers):
                if "all" in full or tap["name"] in full:
                    rows.update(here)
        return [[sorted(rows) for rows in prompt] for prompt in kept]

    def write(self, directory, full=()):
        limit = 8_000_000 if self.parameters < 1_000_000_000 else 64_000_000
        limit //= self.rank[1] if self.rank else 1
        for projections, rows in LAYOUTS:
            needed = self._sketch_bytes(projections, rows)
            if needed <= 0.6 * limit:
                break
        if needed > limit:
            raise ValueError(f"a pack of {len(self.taps)} values for {len(self.prompts)} prompts needs {needed} bytes")
        kept = self._choose_rows(limit - needed - limit // 32, set(full))
        matrices, tensors = {}, {}
        for p, (tokens, values, _, numbers) in enumerate(self.prompts):
            parts = {key: [] for key in ("statistics", "histogram", "norms", "sketch", "num_kept", "row_ids", "rows")}
            for tap, value, row_ids, here in zip(self.taps, values, kept[p], numbers):
                part = tap.get("part", {})
                first = part.get("first", 0)
                if (tap["width"], first) not in matrices:
                    matrices[tap["width"], first] = signs(tap["width"], projections, first)
                at = {row: i for i, row in enumerate(here)}
                sampled = [at[row] for row in sampled_rows(rows, len(tokens) // tap["rate"]) if row in at]
                finite = np.where(is_plain(value), value, 0).astype(np.float64)[sampled]
                if part.get("split") == "rows":
                    parts.setdefault("num_part_rows", []).append(np.array([len(here)], np.int32))
                    parts.setdefault("part_rows", []).append(np.array(here, np.int32))
                parts["statistics"].append(np.array(statistics(value), np.float32))
                parts["histogram"].append(histogram(value.astype(np.float32)).astype(np.int32))
                parts["norms"].append(np.sqrt(np.square(finite).sum(-1)).astype(np.float32))
                parts["sketch"].append((finite @ matrices[tap["width"], first].T).astype(np.float32).ravel())
                parts["num_kept"].append(np.array([len(row_ids)], np.int32))
                parts["row_ids"].append(np.array(row_ids, np.int32))
                parts["rows"].append(value[[at[row] for row in row_ids]].astype(np.float32).ravel())
                if tap["name"] == "logits" and part.get("split") == "sum":
                    parts["top_ids"] = [np.full(len(sampled) * TOP_LOGITS, -1, np.int32)]
                    parts["top_logits"] = [np.zeros(len(sampled) * TOP_LOGITS, np.float32)]
                    parts["log_sum_exp"] = [np.zeros(len(sampled), np.float32)]
                elif tap["name"] == "logits" and sampled:
                    top = value[sampled].astype(np.float64)
                    order = np.argsort(-top, axis=-1, kind="stable")[:, :TOP_LOGITS]
                    best = np.take_along_axis(top, order, -1)
                    fill = ((0, 0), (0, TOP_LOGITS - order.shape[1]))
                    largest = top.max(-1, keepdims=True)
                    parts["top_ids"] = [np.pad(order + first, fill, constant_values=-1).astype(np.int32).ravel()]
                    parts["top_logits"] = [np.pad(best, fill).astype(np.float32).ravel()]
                    parts["log_sum_exp"] = [
                        (largest[:, 0] + np.log(np.exp(top - largest).sum(-1))).astype(np.float32)
                    ]
            for key, arrays in parts.items():
                joined = np.concatenate(arrays)
                if len(joined):
                    tensors[f"p{p}.{key}"] = joined
        folder = pathlib.Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / "tensors.safetensors", tensors)
        (folder / "manifest.json").write_text(json.dumps(self._manifest(projections, rows), indent=1) + "\n")

    def _manifest(self, projections, rows):
        def flags(tap):
            keys = ("integer", "layer_output", "module_output")
            out = {key: True for key in keys if tap.get(key)}
            out.update({key: tap[key] for key in ("noise",) if tap.get(key)})
            out.update({"rate": tap["rate"]} if tap["rate"] != 1 else {})
            return out | ({"part": tap["part"]} if self.rank else {})

        return {
            "format": FORMAT,
            "version": RANK_VERSION if self.rank else VERSION,
            **self.facts,
            "parameters": self.parameters,
            "layout": {"seed": SEED, "projections": projections, "sampled_rows": rows},
            "prompts": [{"tokens": list(t), "hash": tokens_hash(t), "greedy": g} for t, _, g, _ in self.prompts],
            **({"rank": {"index": self.rank[0], "count": self.rank[1]}} if self.rank else {}),
            "taps": [{key: tap[key] for key in ("name", "layer", "op", "width")} | flags(tap) for tap in self.taps],
        }


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": FORMAT}}, 0
    for name, array in tensors.items():
        kind = {"float32": "F32", "int32": "I32"}[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())
