// SPDX-License-Identifier: Apache-2.0
#include "gates/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/file_map.h"
#include "base/json.h"
#include "device/cpu/detect.h"
#include "engine/sampler.h"
#include "engine/scorer.h"

namespace firstlight::gates {
namespace {

// Keeps every row that is visited.
engine::RowVisitor keep_in(std::vector<std::vector<float>>& rows) {
  return [&rows](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
}

// A baseline that is no number would be compared with as if it were one.
Status check_rows(const Golden& golden, size_t from = 0) {
  for (size_t i = from; i < golden.logits.size(); ++i) {
    const Status status = engine::check_logits(golden.logits[i]);
    const int64_t position = golden.first_row + static_cast<int64_t>(i);
    if (!status.ok())
      return invalid_data(golden.origin + ", position " + std::to_string(position) + ": " + status.message());
  }
  return ok_status();
}

}  // namespace

std::vector<int32_t> default_golden_prompt(const adapt::TextAssets& assets, int64_t vocab_size) {
  if (assets.tokenizer) {
    auto ids = assets.tokenizer->encode("The sun rises in the east and sets in the");
    if (ids.ok() && !ids->empty()) return std::move(*ids);
  }
  constexpr int64_t kTokens = 8;
  std::vector<int32_t> ids;
  for (int64_t i = 1; i <= kTokens; ++i) ids.push_back(static_cast<int32_t>(vocab_size * i / (kTokens + 1)));
  return ids;
}

Result<Golden> make_golden(const adapt::LoadedModel& loaded, const adapt::BringUpOptions& options,
                           const std::vector<int32_t>& prompt, int64_t continuation) {
  if (prompt.empty()) return invalid_argument("a golden prompt of at least one token wanted");
  adapt::BringUpOptions plain;
  plain.backend = catalog::Backend::kReference;
  plain.headroom = options.headroom;
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  plain.buckets = {{1, 1}, {num_prompt, num_prompt}};
  const target::CpuTarget target = device::detect_cpu();
  auto plan = FL_TRY(compiler::compile(loaded.model.graph, adapt::compile_options(plain, target)));
  const auto executor = FL_TRY(load(*loaded.checkpoint, std::move(plan), *loaded.pool, plain, target));
  Golden golden{.origin = "reference backend", .tokens = prompt, .num_prompt = num_prompt};
  auto sequence = FL_TRY(engine::ScoredSequence::create(*executor, num_prompt + continuation));
  FL_TRY(sequence.feed(prompt, 0, 0, keep_in(golden.logits)));
  FL_TRY(check_rows(golden));
  for (int64_t i = 0; i < continuation; ++i) {
    const auto& row = golden.logits.back();
    golden.tokens.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    FL_TRY(sequence.feed({&golden.tokens.back(), 1}, 1, 0, keep_in(golden.logits)));
    FL_TRY(check_rows(golden, golden.logits.size() - 1));
  }
  return golden;
}

namespace {

Result<std::vector<int32_t>> read_prompt(const Json& facts) {
  if (!facts.is_object() || !facts.contains("prompt") || !facts["prompt"].is_array() || facts["prompt"].empty()) {
    return invalid_data("a list 'prompt' of token ids wanted");
  }
  std::vector<int32_t> prompt;
  for (const Json& token : facts["prompt"]) {
    const bool fits = token.is_number_unsigned() && token.get<uint64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) return invalid_data("'prompt' holds " + dump_json(token) + ", token ids wanted");
    prompt.push_back(token.get<int32_t>());
  }
  return prompt;
}

// The larger; not-a-number is larger than everything.
double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

Result<Golden> read_golden(const std::string& directory) {
  const std::string facts_path = directory + "/golden.json";
  const Json facts = FL_TRY(parse_json(FL_TRY(read_text_file(facts_path))).with_context(facts_path));
  Golden golden{.origin = directory, .tokens = FL_TRY(read_prompt(facts).with_context(facts_path))};
  golden.num_prompt = static_cast<int64_t>(golden.tokens.size());
  if (facts.contains("reference")) golden.origin += " " + dump_json(facts["reference"]);
  const auto file = FL_TRY(formats::Checkpoint::open(directory + "/golden.safetensors"));
  const auto* record = file.find("logits");
  if (record == nullptr || record->dtype != tensor::DType::kF32 || record->shape.size() != 2 ||
      record->shape[0] != golden.num_prompt) {
    return invalid_data(directory + "/golden.safetensors: 'logits', f32 [" + std::to_string(golden.num_prompt) +
                        ", vocabulary], wanted");
  }
  const auto bytes = FL_TRY(file.bytes(*record));
  const auto width = static_cast<size_t>(record->shape[1]);
  for (int64_t r = 0; r < golden.num_prompt; ++r) {
    auto& row = golden.logits.emplace_back(width);
    std::memcpy(row.data(), bytes.data() + static_cast<size_t>(r) * width * sizeof(float), width * sizeof(float));
  }
  FL_TRY(check_rows(golden));
  return golden;
}

Result<GoldenCheck> reproduce(runtime::Executor& executor, const Golden& golden) {
  GoldenCheck check{.bound = logits_bound(executor.plan())};
  std::vector<std::vector<float>> rows;
  auto sequence = FL_TRY(engine::ScoredSequence::create(executor, static_cast<int64_t>(golden.tokens.size())));
  const std::span<const int32_t> tokens = golden.tokens;
  const auto num_prompt = static_cast<size_t>(golden.num_prompt);
  FL_TRY(sequence.feed(tokens.first(num_prompt), 0, golden.first_row, keep_in(rows)));
  FL_TRY(sequence.feed(tokens.subspan(num_prompt), 1, golden.first_row, keep_in(rows)));
  if (rows.size() != golden.logits.size()) {
    return invalid_data("the golden has " + std::to_string(golden.logits.size()) + " rows of logits for " +
                        std::to_string(rows.size()) + " positions");
  }
  check.passed = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != golden.logits[i].size()) {
      return invalid_data("the golden's vocabulary has " + std::to_string(golden.logits[i].size()) +
                          " entries, the model's " + std::to_string(rows[i].size()));
    }
    const RowComparison row = compare_rows(rows[i], golden.logits[i], check.bound);
    const bool fine = row.rel_l2 <= check.bound && (row.best_equal || !row.best_decided);  // false for NaN
    if (!fine && check.first_wrong < 0) check.first_wrong = golden.first_row + static_cast<int64_t>(i);
    check.passed = check.passed && fine;
    check.worst_rel_l2 = worse(check.worst_rel_l2, row.rel_l2);
    check.worst_max_abs = worse(check.worst_max_abs, row.max_abs);
    check.least_cosine = std::min(check.least_cosine, row.cosine);
    ++check.rows;
    check.best_equal += row.best_equal ? 1 : 0;
    check.best_undecided += row.best_decided ? 0 : 1;
  }
  return check;
}

}  // namespace firstlight::gates
