// SPDX-License-Identifier: Apache-2.0
// convert: a GGUF file as a directory in Hugging Face layout, or such a directory in a vendor's weight format.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "adapt/convert.h"
#include "adapt/quantise.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace firstlight::cli {
namespace {

Result<adapt::ConvertOptions> convert_options(const CommonFlags& common, const ConvertFlags& flags) {
  adapt::ConvertOptions options;
  const auto dtype = tensor::dtype_from_name(flags.to);
  if (!dtype || (flags.to != "bf16" && flags.to != "f16" && flags.to != "f32")) {
    return invalid_argument("--to " + flags.to + ": bf16, f16, f32, int8, int4, fp8 or mxfp4 wanted");
  }
  if (!flags.keep.empty() || flags.group) {
    return invalid_argument("--keep and --group are for --to int8, int4, fp8 and mxfp4");
  }
  if (flags.shard_mib < 0 || flags.shard_mib > (int64_t{1} << 40)) {
    return invalid_argument("--shard-mib " + std::to_string(flags.shard_mib) + ": 0 or a size in MiB wanted");
  }
  options.dtype = *dtype;
  options.max_shard_bytes = static_cast<uint64_t>(flags.shard_mib) << 20;
  options.intake = FL_TRY(bring_up_options(common)).intake;
  return options;
}

void print_summary(const adapt::Conversion& result) {
  double worst = 0;
  std::string where;
  for (const auto& tensor : result.tensors) {
    if (tensor.error < worst || (tensor.error == 0 && !where.empty())) continue;
    worst = tensor.error;
    where = tensor.name;
  }
  std::printf("%zu tensors; largest relative error %.3g (%s)\n", result.tensors.size(), worst, where.c_str());
  for (const std::string& file : result.files) std::printf("%s\n", file.c_str());
}

void print_quantised(const adapt::QuantisedCheckpoint& result) {
  int64_t before = 0, after = 0, count = 0;
  std::printf("%-12s %-12s %-10s %s\n", "max abs", "relative L2", "SQNR dB", "tensor");
  for (const auto& tensor : result.tensors) {
    before += tensor.bytes_before;
    after += tensor.bytes_after;
    if (!tensor.kept_because.empty()) continue;
    ++count;
    std::printf("%-12.4g %-12.4g %-10.2f %s (%s)\n", tensor.max_abs, tensor.relative_l2, tensor.sqnr_db,
                tensor.name.c_str(), tensor.format.c_str());
  }
  for (const auto& tensor : result.tensors) {
    if (tensor.kept_because.empty()) continue;
    std::printf("kept         %s: %s\n", tensor.name.c_str(), tensor.kept_because.c_str());
  }
  std::printf("%lld of %zu tensors quantised; %lld bytes, before %lld\n", static_cast<long long>(count),
              result.tensors.size(), static_cast<long long>(after), static_cast<long long>(before));
  for (const std::string& file : result.files) std::printf("%s\n", file.c_str());
}

Json json_of(const adapt::QuantisedCheckpoint& result) {
  Json tensors = Json::array();
  for (const auto& tensor : result.tensors) {
    Json entry = {{"name", tensor.name}, {"format", tensor.format}, {"elements", tensor.elements}};
    entry["bytes_before"] = tensor.bytes_before;
    entry["bytes_after"] = tensor.bytes_after;
    if (tensor.kept_because.empty()) {
      entry["max_abs"] = tensor.max_abs;
      entry["relative_l2"] = tensor.relative_l2;
      entry["error"] = tensor.relative_l2;
      entry["sqnr_db"] = std::isfinite(tensor.sqnr_db) ? Json(tensor.sqnr_db) : Json(nullptr);
    } else {
      entry["error"] = 0.0;
      entry["kept_because"] = tensor.kept_because;
    }
    tensors.push_back(std::move(entry));
  }
  return {{"tensors", tensors}, {"files", result.files}, {"warnings", result.warnings}};
}

// A bar over what options.progress tells.
class Bar {
 public:
  std::function<void(int64_t, int64_t)> hook() {
    return [this](int64_t done, int64_t total) {
      if (!bar_) bar_ = std::make_unique<Progress>("convert", total, ProgressOptions{.unit_name = "weights"});
      bar_->advance(done - last_);
      last_ = done;
    };
  }
  void finish() {
    if (bar_) bar_->finish();
  }

 private:
  std::unique_ptr<Progress> bar_;
  int64_t last_ = 0;
};

// What --policy or --to ask for; nothing where --to is a plain type.
Result<std::optional<adapt::QuantPolicy>> policy_of(const ConvertFlags& flags) {
  if (!flags.policy.empty()) return std::optional(FL_TRY(adapt::read_policy(flags.policy)));
  const auto format = adapt::quant_format_from_name(flags.to);
  if (!format) return std::optional<adapt::QuantPolicy>();
  adapt::QuantChoice choice{.format = *format};
  if (flags.group && !choice.packs_integers()) return invalid_argument("--group is for --to int8 and int4");
  choice = FL_TRY(adapt::QuantChoice::make(*format, flags.group));
  return std::optional(adapt::uniform_policy(choice, flags.keep));
}

Result<int> quantise(const CommonFlags& common, const ConvertFlags& flags, adapt::QuantPolicy policy) {
  if (flags.shard_mib < 0 || flags.shard_mib > (int64_t{1} << 40)) {
    return invalid_argument("--shard-mib " + std::to_string(flags.shard_mib) + ": 0 or a size in MiB wanted");
  }
  Bar bar;
  adapt::QuantiseOptions options{.policy = std::move(policy)};
  options.max_shard_bytes = static_cast<uint64_t>(flags.shard_mib) << 20;
  options.intake = FL_TRY(bring_up_options(common)).intake;
  options.progress = bar.hook();
  const auto result = FL_TRY(adapt::quantise(common.model, flags.output, options));
  bar.finish();
  for (const std::string& warning : result.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (common.json) {
    print_json(json_of(result));
  } else {
    print_quantised(result);
  }
  return 0;
}

}  // namespace

Result<int> verb_convert(const CommonFlags& common, const ConvertFlags& flags) {
  const RemoveOnInterrupt guard(flags.output);
  if (auto policy = FL_TRY(policy_of(flags))) return quantise(common, flags, std::move(*policy));
  adapt::ConvertOptions options = FL_TRY(convert_options(common, flags));
  Bar bar;
  options.progress = bar.hook();
  const auto result = FL_TRY(adapt::convert(common.model, flags.output, options));
  bar.finish();
  for (const std::string& warning : result.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (!common.json) {
    print_summary(result);
    return 0;
  }
  Json tensors = Json::array();
  for (const auto& tensor : result.tensors) tensors.push_back({{"name", tensor.name}, {"error", tensor.error}});
  print_json({{"tensors", tensors}, {"files", result.files}, {"warnings", result.warnings}});
  return 0;
}

}  // namespace firstlight::cli
