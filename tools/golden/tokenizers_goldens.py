# SPDX-License-Identifier: Apache-2.0
"""Writes the goldens of the tokenizer tests: ids of every text of the corpus, made by one named oracle per vocabulary.

    python3 tools/golden/tokenizers_corpus.py tests/golden/tokenizers/corpus.txt
    python3 tools/golden/tokenizers_goldens.py tests/golden/tokenizers [--shared ../shared/data] [--gguf NAME=FILE ...] [name ...]

Oracles: tokenizers 0.23.3 (tokenizer.json, vocab.json + merges.txt, GGUF "bert"), sentencepiece 0.2.3 (.model), tiktoken
0.14.0, llama-cpp-python 0.3.36 (other GGUF vocabularies, control tokens parsed), and for RWKV the greedy longest match.
--gguf adds GGUF files that are not in the shared data (smollm2, gemma3). The small vocabularies in tests/golden/tokenizers/tiny
are made by tokenizers_tiny.py.

Format of a golden: "batch N HASH" for each 20 texts (FNV-1a, 64 bits, over each text's number of ids and ids as 32-bit little
endian), and "ids N ..." with all ids of each 100th text.
"""
import argparse
import json
import pathlib
import struct

BATCH = 20
SHOWN = 100
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def fnv1a(batch):
    value = 0xcbf29ce484222325
    for ids in batch:
        for byte in struct.pack(f"<{len(ids) + 1}I", len(ids), *ids):
            value = ((value ^ byte) * 0x100000001b3) % (1 << 64)
    return value


def load_json(path):
    """A tokenizers object of a tokenizer.json, and the map from its ids to the file's. Three of the files need help: flags of
    added tokens left out, merges of tokens with spaces, ids of added tokens beyond a vocabulary with gaps."""
    import tokenizers
    data = json.loads(path.read_text(encoding="utf-8"))
    for added in data.get("added_tokens", []):
        for key in ("single_word", "lstrip", "rstrip"):
            added.setdefault(key, False)
        added.setdefault("normalized", not added["special"])
    model = data["model"]
    if "merges" in model:
        vocab = model["vocab"]
        model["merges"] = [split_merge(vocab, merge) for merge in model["merges"] or []]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(data))
    ids = {tokenizer.token_to_id(a["content"]): a["id"] for a in data.get("added_tokens", [])}
    return tokenizer, ids


def split_merge(vocab, merge):
    if not isinstance(merge, str):
        return merge
    cuts = [(merge[:i], merge[i + 1:]) for i, c in enumerate(merge) if c == " "]
    return next(cut for cut in cuts if cut[0] in vocab and cut[1] in vocab and cut[0] + cut[1] in vocab)


def json_oracle(path):
    tokenizer, ids = load_json(path)
    return lambda text: [ids.get(i, i) for i in tokenizer.encode(text).ids]


def qwen_oracle(folder):
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for key, value in sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0])):
        tokenizer.add_special_tokens([AddedToken(value["content"], normalized=False, special=True)])
        assert tokenizer.token_to_id(value["content"]) == int(key)
    return lambda text: tokenizer.encode(text).ids


def tiktoken_oracle(path):
    import base64
    import tiktoken
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in path.open("rb"))}
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    return encoding.encode_ordinary


def sentencepiece_oracle(path):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return processor.encode


def rwkv_oracle(path):
    tokens = {}
    for line in path.open(encoding="utf-8"):
        literal = eval(line[line.index(" "):line.rindex(" ")])  # noqa: S307: Python literals of a vocabulary file
        tokens[literal.encode() if isinstance(literal, str) else literal] = int(line[:line.index(" ")])
    longest = max(map(len, tokens))

    def encode(text):
        data, at, ids = text.encode(), 0, []
        while at < len(data):
            length = next(n for n in range(min(longest, len(data) - at), 0, -1) if data[at:at + n] in tokens)
            ids.append(tokens[data[at:at + length]])
            at += length
        return ids
    return encode


def gguf_oracle(path):
    import llama_cpp
    model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
    return lambda text: model.tokenize(text.encode(), add_bos=False, special=True) if text else []


def bert_gguf_oracle(path):
    """llama.cpp drops spacing marks and keeps Hangul together where the model's own tokenizer does not; so: tokenizers."""
    import gguf
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    tokens = gguf.GGUFReader(str(path)).fields["tokenizer.ggml.tokens"].contents()
    types = gguf.GGUFReader(str(path)).fields["tokenizer.ggml.token_type"].contents()
    vocab = {}
    for index, (token, kind) in enumerate(zip(tokens, types)):
        vocab[token if kind == 3 else token[1:] if token.startswith("▁") else "##" + token] = index
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=1 << 30))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, types) if kind == 3])
    return lambda text: tokenizer.encode(text).ids


def oracles(shared, tiny, ggufs):
    folder, vocabs = shared / "tokenizers", shared / "gguf-vocab"
    made = {name: (json_oracle, folder / name / "tokenizer.json")
            for name in ("mini-llama", "added-tokens", "torchtitan-bpe", "llama2", "t5-small")}
    made["qwen2"] = (qwen_oracle, folder / "qwen2")
    made["llama3"] = (tiktoken_oracle, folder / "llama3" / "tokenizer_llama3.tiktoken")
    made["sentencepiece-unigram"] = (sentencepiece_oracle, folder / "sentencepiece-unigram" / "tokenizer.model")
    made["rwkv-world"] = (rwkv_oracle, folder / "rwkv-world" / "rwkv_vocab_v20230424.txt")
    made["gguf-bert-bge"] = (bert_gguf_oracle, vocabs / "ggml-vocab-bert-bge.gguf")
    for name in ("deepseek-coder", "falcon", "gpt-2", "llama-spm", "phi-3"):
        made["gguf-" + name] = (gguf_oracle, vocabs / f"ggml-vocab-{name}.gguf")
    made["gguf-stories260K"] = (gguf_oracle, shared / "checkpoints" / "stories260K" / "stories260K-f32.gguf")
    for name, path in ggufs:
        made["gguf-" + name] = (gguf_oracle, pathlib.Path(path))
    for path in sorted(tiny.glob("*.json")):
        made["tiny-" + path.stem] = (json_oracle, path)
    for path in sorted(tiny.glob("*.model")):
        made["tiny-" + path.stem] = (sentencepiece_oracle, path)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--shared", type=pathlib.Path, default=pathlib.Path("../shared/data"))
    parser.add_argument("--gguf", action="append", default=[], type=lambda text: text.split("=", 1))
    options = parser.parse_args()
    texts = [json.loads(line) for line in (options.folder / "corpus.txt").open()]
    for name, (make, path) in oracles(options.shared, options.folder / "tiny", options.gguf).items():
        if (options.names and name not in options.names) or not path.exists():
            continue
        encode = make(path)
        rows = [encode(text) for text in texts]
        with (options.folder / f"{name}.golden").open("w") as out:
            out.write("# made by tools/golden/tokenizers_goldens.py\n")
            for start in range(0, len(rows), BATCH):
                out.write(f"batch {start // BATCH} {fnv1a(rows[start:start + BATCH]):016x}\n")
            for index in range(0, len(rows), SHOWN):
                out.write(" ".join(map(str, ["ids", index, *rows[index]])) + "\n")
        print(name, sum(map(len, rows)))


if __name__ == "__main__":
    main()
