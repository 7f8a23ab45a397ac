// SPDX-License-Identifier: Apache-2.0
// tokenize: ids of a text, or text of ids.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "adapt/text_assets.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace firstlight::cli {
namespace {

// A tokenizer does not need weights: a directory without them, a vocabulary-only GGUF or a single file will do.
Result<text::Tokenizer> open_tokenizer(const std::string& path) {
  if (!path.ends_with(".gguf")) {
    const adapt::TextAssets assets = adapt::load_text_assets(path, nullptr);
    if (assets.tokenizer) return *assets.tokenizer;
    const auto checkpoint = formats::Checkpoint::open(path);
    if (!checkpoint.ok() || checkpoint->gguf() == nullptr) return assets.require_tokenizer();
    return adapt::load_text_assets(path, &*checkpoint).require_tokenizer();
  }
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(path));
  return adapt::load_text_assets(path, &checkpoint).require_tokenizer();
}

std::string ids_text(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace

Result<int> verb_tokenize(const CommonFlags& common, const TokenizeFlags& flags) {
  const text::Tokenizer tokenizer = FL_TRY(open_tokenizer(common.model));
  const text::EncodeOptions options{.add_special = !flags.no_special};
  if (flags.decode) {
    const auto ids = FL_TRY(parse_token_ids("--decode", *flags.decode));
    const std::string text = tokenizer.decode(ids, {.skip_special = flags.no_special});
    common.json ? print_json({{"text", text}}) : static_cast<void>(std::printf("%s\n", text.c_str()));
    return 0;
  }
  if (flags.lines) {
    int number = 0;
    Json all = Json::array();
    for (std::string line; std::getline(std::cin, line);) {
      ++number;
      const auto parsed = FL_TRY(parse_json(line).with_context("line " + std::to_string(number)));
      if (!parsed.is_string()) return invalid_data("line " + std::to_string(number) + ": a JSON string wanted");
      const auto ids = FL_TRY(tokenizer.encode(parsed.get_ref<const std::string&>(), options));
      if (common.json) {
        all.push_back(ids);
      } else {
        std::printf("%s\n", dump_json(Json(ids)).c_str());
      }
    }
    if (common.json) print_json({{"lines", std::move(all)}});
    return 0;
  }
  const std::string text =
      flags.text ? *flags.text
                 : std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  const auto ids = FL_TRY(tokenizer.encode(text, options));
  common.json ? print_json({{"ids", ids}}) : static_cast<void>(std::printf("%s\n", ids_text(ids).c_str()));
  return 0;
}

}  // namespace firstlight::cli
