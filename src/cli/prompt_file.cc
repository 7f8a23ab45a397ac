// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt_file.h"

#include <limits>
#include <sstream>

#include "base/file_map.h"
#include "base/json.h"

namespace firstlight::cli {
namespace {

Result<std::vector<int32_t>> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return invalid_data("a prompt holds " + dump_json(id) + ", token ids wanted");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<std::vector<std::vector<int32_t>>> from_json(const Json& json, const adapt::TextAssets& assets) {
  if (json.is_object() && json.contains("prompts")) return from_json(json["prompts"], assets);
  if (json.is_object() && json.contains("prompt") && json["prompt"].is_array())
    return std::vector<std::vector<int32_t>>{FL_TRY(ids_of(json["prompt"]))};
  if (!json.is_array()) return invalid_data("a list of prompts wanted");
  std::vector<std::vector<int32_t>> prompts;
  for (const Json& entry : json) {
    if (entry.is_string()) {
      const text::Tokenizer tokenizer = FL_TRY(assets.require_tokenizer());
      prompts.push_back(FL_TRY(tokenizer.encode(entry.get<std::string>())));
    } else if (entry.is_array()) {
      prompts.push_back(FL_TRY(ids_of(entry)));
    } else {
      return invalid_data("the prompt " + dump_json(entry) + ", a text or a list of token ids wanted");
    }
  }
  return prompts;
}

bool looks_like_json(const std::string& content) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (content[first] == '[' || content[first] == '{');
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> read_prompts(const std::string& path, const adapt::TextAssets& assets) {
  const std::string content = FL_TRY(read_text_file(path));
  std::vector<std::vector<int32_t>> prompts;
  if (looks_like_json(content)) {
    const Json json = FL_TRY(parse_json(content).with_context(path));
    prompts = FL_TRY(from_json(json, assets).with_context(path));
  } else {
    const text::Tokenizer tokenizer = FL_TRY(assets.require_tokenizer());
    std::istringstream lines(content);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) prompts.push_back(FL_TRY(tokenizer.encode(line)));
    }
  }
  if (prompts.empty()) return invalid_data(path + ": no prompt in it");
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) return invalid_data(path + ": prompt " + std::to_string(i + 1) + " has no tokens");
  }
  return prompts;
}

}  // namespace firstlight::cli
