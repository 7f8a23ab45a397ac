// SPDX-License-Identifier: Apache-2.0
// bench: time to first token and throughput, beside the roof of this machine measured in the same run.
#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "device/cpu/detect.h"
#include "device/cpu/measure.h"
#include "gates/benchmark.h"
#include "gates/speculation.h"

namespace firstlight::cli {
namespace {

Json row_json(const gates::SpeculationRow& row) {
  return {{"text", row.text},         {"prompt", row.prompt}, {"batch", row.batch},   {"plain_tps", row.plain_tps},
          {"tps", row.tps},           {"ratio", row.ratio},   {"tokens", row.tokens}, {"drafted", row.drafted},
          {"accepted", row.accepted}, {"same_text", row.same}};
}

// With --speculate: what it gains on a text that repeats itself, and what it costs on one that does not.
Result<int> bench_speculation(const Session& session, const gates::SpeculationOptions& wanted, bool json) {
  gates::SpeculationOptions options = wanted;
  Progress bar("bench", static_cast<int64_t>(3 * options.prompts.size() * options.batches.size()),
               {.unit_name = "row"});
  options.row_done = [&] { bar.advance(1); };
  const auto rows =
      FL_TRY(gates::benchmark_speculation(*session.loaded->executor, session.loaded->predictor.get(), options));
  bar.finish();
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(row_json(row));
  if (json) {
    print_json({{"speculation", std::move(list)},
                {"threads", session.loaded->pool->num_threads()},
                {"backend", session.loaded->executor->plan().backend},
                {"compute", session.loaded->executor->plan().compute_mode}});
    return 0;
  }
  std::printf("%10s %8s %6s %14s %14s %7s %8s %9s %5s\n", "text", "prompt", "batch", "plain tok/s", "with tok/s",
              "ratio", "guessed", "accepted", "same");
  for (const auto& row : rows) {
    const double share = row.drafted > 0 ? static_cast<double>(row.accepted) / static_cast<double>(row.drafted) : 0;
    std::printf("%10s %8lld %6lld %14.1f %14.1f %7.3f %8lld %8.0f%% %5s\n", row.text.c_str(),
                static_cast<long long>(row.prompt), static_cast<long long>(row.batch), row.plain_tps, row.tps,
                row.ratio, static_cast<long long>(row.drafted), 100 * share, row.same ? "yes" : "NO");
  }
  return 0;
}

}  // namespace

Result<int> verb_bench(const CommonFlags& common, const BenchFlags& flags) {
  gates::BenchmarkOptions options;
  options.prompts = FL_TRY(parse_integers("--prompt", flags.prompt));
  options.depths = FL_TRY(parse_integers("--depth", flags.depth));
  options.batches = FL_TRY(parse_integers("--batch", flags.batch));
  options.decode_tokens = flags.decode;
  if (flags.decode < 0) return invalid_argument("--decode " + std::to_string(flags.decode) + ": 0 or more wanted");
  const int64_t widest = *std::max_element(options.batches.begin(), options.batches.end());
  if (widest < 1 || widest > 512) return invalid_argument("--batch " + flags.batch + ": 1 to 512 wanted");
  const int64_t outputs = std::max<int64_t>(widest, 16);
  CommonFlags own = common;
  if (own.generated.empty() && own.backend == "cpu" && !own.no_generated && !own.invariant) own.generated = "wait";
  const Speculation speculation = FL_TRY(parse_speculate(flags.speculate));
  if (speculation.tokens > 0 && options.depths != std::vector<int64_t>{0}) {
    return invalid_argument("--depth " + flags.depth + ": --speculate measures from --prompt on, 0 wanted");
  }
  own.predict = speculation.predict;
  const Session session = FL_TRY(open_session(own, {{outputs, outputs}, {512, outputs}}));
  if (speculation.tokens > 0) {
    const int status = FL_TRY(bench_speculation(session,
                                                {.prompts = options.prompts,
                                                 .batches = options.batches,
                                                 .decode_tokens = options.decode_tokens,
                                                 .draft_tokens = speculation.tokens},
                                                common.json));
    FL_TRY(session.finish(common));
    return status;
  }
  const size_t rows_total = options.prompts.size() * options.depths.size() * options.batches.size();
  Progress bar("bench", static_cast<int64_t>(rows_total), {.unit_name = "row"});
  options.row_done = [&] { bar.advance(1); };
  const auto rows = FL_TRY(gates::benchmark(*session.loaded->executor, options));
  bar.finish();
  const bool on_cpu = session.loaded->device == nullptr;  // the roof is the CPU's
  const target::CpuRoof roof =
      on_cpu ? device::measure_cpu(device::detect_cpu(), *session.loaded->pool) : target::CpuRoof{};
  const auto& memory = session.loaded->executor->memory();
  FL_TRY(session.finish(common));
  if (common.json) {
    Json list = Json::array();
    for (const auto& row : rows) {
      list.push_back({{"prompt", row.prompt},
                      {"depth", row.depth},
                      {"batch", row.batch},
                      {"ttft_s", row.ttft_s},
                      {"prompt_tps", row.prompt_tps},
                      {"decode_tps", row.decode_tps}});
    }
    print_json({{"rows", std::move(list)},
                {"roof", on_cpu ? Json{{"read_gbps", roof.read_gbps},
                                       {"f32_tflops", roof.f32_tflops},
                                       {"bf16_tflops", roof.bf16_tflops},
                                       {"int8_tops", roof.int8_tops}}
                                : Json()},
                {"threads", session.loaded->pool->num_threads()},
                {"backend", session.loaded->executor->plan().backend},
                {"compute", session.loaded->executor->plan().compute_mode},
                {"generated_steps", session.loaded->executor->num_generated_steps()},
                {"load_s", session.loaded->total_seconds()},
                {"weights_bytes", memory.resident_bytes + memory.mapped_bytes}});
  } else {
    std::printf("%8s %8s %6s %10s %12s %12s\n", "prompt", "depth", "batch", "ttft s", "prompt tok/s", "decode tok/s");
    for (const auto& row : rows) {
      std::printf("%8lld %8lld %6lld %10.3f %12.1f %12.1f\n", static_cast<long long>(row.prompt),
                  static_cast<long long>(row.depth), static_cast<long long>(row.batch), row.ttft_s, row.prompt_tps,
                  row.decode_tps);
    }
    if (on_cpu)
      std::printf("roof: read %.1f GB/s, f32 %.2f, bf16 %.2f Tflop/s, int8 %.2f Top/s on %d threads\n", roof.read_gbps,
                  roof.f32_tflops, roof.bf16_tflops, roof.int8_tops, session.loaded->pool->num_threads());
  }
  return 0;
}

}  // namespace firstlight::cli
