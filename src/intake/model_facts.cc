// SPDX-License-Identifier: Apache-2.0
#include "intake/model_facts.h"

#include "formats/gguf.h"
#include "intake/config_tree.h"

namespace firstlight::intake {
namespace {

void add_end(TokenFacts& facts, int64_t id, std::string_view source) {
  if (id < 0) return;
  std::string& sources = facts.eos[id];
  sources += (sources.empty() ? "" : ", ") + std::string(source);
}

Result<std::vector<int64_t>> ids_of(const ConfigNode* node, std::string_view key) {
  std::vector<int64_t> ids;
  if (node == nullptr || node->kind == ConfigNode::Kind::kNull) return ids;
  if (node->kind == ConfigNode::Kind::kInt) return std::vector<int64_t>{node->integer};
  for (const ConfigNode& item : node->items) {
    if (item.kind == ConfigNode::Kind::kInt) ids.push_back(item.integer);
  }
  if (node->kind != ConfigNode::Kind::kList || ids.size() != node->items.size()) {
    return invalid_data("generation_config.json, " + std::string(key) + ": found " + node->to_string() +
                        ", wanted an integer or a list of integers");
  }
  return ids;
}

}  // namespace

void add_config_tokens(const ir::Graph& graph, std::string_view source, TokenFacts& facts) {
  const auto ids = [&](const char* name) {
    const ops::Attribute* value = graph.metadata.find(name);
    if (value == nullptr) return std::vector<int64_t>{};
    if (const auto* one = std::get_if<int64_t>(value)) return std::vector<int64_t>{*one};
    if (const auto* list = std::get_if<std::vector<int64_t>>(value)) return *list;
    return std::vector<int64_t>{};
  };
  for (const int64_t id : ids("eos_token_id")) add_end(facts, id, source);
  if (const auto bos = ids("bos_token_id"); bos.size() == 1) facts.bos = bos[0];
  if (const auto pad = ids("pad_token_id"); pad.size() == 1) facts.pad = pad[0];
}

Status add_generation_tokens(std::string_view generation_config, TokenFacts& facts) {
  if (generation_config.empty()) return ok_status();
  const ConfigNode root = FL_TRY(parse_config_tree(generation_config).with_context("generation_config.json"));
  for (const int64_t id : FL_TRY(ids_of(root.find("eos_token_id"), "eos_token_id"))) {
    add_end(facts, id, "generation_config.json");
  }
  const auto bos = FL_TRY(ids_of(root.find("bos_token_id"), "bos_token_id"));
  if (!facts.bos && bos.size() == 1) facts.bos = bos[0];
  const auto pad = FL_TRY(ids_of(root.find("pad_token_id"), "pad_token_id"));
  if (!facts.pad && pad.size() == 1) facts.pad = pad[0];
  return ok_status();
}

void add_gguf_tokens(const formats::GgufFile& file, TokenFacts& facts) {
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = file.get_integer(key); id.ok()) add_end(facts, *id, key);
  }
  if (const auto id = file.get_integer("tokenizer.ggml.bos_token_id"); id.ok()) facts.bos = *id;
  if (const auto id = file.get_integer("tokenizer.ggml.padding_token_id"); id.ok()) facts.pad = *id;
}

}  // namespace firstlight::intake
