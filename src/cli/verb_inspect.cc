// SPDX-License-Identifier: Apache-2.0
// inspect: what a checkpoint is and whether all of it is understood. Loads no weights.
#include <algorithm>
#include <cstdio>

#include "adapt/text_assets.h"
#include "base/json.h"
#include "cli/chat_formats.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "formats/tensor_file.h"
#include "intake/intake.h"

namespace firstlight::cli {
namespace {

Json reasons_json(const std::map<std::string, std::string>& waived) {
  Json object = Json::object();
  for (const auto& [name, reason] : waived) object[name] = reason;
  return object;
}

Json coverage_json(const intake::CoverageReport& coverage) {
  return {{"config",
           {{"bound", coverage.config.bound},
            {"waived", reasons_json(coverage.config.waived)},
            {"unknown", coverage.config.unknown},
            {"without_effect", coverage.config.without_effect}}},
          {"tensors",
           {{"bound", coverage.tensors.bound},
            {"waived", reasons_json(coverage.tensors.waived)},
            {"unbound", coverage.tensors.unbound},
            {"missing", coverage.tensors.missing}}}};
}

// Tensors and bytes per stored type.
Json types_json(const formats::Checkpoint& checkpoint) {
  std::map<std::string, std::pair<int64_t, uint64_t>> types;
  for (const auto& [name, record] : checkpoint.tensors()) {
    ++types[record.stored_type].first;
    types[record.stored_type].second += record.size_bytes;
  }
  Json object = Json::object();
  for (const auto& [type, sum] : types) object[type] = {{"tensors", sum.first}, {"bytes", sum.second}};
  return object;
}

int64_t count_parameters(const formats::Checkpoint& checkpoint) {
  int64_t parameters = 0;
  for (const auto& [name, record] : checkpoint.tensors()) parameters += record.num_elements();
  return parameters;
}

Json text_json(const adapt::TextAssets& text) {
  Json tokenizer = {{"source", text.tokenizer_source}};
  if (text.tokenizer) {
    tokenizer["vocabulary"] = text.tokenizer->vocab_size();
    tokenizer["bos"] = text.tokenizer->bos_id() ? Json(*text.tokenizer->bos_id()) : Json();
    tokenizer["eos"] = text.tokenizer->eos_id() ? Json(*text.tokenizer->eos_id()) : Json();
    tokenizer["adds_bos"] = text.tokenizer->adds_bos();
  } else {
    tokenizer["error"] = text.tokenizer_error;
  }
  Json chat = {{"source", text.chat_template_source}};
  if (!text.chat_template) chat["error"] = text.chat_template_error;
  const auto format = choose_chat_format(text, "auto");
  chat["answers"] = format.ok() ? format->name : format.status().message();
  return {{"tokenizer", std::move(tokenizer)}, {"chat_template", std::move(chat)}};
}

void print_names(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::printf("  %s:\n", title);
  for (const std::string& name : names) std::printf("    %s\n", name.c_str());
}

std::string id_text(const Json& id) { return id.is_null() ? "none" : dump_json(id); }

void print_text_assets(const Json& tokenizer, const Json& chat) {
  if (tokenizer.contains("error")) {
    std::printf("tokenizer: none: %s\n", tokenizer["error"].get<std::string>().c_str());
  } else {
    std::printf("tokenizer: %s, %lld tokens, bos %s%s, eos %s\n", tokenizer["source"].get<std::string>().c_str(),
                static_cast<long long>(tokenizer["vocabulary"].get<int64_t>()), id_text(tokenizer["bos"]).c_str(),
                tokenizer["adds_bos"].get<bool>() ? " (added)" : "", id_text(tokenizer["eos"]).c_str());
  }
  const bool none = chat.contains("error");
  std::printf("chat template: %s%s\n", none ? "none: " : "",
              chat[none ? "error" : "source"].get<std::string>().c_str());
  const std::string answers = chat["answers"].get<std::string>();
  if (!answers.empty()) std::printf("answers are read as: %s\n", answers.c_str());
}

void print_text(const Json& document, const intake::Model& model) {
  std::printf("%s, spec %s\n", model.architecture.c_str(), model.spec.c_str());
  std::printf("%lld parameters in %lld bytes", static_cast<long long>(document["parameters"].get<int64_t>()),
              static_cast<long long>(document["bytes"].get<int64_t>()));
  for (const auto& [type, sum] : document["types"].items()) {
    std::printf(", %lld x %s", static_cast<long long>(sum["tensors"].get<int64_t>()), type.c_str());
  }
  std::printf("\nquantisation: %s\n", model.quantisation.empty() ? "none declared" : model.quantisation.c_str());
  print_text_assets(document["tokenizer"], document["chat_template"]);
  const auto& config = model.coverage.config;
  const auto& tensors = model.coverage.tensors;
  std::printf("config keys: %zu bound, %zu waived, %zu unknown\n", config.bound.size(), config.waived.size(),
              config.unknown.size());
  for (const auto& [key, reason] : config.waived) std::printf("    waived %s: %s\n", key.c_str(), reason.c_str());
  print_names("unknown", config.unknown);
  std::printf("tensors: %zu bound, %zu waived, %zu unbound, %zu missing\n", tensors.bound.size(), tensors.waived.size(),
              tensors.unbound.size(), tensors.missing.size());
  for (const auto& [name, reason] : tensors.waived) std::printf("    waived %s: %s\n", name.c_str(), reason.c_str());
  print_names("unbound", tensors.unbound);
  print_names("missing", tensors.missing);
}

}  // namespace

Result<int> verb_inspect(const CommonFlags& common) {
  const adapt::BringUpOptions options = FL_TRY(bring_up_options(common));
  const auto checkpoint = FL_TRY(formats::Checkpoint::open(common.model));
  const auto model = FL_TRY(intake::load_model(checkpoint, options.intake));
  const adapt::TextAssets text = adapt::load_text_assets(common.model, &checkpoint);
  Json eos = Json::object();
  for (const auto& [id, source] : model.tokens.eos) eos[std::to_string(id)] = source;
  Json document = {{"architecture", model.architecture},
                   {"spec", model.spec},
                   {"parameters", count_parameters(checkpoint)},
                   {"bytes", checkpoint.total_bytes()},
                   {"files", checkpoint.files()},
                   {"types", types_json(checkpoint)},
                   {"quantisation", model.quantisation},
                   {"max_positions", model.max_positions ? Json(*model.max_positions) : Json()},
                   {"stop_tokens", std::move(eos)},
                   {"coverage", coverage_json(model.coverage)},
                   {"warnings", model.warnings}};
  document.update(text_json(text));
  common.json ? print_json(document) : print_text(document, model);
  return model.coverage.complete() ? 0 : 1;
}

}  // namespace firstlight::cli
