// SPDX-License-Identifier: Apache-2.0
// Normalizers, decoders and post-processors of tokenizer.json; see json_components.h. Pre-tokenizers:
// json_pre_tokenizer.cc.
#include "text/tokenizers/json_components.h"

#include "text/tokenizers/base64.h"

namespace firstlight::text {
namespace {

Status unknown(std::string_view what, std::string_view type) {
  return unsupported(std::string(what) + " of type '" + std::string(type) + "'");
}

Result<NormalizerStep> read_bert(const JsonElement& item) {
  norm::Bert bert;
  bert.clean_text = FL_TRY(bool_field(item, "clean_text", true));
  bert.handle_chinese_chars = FL_TRY(bool_field(item, "handle_chinese_chars", true));
  bert.lowercase = FL_TRY(bool_field(item, "lowercase", true));
  bert.strip_accents = FL_TRY(bool_field(item, "strip_accents", bert.lowercase));
  return NormalizerStep(bert);
}

Result<NormalizerStep> read_replace(const JsonElement& item) {
  const JsonPattern pattern = FL_TRY(read_pattern(item, "normalizer Replace"));
  std::string content = FL_TRY(string_field(item, "content", ""));
  if (!pattern.is_regex) return NormalizerStep(norm::ReplaceText{pattern.text, std::move(content)});
  Regex regex = FL_TRY(Regex::compile(pattern.text));
  return NormalizerStep(norm::Replace{std::move(regex), std::move(content)});
}

Result<NormalizerStep> read_precompiled(const JsonElement& item) {
  const std::string coded = FL_TRY(string_field(item, "precompiled_charsmap", ""));
  const std::string blob = FL_TRY(decode_base64(coded).with_context("precompiled_charsmap"));
  Charsmap map = FL_TRY(Charsmap::parse(blob));
  return NormalizerStep(norm::Precompiled{std::make_shared<const Charsmap>(std::move(map))});
}

Result<NormalizerStep> read_normalizer_step(const JsonElement& item) {
  const std::string type = FL_TRY(type_of(item, "normalizer"));
  if (type == "NFC") return NormalizerStep(norm::UnicodeForm{NormalForm::kNfc});
  if (type == "NFD") return NormalizerStep(norm::UnicodeForm{NormalForm::kNfd});
  if (type == "NFKC") return NormalizerStep(norm::UnicodeForm{NormalForm::kNfkc});
  if (type == "NFKD") return NormalizerStep(norm::UnicodeForm{NormalForm::kNfkd});
  if (type == "Lowercase") return NormalizerStep(norm::Lowercase{});
  if (type == "StripAccents") return NormalizerStep(norm::StripAccents{});
  if (type == "Nmt") return NormalizerStep(norm::Nmt{});
  if (type == "ByteLevel") return NormalizerStep(norm::ByteLevel{});
  if (type == "BertNormalizer") return read_bert(item);
  if (type == "Replace") return read_replace(item);
  if (type == "Precompiled") return read_precompiled(item);
  if (type == "Prepend") {
    std::string text = FL_TRY(string_field(item, "prepend", ""));
    return NormalizerStep(norm::Prepend{std::move(text)});
  }
  if (type == "Strip") {
    const bool left = FL_TRY(bool_field(item, "strip_left", true));
    const bool right = FL_TRY(bool_field(item, "strip_right", true));
    return NormalizerStep(norm::Strip{left, right});
  }
  return unknown("normalizer", type);
}

Result<DecoderStep> read_replace_decoder(const JsonElement& item) {
  const JsonPattern pattern = FL_TRY(read_pattern(item, "decoder Replace"));
  dec::Replace replace;
  replace.is_regex = pattern.is_regex;
  replace.content = FL_TRY(string_field(item, "content", ""));
  if (pattern.is_regex) {
    replace.pattern = FL_TRY(Regex::compile(pattern.text));
  } else {
    replace.from = pattern.text;
  }
  return DecoderStep(std::move(replace));
}

Result<DecoderStep> read_strip_decoder(const JsonElement& item) {
  constexpr int64_t kMaxStrip = 1024;
  const int64_t start = FL_TRY(int_field(item, "start", 0));
  const int64_t stop = FL_TRY(int_field(item, "stop", 0));
  if (start < 0 || stop < 0 || start > kMaxStrip || stop > kMaxStrip) {
    return invalid_data("decoder Strip: start " + std::to_string(start) + ", stop " + std::to_string(stop) +
                        ", wanted 0 to 1024");
  }
  std::string content = FL_TRY(string_field(item, "content", " "));
  return DecoderStep(dec::Strip{std::move(content), static_cast<size_t>(start), static_cast<size_t>(stop)});
}

Result<DecoderStep> read_metaspace_decoder(const JsonElement& item) {
  const bool add_prefix = FL_TRY(bool_field(item, "add_prefix_space", true));
  const std::string scheme = FL_TRY(string_field(item, "prepend_scheme", add_prefix ? "always" : "never"));
  std::string replacement = FL_TRY(string_field(item, "replacement", "\xE2\x96\x81"));
  return DecoderStep(dec::Metaspace{std::move(replacement), scheme != "never"});
}

Result<DecoderStep> read_ctc_decoder(const JsonElement& item) {
  dec::Ctc ctc;
  ctc.pad_token = FL_TRY(string_field(item, "pad_token", "<pad>"));
  ctc.word_delimiter = FL_TRY(string_field(item, "word_delimiter_token", "|"));
  ctc.cleanup = FL_TRY(bool_field(item, "cleanup", true));
  return DecoderStep(std::move(ctc));
}

Result<DecoderStep> read_decoder_step(const JsonElement& item) {
  const std::string type = FL_TRY(type_of(item, "decoder"));
  if (type == "ByteLevel") return DecoderStep(dec::ByteLevel{});
  if (type == "ByteFallback") return DecoderStep(dec::ByteFallback{});
  if (type == "Fuse") return DecoderStep(dec::Fuse{});
  if (type == "Metaspace") return read_metaspace_decoder(item);
  if (type == "Replace") return read_replace_decoder(item);
  if (type == "Strip") return read_strip_decoder(item);
  if (type == "BPEDecoder") {
    std::string suffix = FL_TRY(string_field(item, "suffix", "</w>"));
    return DecoderStep(dec::BpeSuffix{std::move(suffix)});
  }
  if (type == "WordPiece") {
    std::string prefix = FL_TRY(string_field(item, "prefix", "##"));
    const bool cleanup = FL_TRY(bool_field(item, "cleanup", true));
    return DecoderStep(dec::WordPiece{std::move(prefix), cleanup});
  }
  if (type == "CTC") return read_ctc_decoder(item);
  return unknown("decoder", type);
}

// The ids of a TemplateProcessing special token.
Status append_template_ids(const JsonElement& processor, const std::string& name, std::vector<int64_t>& ids) {
  const auto specials = field(processor, "special_tokens");
  const auto special = specials ? field(*specials, name) : std::nullopt;
  if (!special) return invalid_data("post-processor: special token '" + name + "' is not defined");
  const std::vector<JsonElement> items = FL_TRY(array_field(*special, "ids"));
  for (const JsonElement& id : items) {
    int64_t value = 0;
    if (id.get_int64().get(value) != simdjson::SUCCESS) return invalid_data("post-processor: an id is not a number");
    ids.push_back(value);
  }
  return ok_status();
}

Status read_template(const JsonElement& item, PostProcessor& post) {
  std::vector<int64_t> before, after;
  size_t num_sequences = 0;
  const std::vector<JsonElement> template_parts = FL_TRY(array_field(item, "single"));
  for (const JsonElement& part : template_parts) {
    if (const auto special = field(part, "SpecialToken")) {
      const std::string name = FL_TRY(string_field(*special, "id", ""));
      FL_TRY(append_template_ids(item, name, num_sequences == 0 ? before : after));
    } else if (field(part, "Sequence")) {
      ++num_sequences;
    } else {
      return invalid_data("post-processor: a template part is neither SpecialToken nor Sequence");
    }
  }
  if (num_sequences != 1) {
    return unsupported("post-processor: template with " + std::to_string(num_sequences) + " sequences, wanted 1");
  }
  post.prefix_ids.insert(post.prefix_ids.begin(), before.begin(), before.end());
  post.suffix_ids.insert(post.suffix_ids.end(), after.begin(), after.end());
  return ok_status();
}

// BertProcessing and RobertaProcessing: cls in front, sep behind, each as ["text", id].
Status read_cls_sep(const JsonElement& item, PostProcessor& post) {
  for (const char* key : {"cls", "sep"}) {
    const auto pair = FL_TRY(array_field(item, key));
    int64_t id = 0;
    if (pair.size() != 2 || pair[1].get_int64().get(id) != simdjson::SUCCESS) {
      return invalid_data(std::string("post-processor: '") + key + "' is not a pair of text and id");
    }
    if (std::string_view(key) == "cls") {
      post.prefix_ids.insert(post.prefix_ids.begin(), id);
    } else {
      post.suffix_ids.push_back(id);
    }
  }
  return ok_status();
}

}  // namespace

Result<JsonPattern> read_pattern(const JsonElement& component, std::string_view what) {
  const auto pattern = field(component, "pattern");
  if (!pattern) return invalid_data(std::string(what) + ": no pattern");
  std::string_view plain;
  if (pattern->get_string().get(plain) == simdjson::SUCCESS) return JsonPattern{std::string(plain), false};
  for (const char* key : {"Regex", "String"}) {
    if (!field(*pattern, key)) continue;
    std::string text = FL_TRY(string_field(*pattern, key, ""));
    return JsonPattern{std::move(text), std::string_view(key) == "Regex"};
  }
  return invalid_data(std::string(what) + ": the pattern is neither String nor Regex");
}

Result<Normalizer> read_normalizer(const std::optional<JsonElement>& component) {
  std::vector<NormalizerStep> steps;
  if (!component) return Normalizer();
  size_t budget = kMaxComponents;
  const auto read = [&steps](const JsonElement& item) -> Status {
    steps.push_back(FL_TRY(read_normalizer_step(item)));
    return ok_status();
  };
  FL_TRY(for_each_component(*component, "normalizer", "normalizers", budget, read));
  return Normalizer(std::move(steps));
}

Result<Decoder> read_decoder(const std::optional<JsonElement>& component) {
  std::vector<DecoderStep> steps;
  if (!component) return Decoder::build({dec::JoinWithSpaces{}});
  size_t budget = kMaxComponents;
  const auto read = [&steps](const JsonElement& item) -> Status {
    steps.push_back(FL_TRY(read_decoder_step(item)));
    return ok_status();
  };
  FL_TRY(for_each_component(*component, "decoder", "decoders", budget, read));
  return Decoder::build(std::move(steps));
}

Result<PostProcessor> read_post_processor(const std::optional<JsonElement>& component) {
  PostProcessor post;
  if (!component) return post;
  size_t budget = kMaxComponents;
  const auto read = [&post](const JsonElement& item) -> Status {
    const std::string type = FL_TRY(type_of(item, "post-processor"));
    if (type == "TemplateProcessing") return read_template(item, post);
    if (type == "BertProcessing" || type == "RobertaProcessing") return read_cls_sep(item, post);
    // ByteLevel only moves offsets, which nothing here uses.
    return type == "ByteLevel" ? ok_status() : unknown("post-processor", type);
  };
  FL_TRY(for_each_component(*component, "post-processor", "processors", budget, read));
  return post;
}

}  // namespace firstlight::text
