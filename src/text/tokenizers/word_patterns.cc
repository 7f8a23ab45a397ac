// SPDX-License-Identifier: Apache-2.0
// See word_patterns.h. The patterns are the vocabularies' own; where several models share one, it stands here once.
#include "text/tokenizers/word_patterns.h"

#include "text/tokenizer.h"

namespace firstlight::text {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCamelWord =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+#|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*#|)";
constexpr std::string_view kCamelRest = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kContraction = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)";
constexpr std::string_view kDeepSeekV3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kDeepSeekCjk = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// The letters with case, as of the Unicode version DeepSeek LLM was trained with.
constexpr std::string_view kCasedWord =
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}"
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}"
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}"
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}"
    "\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}"
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
    "]+";
constexpr std::string_view kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kKimiHan = R"([\p{Han}]+)";
constexpr std::string_view kKimiWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+#|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*#|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// `shape` with each '#' replaced.
std::string fill(std::string_view shape, std::string_view part) {
  std::string out;
  for (char c : shape) {
    if (c == '#') {
      out += part;
    } else {
      out += c;
    }
  }
  return out;
}

std::string camel_pattern(std::string_view contraction, std::string_view numbers) {
  return fill(kCamelWord, contraction).append(numbers).append(kCamelRest);
}

std::string kimi_pattern() { return std::string(kKimiHan) + "|" + fill(kKimiWords, kContraction); }

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view one : names) {
    if (one == name) return true;
  }
  return false;
}

// Everything but the word pattern's siblings with several steps.
std::string single_pattern(std::string_view pre) {
  if (is_one_of(pre, {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx",
                      "smaug-bpe", "glm4", "chatglm-bpe", "jina-v5-nano"})) {
    return std::string(kLlama3);
  }
  if (is_one_of(pre, {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open",
                      "grok-2"})) {
    return std::string(kQwen2);
  }
  if (is_one_of(pre, {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
                      "mellum", "modern-bert", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe", "mpt", "olmo",
                      "jais", "trillion", "granite-docling"})) {
    return std::string(kGpt2);
  }
  if (pre == "qwen35") return std::string(kQwen35);
  if (pre == "tekken") return camel_pattern("", R"(\p{N})");
  if (is_one_of(pre, {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"})) {
    return camel_pattern(kContraction, R"(\p{N}{1,3})");
  }
  if (pre == "kimi-k2") return kimi_pattern();
  if (is_one_of(pre, {"poro-chat", "bloom", "gpt3-finnish"})) return std::string(kBloom);
  if (pre == "seed-coder") {
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  if (is_one_of(pre, {"bailingmoe", "bailingmoe2", "llada-moe"})) {
    return R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
  }
  return {};
}

std::vector<std::string> pattern_list(std::string_view pre) {
  if (std::string one = single_pattern(pre); !one.empty()) return {std::move(one)};
  const std::string gpt2(kGpt2);
  const std::string digit = R"(\p{N})";
  if (is_one_of(pre, {"", "default"})) {
    return {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
  }
  if (is_one_of(pre, {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"})) {
    return {digit, gpt2};
  }
  if (pre == "falcon") return {std::string(kFalconPunctuation), gpt2, "[0-9][0-9][0-9]"};
  if (pre == "deepseek-llm") {
    return {"[\r\n]",
            std::string(kCasedWord),
            R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
            R"(\s+$)",
            std::string(kDeepSeekCjk),
            R"(\p{N}+)"};
  }
  if (pre == "deepseek-coder") {
    return {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", std::string(kDeepSeekCjk), digit};
  }
  if (is_one_of(pre, {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"})) {
    return {R"(\p{N}{1,3})", std::string(kCjk), std::string(kDeepSeekV3Words)};
  }
  if (pre == "viking") return {std::string(kBloom), digit};
  if (is_one_of(pre, {"gemma4", "sarvam-moe"})) return {R"([^\n]+|[\n]+)"};
  return {};
}

}  // namespace

Result<GgufWordPattern> gguf_word_pattern(std::string_view pre) {
  GgufWordPattern result;
  result.patterns = pattern_list(pre);
  if (result.patterns.empty()) return unsupported("GGUF pre-tokenizer '" + std::string(pre) + "'");
  const bool llama3 = is_one_of(
      pre, {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"});
  result.ignore_merges = llama3 || pre == "tekken";
  result.add_bos = llama3 || is_one_of(pre, {"tekken", "gemma4"});
  result.byte_level = !is_one_of(pre, {"gemma4", "sarvam-moe"});
  return result;
}

Result<std::vector<PreTokenizerStep>> split_steps(const std::vector<std::string>& patterns, bool line_anchors) {
  std::vector<PreTokenizerStep> steps;
  for (const std::string& pattern : patterns) {
    pretok::Split split;
    split.pattern = FL_TRY(Regex::compile(pattern, {.line_anchors = line_anchors}));
    steps.emplace_back(std::move(split));
  }
  return steps;
}

Result<std::string> tiktoken_pattern(std::string_view encoding) {
  if (is_one_of(encoding, {"gpt2", "r50k_base", "p50k_base", "p50k_edit"})) return std::string(kGpt2);
  if (is_one_of(encoding, {"cl100k_base", "llama3"})) return std::string(kLlama3);
  if (encoding == "qwen") return std::string(kQwen2);
  if (is_one_of(encoding, {"o200k_base", "o200k_harmony"})) return camel_pattern(kContraction, R"(\p{N}{1,3})");
  if (encoding == "kimi") return kimi_pattern();
  return unsupported("tiktoken encoding '" + std::string(encoding) + "'");
}

}  // namespace firstlight::text
