// SPDX-License-Identifier: Apache-2.0
// embed: the embeddings of texts.
#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "cli/embedding.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace firstlight::cli {
namespace {

// One JSON string per line.
Result<std::vector<std::string>> read_lines() {
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    const Json text = FL_TRY(parse_json(line).with_context("line " + std::to_string(texts.size() + 1)));
    if (!text.is_string()) {
      return invalid_data("line " + std::to_string(texts.size() + 1) + ": a JSON string wanted");
    }
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

Result<std::vector<std::vector<int32_t>>> encode(const Session& session, const EmbedFlags& flags,
                                                 std::vector<std::string> texts) {
  std::vector<std::vector<int32_t>> ids;
  if (!flags.tokens.empty()) ids.push_back(FL_TRY(parse_token_ids("--tokens", flags.tokens)));
  if (texts.empty()) return ids;
  const text::Tokenizer tokenizer = FL_TRY(session.text.require_tokenizer());
  for (const std::string& text : texts) ids.push_back(FL_TRY(tokenizer.encode(text)));
  return ids;
}

}  // namespace

Result<int> verb_embed(const CommonFlags& common, const EmbedFlags& flags) {
  if (flags.texts.empty() && flags.tokens.empty() && !flags.lines) {
    return invalid_argument("-t TEXT, --tokens IDS or --lines wanted");
  }
  if (flags.dimensions < 0) {
    return invalid_argument("--dimensions " + std::to_string(flags.dimensions) + ": 1 or more wanted");
  }
  const auto config = FL_TRY(embedding_config(common, {.pooling = flags.pooling, .no_normalise = flags.no_normalise}));
  std::vector<std::string> texts = flags.texts;
  if (flags.lines) texts = FL_TRY(read_lines());
  Session session = FL_TRY(open_session(common, {}, adapt::Hidden::kAlone));
  const auto ids = FL_TRY(encode(session, flags, std::move(texts)));
  auto vectors = FL_TRY(embed(session, ids, config.pooling));
  Json counts = Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    const auto width = static_cast<int64_t>(vectors[i].size());
    if (flags.dimensions > width) {
      return invalid_argument("--dimensions " + std::to_string(flags.dimensions) + ": the model has " +
                              std::to_string(width));
    }
    FL_TRY(request::finish_embedding(vectors[i], flags.dimensions, config.normalise));
    counts.push_back(ids[i].size());
  }
  FL_TRY(session.finish(common));
  if (common.json) {
    print_json({{"embeddings", vectors},
                {"tokens", std::move(counts)},
                {"pooling", request::pooling_name(config.pooling)},
                {"normalised", config.normalise}});
    return 0;
  }
  for (const auto& vector : vectors) std::printf("%s\n", dump_json(Json(vector)).c_str());
  return 0;
}

}  // namespace firstlight::cli
