# SPDX-License-Identifier: Apache-2.0
"""Writes the text corpus of the tokenizer tests: 3,600 texts of many scripts, digits, white space, emoji, odd code points and
strings that look like control tokens. Deterministic (own generator, standard library only).

    python3 tools/golden/tokenizers_corpus.py tests/golden/tokenizers/corpus.txt

Format: one JSON string per line.
"""
import json
import sys

SENTENCES = [
    "The river rose two feet overnight, and nobody in the village slept.",
    "I'll meet you at nine; don't be late, they've waited long enough.",
    "She said: \"It's 12:45 already!\" – and ran for the bus.",
    "Prices fell by 3.75% in 2023, from $1,299.99 to $1,251.24 per unit.",
    "def add(a, b):\n    return a + b  # simple\n",
    "for (int i = 0; i < 10; ++i) {\n\tsum += values[i];\n}\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 18 GROUP BY name;",
    "{\"key\": [1, 2.5e-3, null, true], \"text\": \"line\\nbreak\"}",
    "<div class=\"note\">Hello &amp; goodbye</div>",
    "https://example.org/path/to?query=1&lang=de#top",
    "Der Bäcker süßt die Äpfel für größere Übungen, außer samstags.",
    "L'été dernier, où étions-nous ? À la plage, peut-être…",
    "El niño comió ñoquis; ¿cuándo volverá? ¡Mañana!",
    "A ação não começou: o coração já está à espera.",
    "Zażółć gęślą jaźń, łódź płynie.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Øyvind så en ærlig ål på øya.",
    "İstanbul'da ılık bir gün, ŞIKÇA giyinmiş çocuklar.",
    "Съешь ещё этих мягких французских булок, да выпей чаю.",
    "Їжак і ґава живуть у лісі.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία.",
    "אני הולך הביתה עם שְׁלוֹמִי.",
    "السلام عليكم، كيف حالك اليوم؟ ١٢٣٤",
    "آیا می‌توانید کمک کنید؟ ۱۲۳",
    "मैं कल बाज़ार जाऊँगा, क्या तुम आओगे?",
    "আমি বাংলায় গান গাই।",
    "நான் தமிழ் பேசுகிறேன்.",
    "ฉันชอบกินข้าวผัดมากที่สุด",
    "ພາສາລາວ ແມ່ນພາສາ",
    "ខ្ញុំស្រឡាញ់ភាសាខ្មែរ",
    "မြန်မာဘာသာစကား",
    "ქართული ენა ძალიან ლამაზია.",
    "Հայերենը հին լեզու է։",
    "አማርኛ ጥሩ ቋንቋ ነው።",
    "今天天气很好，我们去公园散步吧！",
    "繁體中文與簡體字的差別。",
    "私は毎朝コーヒーを飲みます。ｶﾀｶﾅも。",
    "한국어를 배우는 것은 재미있어요. ㅋㅋㅋ",
    "Tiếng Việt có sáu thanh điệu: à á ả ã ạ.",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𝓯𝓾𝓷 Ｆｕｌｌｗｉｄｔｈ １２３",
    "½ cup + ¾ tsp = ⅝? x² + y³ ≠ ∞ ∑ √2 ≈ 1.41421356",
    "①②③ ⅣⅨ ㊗ ㈱ ﬁ ﬂ ﬃ ™ © ®",
    "naïve café résumé coöperate (precomposed)",
    "nai\u0308ve cafe\u0301 re\u0301sume\u0301 (decomposed) A\u030a \u1e9b\u0323",
]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️", "☀︎", "1️⃣", "🧑🏿‍🚀", "🫠", "♻", "⌚️", "👩🏻‍❤️‍💋‍👨🏼"]
SPACES = [" ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\t\t", "\u00a0", "\u3000", "\u2003",
          "\u2028", "\u200b", "\u0085", "\u1680", "\u202f", "\u205f", "\u000b", "\u000c", "\ufeff", "\u200d", "\u180e", "\u2581"]
ODD = ["\u0000", "\u0001", "\u0007", "\u001b", "\u007f", "\u0080", "\u009f", "\u00ad", "\u0300", "\u0301\u0323", "\u200e", "\u200f",
       "\u202e", "\u2060", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\U000e0041", "\U0001f3fb", "\ufe0f", "\u0600", "\u00b7",
       "\u0130", "\u0131", "\u1e9e", "\u01c5", "\u03c2", "\u0149", "\ufb01", "\u212b", "\u2126", "\ud7a3", "\u1100\u1161\u11a8",
       "\u0e33", "\u0f73", "\u2260", "\u0344", "\u1d15e", "\U00020000", "\U0002f804", "\U000323af", "\u4e00", "\u9fff", "\u3400"]
CONTROL = ["<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>",
           "<|start_header_id|>user<|end_header_id|>", "[INST]", "[/INST]", "<<SYS>>", "[CLS]", "[SEP]", "[UNK]", "[MASK]",
           "<extra_id_0>", "<extra_id_99>", "<0x0A>", "<0xFF>", "<|user|>", "<|assistant|>", "<|end|>", "<|system|>",
           "<|placeholder2|>", "<start_of_turn>", "<end_of_turn>", "<｜begin▁of▁sentence｜>", "<|EOT|>", ">>TITLE<<", "<think>",
           "</think>", "<tool_call>", "<repo_name>", "<file_sep>", "<|fim_prefix|>", "<|", "|>", "<|im_", "<s", "s>", "</", "▁<s>",
           "[PAD32011]", "<sep>", "<ctrl>"]
PUNCT = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["…", "—", "«", "»", "“", "”", "、", "。", "！", "？", "·", "¿", "¡", "€", "£", "¥", "§", "±", "→"]
DIGITS = ["0", "7", "12", "123", "1234", "12345", "123456", "1234567", "3.14159", "1,000,000", "0x1F", "1e-9", "٣٤٥", "४५", "Ⅷ", "²³", "½"]
SUFFIXES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'VE", "'M", "'LL", "'D", "’s", "'ſ", "'x", "''", "'"]


class Rng:
    """A linear congruential generator, so that the corpus depends on no library version."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) % n

    def pick(self, items):
        return items[self.below(len(items))]


def random_code_point(rng):
    ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x64a), (0x904, 0x939),
              (0xe01, 0xe30), (0x1f00, 0x1f15), (0x2010, 0x2027), (0x2190, 0x21ff), (0x2200, 0x22ff), (0x3041, 0x3096),
              (0x30a1, 0x30fa), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0xff01, 0xff5e), (0x1f300, 0x1f5ff), (0x1d400, 0x1d44f)]
    low, high = rng.pick(ranges)
    return chr(low + rng.below(high - low + 1))


def words_of(rng, count):
    pool = [word for sentence in SENTENCES for word in sentence.split()]
    return " ".join(rng.pick(pool) for _ in range(count))


def mixed(rng):
    out = []
    for _ in range(1 + rng.below(7)):
        kind = rng.below(10)
        if kind < 3:
            out.append(words_of(rng, 1 + rng.below(3)))
        elif kind == 3:
            out.append(rng.pick(EMOJI))
        elif kind == 4:
            out.append(rng.pick(ODD))
        elif kind == 5:
            out.append(rng.pick(DIGITS))
        elif kind == 6:
            out.append(rng.pick(PUNCT) * (1 + rng.below(3)))
        elif kind == 7:
            out.append(rng.pick(CONTROL))
        elif kind == 8:
            out.append(rng.pick(words_of(rng, 1).split()) + rng.pick(SUFFIXES))
        else:
            out.append("".join(random_code_point(rng) for _ in range(1 + rng.below(5))))
        out.append(rng.pick(SPACES) if rng.below(3) == 0 else rng.pick(["", " ", " "]))
    return "".join(out)


def corpus():
    rng = Rng(20240229)
    texts = ["", " ", "a", "\n"]
    texts += SENTENCES + [s.upper() for s in SENTENCES[:20]] + [" " + s for s in SENTENCES] + [s + "\n" for s in SENTENCES[:20]]
    for group in (EMOJI, SPACES, ODD, CONTROL, PUNCT, DIGITS):
        texts += group
        texts += ["x" + item + "y" for item in group]
        texts += ["word " + item + " word" for item in group]
        texts += [item + item for item in group]
    texts += ["it" + s + " it " + s for s in SUFFIXES]
    texts += [a + b for a in SPACES for b in SPACES]
    texts += ["a" + s + s + "b" for s in SPACES]
    texts += [" " * n + "x" for n in range(2, 40)] + ["x" + " " * n for n in range(1, 20)] + ["\n" * n for n in range(1, 12)]
    texts += ["a" * n for n in (2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 300)] + ["ab" * 100, "1" * 50, "=" * 80, "-" * 33, "_" * 17]
    texts += [a + b for a in CONTROL[:20] for b in CONTROL[5:12]]
    while len(texts) < 3600:
        texts.append(mixed(rng))
    return texts


def main():
    with open(sys.argv[1], "w", encoding="utf-8", newline="\n") as out:
        for text in corpus():
            out.write(json.dumps(text, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
