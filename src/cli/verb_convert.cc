// SPDX-License-Identifier: Apache-2.0
// convert: a GGUF file as a directory in Hugging Face layout.
#include <algorithm>
#include <cstdio>

#include "adapt/convert.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace firstlight::cli {
namespace {

Result<adapt::ConvertOptions> convert_options(const CommonFlags& common, const ConvertFlags& flags) {
  adapt::ConvertOptions options;
  const auto dtype = tensor::dtype_from_name(flags.to);
  if (!dtype || (flags.to != "bf16" && flags.to != "f16" && flags.to != "f32")) {
    return invalid_argument("--to " + flags.to + ": bf16, f16 or f32 wanted");
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

}  // namespace

Result<int> verb_convert(const CommonFlags& common, const ConvertFlags& flags) {
  adapt::ConvertOptions options = FL_TRY(convert_options(common, flags));
  std::unique_ptr<Progress> bar;
  int64_t last = 0;
  options.progress = [&](int64_t done, int64_t total) {
    if (!bar) bar = std::make_unique<Progress>("convert", total, ProgressOptions{.unit_name = "weights"});
    bar->advance(done - last);
    last = done;
  };
  const auto result = FL_TRY(adapt::convert(common.model, flags.output, options));
  if (bar) bar->finish();
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
