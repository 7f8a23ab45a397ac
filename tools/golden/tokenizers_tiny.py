# SPDX-License-Identifier: Apache-2.0
"""Trains the small vocabularies of the tokenizer tests on the sentences of tokenizers_corpus.py and writes them.

    python3 tools/golden/tokenizers_tiny.py tests/golden/tokenizers/tiny

Made with tokenizers 0.23.3 and sentencepiece 0.2.3. One file per kind of model and pipeline, a few KB each; the last ones
are not trained but put together so that every component of the format occurs in one of them.
"""
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizers_corpus

TEXTS = tokenizers_corpus.SENTENCES * 3 + tokenizers_corpus.EMOJI + tokenizers_corpus.DIGITS
LATIN = [text for text in tokenizers_corpus.SENTENCES if max(map(ord, text)) < 0x180]


def train_bpe(texts, size, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    return tokenizer, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"])


def byte_level():
    tokenizer, _ = train_bpe(TEXTS, 0)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"),
                             "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=600, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", pair="<|im_start|> $A $B", special_tokens=[("<|im_start|>", 1)])
    tokenizer.add_tokens([AddedToken("river bank", single_word=True), AddedToken("<think>", normalized=False)])
    return tokenizer


def byte_fallback():
    tokenizer, trainer = train_bpe(LATIN, 400, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(vocab_size=560, show_progress=False, max_token_length=12,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    tokenizer.train_from_iterator(LATIN, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]  # the byte tokens belong to the model
    return Tokenizer.from_str(json.dumps(data))


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.train_from_iterator(TEXTS, trainers.UnigramTrainer(
        vocab_size=500, show_progress=False, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"]))
    return tokenizer


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(
        vocab_size=500, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def end_of_word():
    tokenizer, _ = train_bpe(LATIN, 0)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.train_from_iterator(LATIN, trainers.BpeTrainer(
        vocab_size=300, show_progress=False, end_of_word_suffix="</w>", special_tokens=["<unk>"]))
    return tokenizer


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace("e", "E")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit(","), pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits(False),
        pre_tokenizers.Split("l", "merged_with_next"), pre_tokenizers.Split(Regex("[aeiou]"), "contiguous", invert=True),
        pre_tokenizers.Split(Regex("o+"), "removed")])
    tokenizer.train_from_iterator(TEXTS, trainers.WordLevelTrainer(
        vocab_size=400, show_progress=False, special_tokens=["<unk>"]))
    tokenizer.add_tokens([AddedToken("[left]", lstrip=True), AddedToken("[/INST]", rstrip=True, normalized=False)])
    return tokenizer


# A character map of a few lines (source and target code points), since the built-in ones are 240 KB: a letter, two letters,
# one to many, white space, one to nothing, and a rule that is the beginning of another.
RULES = "41\t61\nE9\t65\n65 301\t65\n2026\t2E 2E 2E\n3000\t20\nA0\t20\n9\t20\nA\t20\nAD\t\n66 69\tFB01\n66 69 6E\t46\n1F600\t3A 29\n"


def sentencepiece_files(folder):
    import sentencepiece
    rules = pathlib.Path("rules.tsv")  # the name ends up in the model files
    rules.write_text(RULES)
    kinds = {
        "sp-bpe": {"model_type": "bpe", "vocab_size": 480, "byte_fallback": True, "normalization_rule_name": "identity",
                   "remove_extra_whitespaces": False, "user_defined_symbols": ["<sep>", "river"]},
        "sp-unigram": {"model_type": "unigram", "vocab_size": 300, "user_defined_symbols": ["<sep>"],
                       "normalization_rule_tsv": str(rules)},
        "sp-suffix": {"model_type": "unigram", "vocab_size": 480, "treat_whitespace_as_suffix": True, "byte_fallback": True,
                      "normalization_rule_tsv": str(rules)},
    }
    for name, options in kinds.items():
        with (folder / f"{name}.model").open("wb") as out:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(LATIN * 3), model_writer=out, minloglevel=2, hard_vocab_limit=False, num_threads=1,
                **options)
    rules.unlink()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (byte_level, byte_fallback, unigram, word_piece, end_of_word, word_level):
        data = json.loads(make().to_str())
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        (folder / (make.__name__.replace("_", "-") + ".json")).write_text(text + "\n", encoding="utf-8")
    sentencepiece_files(folder)


if __name__ == "__main__":
    main()
