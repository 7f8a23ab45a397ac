# SPDX-License-Identifier: Apache-2.0
"""The files that every engine of a comparison reads: one model in several stored types, the same values in each.

    python models.py SOURCE TYPE OUTPUT     SOURCE: a GGUF file, or random:FILE; TYPE: q4_0, q8_0, bf16
    python models.py sizes FILE             what its roofs are worked out from, as JSON

The values of the source are expanded to float32 and rounded to the wanted type once, embedding and matrices alike; norms
and biases stay float32. "random:" makes a model with the shape of a Llama-like model of 1.5 billion parameters (28 layers, hidden
1536, 12 query and 2 key heads, feed-forward 8960, vocabulary 151,936, tied) with values drawn from N(0, 0.02): speed
does not depend on them. Needs numpy and gguf.
"""

import json
import pathlib
import sys

import gguf
import numpy as np

TYPES = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0,
         "bf16": gguf.GGMLQuantizationType.BF16}
FILE_TYPES = {"q4_0": 2, "q8_0": 7, "bf16": 32}  # general.file_type, which some readers go by
CONTEXT = 32768  # stated in every file: depths beyond what a model was trained for are measured too
RANDOM = {"layers": 28, "hidden": 1536, "heads": 12, "kv_heads": 2, "head_dim": 128, "feed_forward": 8960,
          "vocab": 151936}
GLOBAL_EVERY = {"llama": 1, "gemma3": 6}  # of so many layers the last sees everything, as the readers of GGUF take it
# Keys that GGUFWriter writes by itself, and the one that is replaced.
OWN_KEYS = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type")


def add_matrix(writer, name, values, stored):
    """A tensor of any rank; vectors stay float32."""
    if values.ndim < 2 or values.shape[-1] % 32:
        writer.add_tensor(name, values.astype(np.float32))
        return
    writer.add_tensor(name, gguf.quants.quantize(values.astype(np.float32), stored), raw_dtype=stored)


def copy_fields(reader, writer):
    for name, field in reader.fields.items():
        if name in OWN_KEYS:
            continue
        value = CONTEXT if name.endswith(".context_length") else field.contents()
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(name, value, kind, field.types[-1])
        else:
            writer.add_key_value(name, value, kind)


def requantise(source, kind, output):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(output, reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    writer.add_file_type(FILE_TYPES[kind])
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        add_matrix(writer, tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]), TYPES[kind])
    finish(writer)


def random_shapes(shape):
    hidden, kv_dim = shape["hidden"], shape["kv_heads"] * shape["head_dim"]
    yield "token_embd.weight", (shape["vocab"], hidden)
    yield "output_norm.weight", (hidden,)
    for layer in range(shape["layers"]):
        at = f"blk.{layer}."
        yield at + "attn_norm.weight", (hidden,)
        yield at + "attn_q.weight", (hidden, hidden)
        yield at + "attn_k.weight", (kv_dim, hidden)
        yield at + "attn_v.weight", (kv_dim, hidden)
        yield at + "attn_output.weight", (hidden, hidden)
        yield at + "ffn_norm.weight", (hidden,)
        yield at + "ffn_gate.weight", (shape["feed_forward"], hidden)
        yield at + "ffn_up.weight", (shape["feed_forward"], hidden)
        yield at + "ffn_down.weight", (hidden, shape["feed_forward"])


def random_model(tokenizer_of, kind, output):
    """`tokenizer_of`: a GGUF file whose vocabulary is taken and filled up: ids are all that is asked of it."""
    reader = gguf.GGUFReader(tokenizer_of)
    writer = gguf.GGUFWriter(output, "llama")
    for name, value in (("context_length", CONTEXT), ("block_count", RANDOM["layers"]),
                        ("embedding_length", RANDOM["hidden"]), ("feed_forward_length", RANDOM["feed_forward"]),
                        ("attention.head_count", RANDOM["heads"]), ("attention.head_count_kv", RANDOM["kv_heads"]),
                        ("rope.dimension_count", RANDOM["head_dim"]), ("vocab_size", RANDOM["vocab"])):
        writer.add_uint32("llama." + name, value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float32("llama.rope.freq_base", 1e6)
    writer.add_string("general.name", "random 1.5b")
    writer.add_file_type(FILE_TYPES[kind])
    for name, field in reader.fields.items():
        if not name.startswith("tokenizer.ggml.") or name.endswith((".tokens", ".token_type", ".scores")):
            continue
        value_type = field.types[0]
        sub_type = field.types[-1] if value_type == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), value_type, sub_type)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    token_types = reader.fields["tokenizer.ggml.token_type"].contents()
    missing = RANDOM["vocab"] - len(tokens)
    writer.add_token_list(tokens + [f"<filler_{i}>" for i in range(missing)])
    writer.add_token_types([int(one) for one in token_types] + [4] * missing)  # 4: user defined
    random = np.random.default_rng(1)
    for name, dims in random_shapes(RANDOM):
        values = np.ones(dims, np.float32) if len(dims) == 1 else 0.02 * random.standard_normal(dims, np.float32)
        add_matrix(writer, name, values, TYPES[kind])
    finish(writer)


def sizes(path):
    """What the roofs are worked out from: "body", the weights that every token is multiplied by; "head", those of the
    logits; "bytes" that a step of decoding reads; per layer the values that a token adds to the cache, those of its
    queries and of what they give, and the layer's window (0: none)."""
    reader = gguf.GGUFReader(path)
    kind = reader.fields["general.architecture"].contents()

    def field(name, default=None):
        found = reader.fields.get(f"{kind}.{name}")
        return int(found.contents()) if found else default

    heads, layers = field("attention.head_count"), field("block_count")
    key = field("attention.key_length", field("embedding_length") // heads)
    row = key + field("attention.value_length", key)
    tensors = {t.name: t for t in reader.tensors}
    table = tensors.pop("token_embd.weight")
    head = tensors.pop("output.weight", table)
    window = field("attention.sliding_window", 0)
    return {"body": sum(int(t.n_elements) for t in tensors.values()), "head": int(head.n_elements),
            "bytes": sum(int(t.n_bytes) for t in [*tensors.values(), head]),
            "layers": [{"kv_values": field("attention.head_count_kv", heads) * row, "head_values": heads * row,
                        "window": window if (layer + 1) % GLOBAL_EVERY[kind] else 0} for layer in range(layers)]}


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if sys.argv[1] == "sizes":
        return print(json.dumps(sizes(sys.argv[2])))
    source, kind, output = sys.argv[1:4]
    scratch = pathlib.Path(output + ".part")  # a run that is cut off leaves nothing that looks whole
    if source.startswith("random:"):
        random_model(source.removeprefix("random:"), kind, str(scratch))
    else:
        requantise(source, kind, str(scratch))
    scratch.rename(output)


if __name__ == "__main__":
    main()
